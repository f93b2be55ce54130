#include "weft/tokenizer/tokenizer.h"

#include <fmt/format.h>

#include "weft/base/error.h"
#include "weft/tokenizer/byte_tokenizer.h"
#include "weft/tokenizer/json/json_tokenizer.h"
#include "weft/tokenizer/sentencepiece/sentencepiece_tokenizer.h"

namespace weft {

std::vector<std::uint32_t> Tokenizer::encode(std::string_view text) {
  std::vector<std::uint32_t> ids;
  encode(text, ids);
  return ids;
}

std::vector<std::uint32_t> Tokenizer::encode_prompt(std::string_view text) {
  const auto prefix = prompt_prefix();
  const auto suffix = prompt_suffix();
  std::vector<std::uint32_t> ids(prefix.begin(), prefix.end());
  encode(text, ids);
  ids.insert(ids.end(), suffix.begin(), suffix.end());
  return ids;
}

std::string Tokenizer::decode(std::span<const std::uint32_t> ids, SpecialTokens special) const {
  const auto one = decoder(special);
  std::string text;
  for (const std::uint32_t id : ids) text += one->next(id);
  return text + one->finish();
}

std::unique_ptr<Tokenizer> load_tokenizer(const std::string& name_or_path) {
  namespace fs = std::filesystem;
  if (name_or_path == "byte") return std::make_unique<ByteTokenizer>();
  const auto load = [&](const fs::path& file, const std::string& name) {
    return file.extension() == ".json" ? load_json_tokenizer(file, name)
                                       : load_sentencepiece_tokenizer(file, name);
  };
  const fs::path path(name_or_path);
  std::error_code error;
  if (fs::is_directory(path, error)) {
    for (const char* file : {"tokenizer.json", "tokenizer.model"})
      if (fs::exists(path / file, error)) return load(path / file, (path / file).string());
    throw TokenizerError(
        fmt::format("{}: the folder holds no tokenizer.json and no tokenizer.model", name_or_path));
  }
  if (!fs::exists(path, error))
    throw TokenizerError(
        fmt::format("{}: there is no such folder or file; allowed: byte, a folder with tokenizer.json or "
                    "tokenizer.model, or "
                    "one of those files (weft downloads nothing: fetch the folder first)",
                    name_or_path));
  if (path.extension() != ".json" && path.extension() != ".model")
    throw TokenizerError(fmt::format("{}: is neither a .json nor a .model file", name_or_path));
  return load(path, name_or_path);
}

}  // namespace weft
