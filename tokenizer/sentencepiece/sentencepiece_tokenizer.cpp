#include "weft/tokenizer/sentencepiece/sentencepiece_tokenizer.h"

#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/sha256.h"
#include "weft/base/text/utf8.h"

namespace weft {
namespace {

using Processor = sentencepiece::SentencePieceProcessor;

// What never changes after loading; shared by all threads.
struct Model {
  std::string name;
  std::string fingerprint;
  Processor processor;
  std::vector<std::uint32_t> prefix;
};

std::optional<std::uint32_t> known(int id) {
  return id < 0 ? std::nullopt : std::optional(static_cast<std::uint32_t>(id));
}

// The library decodes whole lists only. Each piece adds its own text to what stands before, but for blanks at
// the very front and for runs of bytes; so the last pieces with text are context enough.
class SentencePieceDecoder final : public TokenDecoder {
 public:
  SentencePieceDecoder(std::shared_ptr<const Model> model, SpecialTokens special)
      : model_(std::move(model)), special_(special) {}

  std::string next(std::uint32_t number) override {
    const Processor& processor = model_->processor;
    if (number >= static_cast<std::uint32_t>(processor.GetPieceSize())) return {};
    const int id = static_cast<int>(number);
    if (processor.IsControl(id))
      return special_ == SpecialTokens::keep ? waiting_text() + processor.IdToPiece(id) : std::string();
    ids_.push_back(id);
    if (processor.IsByte(id)) return {};
    std::string text = waiting_text();
    // A piece with text is context enough for the next ones; one of blanks alone is not, at the front they
    // vanish.
    std::vector<int> before = std::exchange(ids_, {id});
    if (std::string alone = decoded(); !alone.empty())
      shown_ = std::move(alone);
    else
      ids_ = std::move(before);
    return text;
  }

  std::string finish() override {
    std::string text = waiting_text();
    forget();
    return text;
  }

 private:
  [[nodiscard]] std::string decoded() const {
    std::string text;
    const auto status = model_->processor.Decode(ids_, &text);
    if (!status.ok()) throw TokenizerError(fmt::format("{}: {}", model_->name, status.ToString()));
    return text;
  }
  std::string waiting_text() {
    std::string all = decoded();
    std::string text = all.substr(std::min(shown_.size(), all.size()));
    shown_ = std::move(all);
    return text;
  }
  void forget() {
    ids_.clear();
    shown_.clear();
  }

  std::shared_ptr<const Model> model_;
  SpecialTokens special_;
  std::vector<int> ids_;
  std::string shown_;  // the text of ids_ that has been given out
};

class SentencePieceTokenizer final : public Tokenizer {
 public:
  explicit SentencePieceTokenizer(std::shared_ptr<const Model> model) : model_(std::move(model)) {}

  using Tokenizer::encode;
  std::size_t encode(std::string_view text, std::vector<std::uint32_t>& ids) override {
    const RepairedText repaired = repair_utf8(text);
    std::vector<int> pieces;
    const auto status = model_->processor.Encode(repaired.text, &pieces);
    if (!status.ok()) throw TokenizerError(fmt::format("{}: {}", model_->name, status.ToString()));
    for (const int piece : pieces) ids.push_back(static_cast<std::uint32_t>(piece));
    return repaired.replaced;
  }

  [[nodiscard]] std::unique_ptr<TokenDecoder> decoder(SpecialTokens special) const override {
    return std::make_unique<SentencePieceDecoder>(model_, special);
  }
  [[nodiscard]] std::size_t vocab_size() const noexcept override {
    return static_cast<std::size_t>(model_->processor.GetPieceSize());
  }
  [[nodiscard]] std::optional<std::uint32_t> bos() const noexcept override {
    return known(model_->processor.bos_id());
  }
  [[nodiscard]] std::optional<std::uint32_t> eos() const noexcept override {
    return known(model_->processor.eos_id());
  }
  [[nodiscard]] std::span<const std::uint32_t> prompt_prefix() const noexcept override {
    return model_->prefix;
  }
  [[nodiscard]] std::span<const std::uint32_t> prompt_suffix() const noexcept override { return {}; }
  [[nodiscard]] const std::string& name() const noexcept override { return model_->name; }
  [[nodiscard]] const std::string& fingerprint() const noexcept override { return model_->fingerprint; }
  [[nodiscard]] std::unique_ptr<Tokenizer> share() const override {
    return std::make_unique<SentencePieceTokenizer>(model_);
  }

 private:
  std::shared_ptr<const Model> model_;
};

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) throw TokenizerError(fmt::format("{}: cannot be read", path.string()));
  return std::move(text).str();
}

}  // namespace

std::unique_ptr<Tokenizer> load_sentencepiece_tokenizer(const std::filesystem::path& file,
                                                        const std::string& name) {
  auto model = std::make_shared<Model>();
  model->name = name;
  const std::string bytes = read_file(file);
  model->fingerprint = sha256_hex(bytes);
  if (const auto status = model->processor.LoadFromSerializedProto(bytes); !status.ok())
    throw TokenizerError(fmt::format("{}: is no SentencePiece model: {}", name, status.ToString()));
  bool add_bos = true;
  if (const auto path = file.parent_path() / "tokenizer_config.json"; std::filesystem::exists(path)) {
    const auto config = nlohmann::json::parse(read_file(path), nullptr, false);
    if (!config.is_object()) throw TokenizerError(fmt::format("{}: is no JSON object", path.string()));
    if (const auto found = config.find("add_bos_token"); found != config.end() && found->is_boolean())
      add_bos = found->get<bool>();
  }
  if (const auto bos = known(model->processor.bos_id()); bos && add_bos) model->prefix.push_back(*bos);
  return std::make_unique<SentencePieceTokenizer>(std::move(model));
}

}  // namespace weft
