#pragma once
// A Llama in a folder as Hugging Face's transformers writes it: config.json and safetensors, one file or
// shards.
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/actors/stage.h"
#include "weft/model/weights/hf_config.h"
#include "weft/model/weights/safetensors.h"

namespace weft {

/// A tensor that a Llama has: Hugging Face's name and its shape.
struct LlamaTensor {
  std::string name;
  std::vector<std::uint64_t> shape;
};

/// All tensors of the model, in its order; a tied head is left out.
[[nodiscard]] std::vector<LlamaTensor> llama_tensors(const LlamaArchitecture& config);

/// Such a folder, open for reading: its configuration is understood and its tensors are exactly the model's.
/// Tensors are read when they are asked for, so every rank reads its own share.
class HfFolder {
 public:
  /// What counts is what the files hold: an index says which files, and which of two that hold the same
  /// tensor; entries of it that nothing is behind do not matter. A tensor may be stored under another name
  /// that the file's metadata gives it (as safetensors writes shared tensors), a tied pair under the head's
  /// name alone. Stored rotary frequencies of old files are passed over. Throws CheckpointError, naming the
  /// file and what is wrong: see parse_hf_config and parse_safetensors; a folder with other files than
  /// safetensors; missing or unexpected tensors; other shapes; types other than F32, BF16 and F16; a stored
  /// head of a tied model that differs from the embedding.
  explicit HfFolder(std::filesystem::path folder);

  [[nodiscard]] const HfConfig& config() const noexcept { return config_; }
  [[nodiscard]] const std::string& config_text() const noexcept { return config_text_; }
  /// The model's tensors, in its order.
  [[nodiscard]] std::span<const StoredTensor* const> tensors() const noexcept { return tensors_; }

  /// Fills one rank's parameters, converted to their types (load_parameter.h); a second use of a tied weight
  /// gets the first one's values. Throws CheckpointError for a parameter that the model does not have.
  void load(std::span<Parameter* const> parameters) const;

 private:
  void open_files();
  void open_shards(const std::filesystem::path& index);
  void add_file(const SafetensorsFile& file);
  void sort_names();
  void find_under_other_names(const std::vector<LlamaTensor>& wanted);
  void arrange();
  [[nodiscard]] std::string hint_about_files() const;
  [[nodiscard]] const StoredTensor* find(std::string_view name) const noexcept;

  std::filesystem::path folder_;
  std::string config_text_;
  HfConfig config_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, const StoredTensor*> other_names_;  // that metadata give to tensors of the files
  std::deque<StoredTensor> aliases_;                        // those that the model asks for by such a name
  std::vector<std::string> absent_files_;                   // that an index names
  std::vector<const StoredTensor*> by_name_;
  std::vector<const StoredTensor*> tensors_;
};

}  // namespace weft
