#pragma once
// Loading a checkpoint, whatever layout of ranks, stages and files wrote it: every rank asks by name.
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "weft/actors/optimizer.h"
#include "weft/actors/stage.h"
#include "weft/model/weights/safetensors.h"
#include "weft/training/checkpoint/manifest.h"

namespace weft {

/// One checkpoint open for reading. Opening reads the manifest and the files' headers; tensors are read when
/// they are asked for, and no others.
class CheckpointReader {
 public:
  /// Throws CheckpointError when the manifest or a file is missing, has another size than the manifest says,
  /// or is malformed. Contents are not hashed here: see verify_checkpoint in checkpoint_search.h.
  explicit CheckpointReader(std::filesystem::path checkpoint);

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] const Manifest& manifest() const noexcept { return manifest_; }

  /// All weights or all other tensors, sorted by name.
  [[nodiscard]] std::span<const StoredTensor* const> weights() const noexcept { return weights_; }
  [[nodiscard]] std::span<const StoredTensor* const> state() const noexcept { return state_; }

  /// The weight of that name. Throws CheckpointError when there is none.
  [[nodiscard]] const StoredTensor& weight(const std::string& name) const;

  /// Throws CheckpointError, listing what is missing and unexpected, unless the weights are those of a model
  /// with these parameters (all of them, of all ranks; second uses of tied weights left out).
  void require_model(const std::vector<std::string>& parameter_names) const;

  /// Puts back one rank's values, masters and optimizer state bit for bit. A second use of a tied weight gets
  /// what was stored for the first. Throws CheckpointError when something is missing or has another type or
  /// shape.
  void restore(std::span<Parameter* const> parameters, std::span<const OptimizerState> states) const;
  /// Loads values alone, converted to the parameters' types; masters become the stored masters or, without
  /// them, the stored values. For checkpoints without optimizer state and for starting afresh from trained
  /// weights.
  void load_weights(std::span<Parameter* const> parameters) const;

 private:
  std::filesystem::path path_;
  Manifest manifest_;
  std::vector<SafetensorsFile> files_;
  std::vector<const StoredTensor*> weights_;
  std::vector<const StoredTensor*> state_;
};

/// weights_sha256 of the stored weights, computed from their bytes, and the lines it is made of, sorted.
struct StoredWeightsHash {
  std::vector<std::string> lines;
  std::string sha256;
};
[[nodiscard]] StoredWeightsHash hash_weights(const CheckpointReader& reader);

}  // namespace weft
