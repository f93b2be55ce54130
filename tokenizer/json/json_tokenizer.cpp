#include "weft/tokenizer/json/json_tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/sha256.h"
#include "weft/base/text/utf8.h"
#include "weft/tokenizer/bpe.h"
#include "weft/tokenizer/json/added_tokens.h"
#include "weft/tokenizer/json/normalizer.h"
#include "weft/tokenizer/json/pre_tokenizer.h"
#include "weft/tokenizer/json/text_decoder.h"

namespace weft {
namespace {

using nlohmann::json;

constexpr std::uint32_t largest_vocabulary = 1u << 24;
constexpr std::size_t largest_file = 512u << 20;
constexpr std::size_t most_cached_words = 1u << 20;
constexpr std::size_t longest_cached_word = 128;

// How GPT-2 and those after it cut a text.
constexpr std::string_view gpt2_words =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// A value of the file and where it stands.
class Value {
 public:
  Value(const json& value, std::string path) : value_(value), path_(std::move(path)) {}

  [[noreturn]] void refuse(const std::string& what) const {
    throw TokenizerError(fmt::format("{}: {}", path_.empty() ? "the file" : path_, what));
  }
  [[nodiscard]] const json& raw() const noexcept { return value_; }
  [[nodiscard]] bool is_null() const noexcept { return value_.is_null(); }
  // Missing members are null.
  [[nodiscard]] Value at(const char* key) const {
    static const json null;
    if (!value_.is_object()) refuse("is no object");
    const auto found = value_.find(key);
    return {found == value_.end() ? null : *found, path_.empty() ? key : path_ + "." + key};
  }
  [[nodiscard]] Value at(std::size_t i) const { return {value_.at(i), fmt::format("{}[{}]", path_, i)}; }
  [[nodiscard]] std::size_t size() const {
    if (!value_.is_array()) refuse("is no list");
    return value_.size();
  }
  [[nodiscard]] std::string text() const {
    if (!value_.is_string()) refuse("is no text");
    return value_.get<std::string>();
  }
  [[nodiscard]] bool boolean(bool missing) const {
    if (value_.is_null()) return missing;
    if (!value_.is_boolean()) refuse("is neither true nor false");
    return value_.get<bool>();
  }
  [[nodiscard]] std::uint32_t id() const {
    if (!value_.is_number_unsigned() || value_.get<std::uint64_t>() >= largest_vocabulary)
      refuse(fmt::format("is no id, a whole number from 0 to {}", largest_vocabulary - 1));
    return value_.get<std::uint32_t>();
  }
  [[nodiscard]] std::size_t count(std::size_t missing) const {
    if (value_.is_null()) return missing;
    if (!value_.is_number_unsigned()) refuse("is no whole number");
    return value_.get<std::size_t>();
  }
  [[nodiscard]] std::string type() const { return at("type").text(); }

 private:
  const json& value_;
  std::string path_;
};

// Bytes and the characters that stand for them in vocabularies of bytes: printable ones for themselves, the
// others for those from U+0100 on.
struct ByteCharacters {
  std::array<char32_t, 256> character{};
  std::array<int, 512> byte{};

  ByteCharacters() {
    byte.fill(-1);
    char32_t next = 256;
    for (std::size_t b = 0; b < 256; ++b) {
      const bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || (b >= 0xAE && b <= 0xFF);
      character[b] = printable ? static_cast<char32_t>(b) : next++;
      byte[character[b]] = static_cast<int>(b);
    }
  }
  // The bytes that a token stands for; none when a character of it stands for no byte.
  [[nodiscard]] std::optional<std::string> bytes_of(std::string_view token) const {
    std::string bytes;
    while (!token.empty()) {
      const Utf8Character c = first_character(token);
      if (!c.valid || c.code_point >= byte.size() || byte[c.code_point] < 0) return std::nullopt;
      bytes += static_cast<char>(static_cast<unsigned char>(byte[c.code_point]));
      token.remove_prefix(c.length);
    }
    return bytes;
  }
};

// `<0xE2>` and its like.
std::string byte_token_text(std::size_t byte) { return fmt::format("<0x{:02X}>", byte); }

int byte_of_token(std::string_view token) {
  if (token.size() != 6 || token.substr(0, 3) != "<0x" || token[5] != '>') return -1;
  const auto digit = [](char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
  };
  const int high = digit(token[3]), low = digit(token[4]);
  return high < 0 || low < 0 ? -1 : high * 16 + low;
}

SplitPattern read_pattern(const Value& value) {
  try {
    if (const Value text = value.at("String"); !text.is_null()) {
      if (text.text().empty()) text.refuse("is empty");
      return SplitPattern::literal(text.text());
    }
    if (const Value regex = value.at("Regex"); !regex.is_null()) return SplitPattern(regex.text());
  } catch (const TokenizerError& error) {
    value.refuse(error.what());
  }
  value.refuse("is neither String nor Regex");
}

void read_normalizer(const Value& value, Normalizer& normalizer) {
  if (value.is_null()) return;
  const std::string type = value.type();
  if (type == "Sequence") {
    const Value steps = value.at("normalizers");
    for (std::size_t i = 0; i < steps.size(); ++i) read_normalizer(steps.at(i), normalizer);
  } else if (type == "Prepend") {
    normalizer.add_prepend(value.at("prepend").text());
  } else if (type == "Replace") {
    normalizer.add_replace(read_pattern(value.at("pattern")), value.at("content").text());
  } else if (type == "NFC") {
    normalizer.add_nfc();
  } else {
    value.refuse(fmt::format("{} is not computed; known: Sequence, Prepend, Replace, NFC", type));
  }
}

PreTokenizer::Prepend read_prepend_scheme(const Value& value) {
  const Value scheme = value.at("prepend_scheme");
  if (scheme.is_null())  // older files
    return value.at("add_prefix_space").boolean(true) ? PreTokenizer::Prepend::always
                                                      : PreTokenizer::Prepend::never;
  if (scheme.text() == "always") return PreTokenizer::Prepend::always;
  if (scheme.text() == "first") return PreTokenizer::Prepend::first;
  if (scheme.text() == "never") return PreTokenizer::Prepend::never;
  scheme.refuse("is none of always, first, never");
}

// True when the words are bytes from here on.
bool read_pre_tokenizer(const Value& value, PreTokenizer& pre_tokenizer) {
  if (value.is_null()) return false;
  const std::string type = value.type();
  if (type == "Sequence") {
    const Value steps = value.at("pretokenizers");
    bool bytes = false;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (bytes) steps.at(i).refuse("a step behind ByteLevel is not computed");
      bytes = read_pre_tokenizer(steps.at(i), pre_tokenizer);
    }
    return bytes;
  }
  if (type == "ByteLevel") {
    if (value.at("add_prefix_space").boolean(true)) pre_tokenizer.add_prefix_space();
    if (value.at("use_regex").boolean(true))
      pre_tokenizer.add_split(SplitPattern(gpt2_words), Delimiter::isolated, false);
    return true;
  }
  if (type == "Split") {
    const Value behavior = value.at("behavior");
    constexpr std::array<std::pair<std::string_view, Delimiter>, 5> known = {
        {{"Removed", Delimiter::removed},
         {"Isolated", Delimiter::isolated},
         {"MergedWithPrevious", Delimiter::merged_with_previous},
         {"MergedWithNext", Delimiter::merged_with_next},
         {"Contiguous", Delimiter::contiguous}}};
    const auto found = std::find_if(known.begin(), known.end(),
                                    [&](const auto& entry) { return entry.first == behavior.text(); });
    if (found == known.end())
      behavior.refuse("is none of Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous");
    pre_tokenizer.add_split(read_pattern(value.at("pattern")), found->second,
                            value.at("invert").boolean(false));
  } else if (type == "Digits") {
    const bool individual = value.at("individual_digits").boolean(false);
    pre_tokenizer.add_split(SplitPattern(individual ? R"(\p{N})" : R"(\p{N}+)"), Delimiter::isolated, false);
  } else if (type == "Metaspace") {
    const std::string replacement = value.at("replacement").text();
    if (replacement.empty()) value.at("replacement").refuse("is empty");
    pre_tokenizer.add_metaspace(replacement, read_prepend_scheme(value), value.at("split").boolean(true));
  } else {
    value.refuse(
        fmt::format("{} is not computed; known: Sequence, ByteLevel, Split, Digits, Metaspace", type));
  }
  return false;
}

void read_decoder(const Value& value, DecoderSteps& steps) {
  if (value.is_null()) {
    steps.joined_by_blanks = true;
    return;
  }
  bool fused = false;
  const auto step = [&](const Value& part, bool alone) {
    const std::string type = part.type();
    if (type == "ByteLevel" && alone) {
      steps.byte_level = true;
    } else if (type == "Metaspace" && !steps.byte_fallback && !fused) {
      steps.metaspace = part.at("replacement").text();
      steps.metaspace_drops_first = read_prepend_scheme(part) != PreTokenizer::Prepend::never;
    } else if (type == "Replace" && !steps.byte_fallback && !fused && steps.metaspace.empty()) {
      steps.before_bytes.push_back({read_pattern(part.at("pattern")), part.at("content").text()});
    } else if (type == "ByteFallback" && !fused) {
      steps.byte_fallback = true;
    } else if (type == "Fuse") {
      fused = true;
    } else if (type == "Strip" && fused && steps.strip.empty()) {
      steps.strip = part.at("content").text();
      steps.strip_at_start = part.at("start").count(0);
      if (part.at("stop").count(0) != 0) part.at("stop").refuse("other than 0 is not computed");
      if (steps.strip.empty()) part.at("content").refuse("is empty");
    } else {
      part.refuse(
          fmt::format("{} is not computed here; known: ByteLevel alone, or Replace, Metaspace, ByteFallback, "
                      "Fuse, Strip in "
                      "this order",
                      type));
    }
  };
  if (value.type() != "Sequence") return step(value, true);
  const Value parts = value.at("decoders");
  for (std::size_t i = 0; i < parts.size(); ++i) step(parts.at(i), parts.size() == 1);
}

struct Template {
  std::vector<std::uint32_t> prefix;
  std::vector<std::uint32_t> suffix;
};

void read_post_processor(const Value& value, Template& around) {
  if (value.is_null()) return;
  const std::string type = value.type();
  if (type == "ByteLevel") return;  // about offsets only
  if (type == "Sequence") {
    const Value steps = value.at("processors");
    for (std::size_t i = 0; i < steps.size(); ++i) read_post_processor(steps.at(i), around);
    return;
  }
  if (type != "TemplateProcessing")
    value.refuse(fmt::format("{} is not computed; known: Sequence, ByteLevel, TemplateProcessing", type));
  if (!around.prefix.empty() || !around.suffix.empty()) value.refuse("a second template is not computed");
  const Value single = value.at("single");
  std::size_t texts = 0;
  for (std::size_t i = 0; i < single.size(); ++i) {
    const Value piece = single.at(i);
    if (!piece.at("Sequence").is_null()) {
      if (++texts > 1) piece.refuse("the text stands in it twice");
      continue;
    }
    const Value name = piece.at("SpecialToken").at("id");
    const Value ids = value.at("special_tokens").at(name.text().c_str()).at("ids");
    for (std::size_t k = 0; k < ids.size(); ++k)
      (texts == 0 ? around.prefix : around.suffix).push_back(ids.at(k).id());
  }
  if (texts == 0) single.refuse("the text does not stand in it");
}

std::vector<AddedToken> read_added_tokens(const Value& value) {
  std::vector<AddedToken> tokens;
  if (value.is_null()) return tokens;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const Value item = value.at(i);
    AddedToken& token = tokens.emplace_back();
    token.content = item.at("content").text();
    token.id = item.at("id").id();
    token.single_word = item.at("single_word").boolean(false);
    token.lstrip = item.at("lstrip").boolean(false);
    token.rstrip = item.at("rstrip").boolean(false);
    token.special = item.at("special").boolean(false);
    token.normalized = item.at("normalized").boolean(!token.special);
  }
  return tokens;
}

// What never changes after loading; shared by all threads.
struct Tables {
  std::string name;
  std::string fingerprint;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  std::optional<AddedTokens> as_written;  // looked for in the text as it is
  std::optional<AddedTokens> normalized;  // and in the normalized text
  std::optional<BpeModel> model;
  std::shared_ptr<const DecoderSteps> decoder;
  std::shared_ptr<const TokenTexts> texts;
  Template around;
  std::optional<std::uint32_t> bos;
  std::optional<std::uint32_t> eos;
};

void refuse_if_set(const Value& value, const char* what) {
  if (!value.is_null()) value.refuse(what);
}

// model: vocabulary, merges and how words begin. Fills the texts of its tokens.
BpeModel read_model(const Value& model, bool words_are_bytes, TokenTexts& texts,
                    const ByteCharacters& characters) {
  if (const Value type = model.at("type"); !type.is_null() && type.text() != "BPE")
    type.refuse(fmt::format("{} is not computed; known: BPE", type.text()));
  if (const Value dropout = model.at("dropout"); !dropout.is_null() && dropout.raw() != json(0.0))
    dropout.refuse("tokens drawn at random are not computed");
  for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (const Value value = model.at(affix); !value.is_null() && !value.text().empty())
      value.refuse("is not computed");

  const Value vocabulary = model.at("vocab");
  if (!vocabulary.raw().is_object()) vocabulary.refuse("is no object of tokens and ids");
  std::unordered_map<std::string, std::uint32_t> tokens;  // as in the file
  tokens.reserve(vocabulary.raw().size());
  for (const auto& [text, id] : vocabulary.raw().items()) {
    const std::uint32_t number = Value(id, fmt::format("model.vocab.{}", json(text).dump())).id();
    tokens.emplace(text, number);
    if (number >= texts.entries.size()) texts.entries.resize(number + 1u);
    TokenTexts::Entry& entry = texts.entries[number];
    if (entry.known)
      vocabulary.refuse(
          fmt::format("{} and {} have one id, {}", json(entry.text).dump(), json(text).dump(), number));
    entry.known = true;
    entry.text = text;
    entry.byte = byte_of_token(text);
  }
  const auto id_of = [&](const std::string& token) {
    const auto found = tokens.find(token);
    return found == tokens.end() ? no_token : found->second;
  };

  const Value list = model.at("merges");
  std::vector<BpeModel::Merge> merges;
  merges.reserve(list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Value item = list.at(i);
    std::string left, right;
    if (item.raw().is_string()) {
      const std::string both = item.text();
      const std::size_t blank = both.find(' ');
      if (blank == std::string::npos || both.find(' ', blank + 1) != std::string::npos)
        item.refuse("is not two tokens with a blank between them");
      left = both.substr(0, blank);
      right = both.substr(blank + 1);
    } else {
      if (item.size() != 2) item.refuse("is not two tokens");
      left = item.at(std::size_t{0}).text();
      right = item.at(std::size_t{1}).text();
    }
    const BpeModel::Merge merge{id_of(left), id_of(right), id_of(left + right)};
    if (merge.left == no_token || merge.right == no_token || merge.merged == no_token)
      item.refuse(
          fmt::format("{} + {} is no merge of tokens of model.vocab", json(left).dump(), json(right).dump()));
    merges.push_back(merge);
  }

  BpeModel::Settings settings;
  settings.symbols_are_bytes = words_are_bytes;
  settings.byte_fallback = model.at("byte_fallback").boolean(false);
  settings.fuse_unknown = model.at("fuse_unk").boolean(false);
  settings.ignore_merges = model.at("ignore_merges").boolean(false);
  if (settings.byte_fallback && words_are_bytes)
    model.at("byte_fallback").refuse("together with ByteLevel is not computed");
  settings.byte_tokens.fill(no_token);
  for (std::size_t byte = 0; byte < 256; ++byte) settings.byte_tokens[byte] = id_of(byte_token_text(byte));
  if (const Value unknown = model.at("unk_token"); !unknown.is_null()) {
    settings.unknown = id_of(unknown.text());
    if (settings.unknown == no_token && !unknown.text().empty()) unknown.refuse("is not in model.vocab");
  }
  if (!words_are_bytes) return {settings, std::move(tokens), merges};
  std::unordered_map<std::string, std::uint32_t> byte_tokens;
  byte_tokens.reserve(tokens.size());
  for (const auto& [text, id] : tokens)
    if (auto bytes = characters.bytes_of(text)) byte_tokens.emplace(std::move(*bytes), id);
  return {settings, std::move(byte_tokens), merges};
}

// bos_token and eos_token of tokenizer_config.json: a text, or an object with its content.
std::optional<std::uint32_t> special_id(const json& config, const char* key, const TokenTexts& texts) {
  const auto found = config.find(key);
  if (found == config.end()) return std::nullopt;
  std::string content;
  if (found->is_string()) content = found->get<std::string>();
  if (found->is_object() && found->contains("content") && (*found)["content"].is_string())
    content = (*found)["content"].get<std::string>();
  for (std::size_t id = 0; id < texts.entries.size(); ++id)
    if (texts.entries[id].known && !content.empty() && texts.entries[id].text == content)
      return static_cast<std::uint32_t>(id);
  return std::nullopt;
}

std::optional<std::uint32_t> first_known(std::span<const std::string_view> names,
                                         const std::vector<AddedToken>& added) {
  for (const std::string_view name : names)
    for (const AddedToken& token : added)
      if (token.content == name) return token.id;
  return std::nullopt;
}

std::shared_ptr<const Tables> read_tables(std::string_view text, const std::string& name,
                                          const json& neighbour) {
  const json file = json::parse(text, nullptr, false);
  if (file.is_discarded()) throw TokenizerError("the file is not JSON, or not all of it");
  const Value root(file, "");
  if (!file.is_object() || root.at("model").is_null()) root.refuse("has no model: no tokenizer.json");
  refuse_if_set(root.at("truncation"), "texts that are cut off are not computed; set it to null");
  refuse_if_set(root.at("padding"), "padding is not computed; set it to null");

  auto tables = std::make_shared<Tables>();
  tables->name = name;
  tables->fingerprint = sha256_hex(text);
  read_normalizer(root.at("normalizer"), tables->normalizer);
  const bool words_are_bytes = read_pre_tokenizer(root.at("pre_tokenizer"), tables->pre_tokenizer);
  const ByteCharacters characters;
  auto texts = std::make_shared<TokenTexts>();
  tables->model.emplace(read_model(root.at("model"), words_are_bytes, *texts, characters));

  std::vector<AddedToken> added = read_added_tokens(root.at("added_tokens"));
  std::vector<AddedToken> as_written, normalized;
  Matcher matcher;
  for (std::size_t i = 0; i < added.size(); ++i) {
    AddedToken token = added[i];
    const Value place = root.at("added_tokens").at(i);
    if (token.id >= texts->entries.size()) texts->entries.resize(token.id + 1u);
    TokenTexts::Entry& entry = texts->entries[token.id];
    if (entry.known && entry.text != token.content)
      place.refuse(fmt::format("its id {} is that of {}", token.id, json(entry.text).dump()));
    entry.known = true;
    entry.special = token.special;
    entry.text = token.content;
    if (token.normalized && !tables->normalizer.empty())
      token.content = tables->normalizer.apply(token.content, matcher);
    (token.normalized ? normalized : as_written).push_back(std::move(token));
  }
  tables->as_written.emplace(std::move(as_written));
  tables->normalized.emplace(std::move(normalized));

  auto decoder = std::make_shared<DecoderSteps>();
  read_decoder(root.at("decoder"), *decoder);
  constexpr std::array<std::string_view, 4> begins = {"<s>", "<|begin_of_text|>", "<|startoftext|>", "<bos>"};
  constexpr std::array<std::string_view, 6> ends = {"</s>",       "<|end_of_text|>", "<|endoftext|>",
                                                    "<|im_end|>", "<eos>",           "<|eot_id|>"};
  tables->bos = neighbour.contains("bos_token") ? special_id(neighbour, "bos_token", *texts)
                                                : first_known(begins, added);
  tables->eos =
      neighbour.contains("eos_token") ? special_id(neighbour, "eos_token", *texts) : first_known(ends, added);
  if (decoder->byte_level)
    for (TokenTexts::Entry& entry : texts->entries)
      if (auto bytes = characters.bytes_of(entry.text)) entry.text = std::move(*bytes);
  tables->decoder = std::move(decoder);
  tables->texts = std::move(texts);
  read_post_processor(root.at("post_processor"), tables->around);
  return tables;
}

// The tokens of words seen before.
class WordCache {
 public:
  [[nodiscard]] const std::vector<std::uint32_t>* find(std::string_view word) const {
    const auto found = words_.find(word);
    return found == words_.end() ? nullptr : &found->second;
  }
  void remember(std::string_view word, std::span<const std::uint32_t> ids) {
    if (word.size() > longest_cached_word || words_.size() >= most_cached_words) return;
    words_.emplace(std::string(word), std::vector<std::uint32_t>(ids.begin(), ids.end()));
  }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>()(text);
    }
  };
  std::unordered_map<std::string, std::vector<std::uint32_t>, Hash, std::equal_to<>> words_;
};

class JsonTokenizer final : public Tokenizer {
 public:
  explicit JsonTokenizer(std::shared_ptr<const Tables> tables) : tables_(std::move(tables)) {}

  using Tokenizer::encode;
  std::size_t encode(std::string_view text, std::vector<std::uint32_t>& ids) override {
    if (is_valid_utf8(text)) {
      encode_valid(text, ids);
      return 0;
    }
    const RepairedText repaired = repair_utf8(text);
    encode_valid(repaired.text, ids);
    return repaired.replaced;
  }

  [[nodiscard]] std::unique_ptr<TokenDecoder> decoder(SpecialTokens special) const override {
    return make_text_decoder(tables_->decoder, tables_->texts, special);
  }
  [[nodiscard]] std::size_t vocab_size() const noexcept override { return tables_->texts->entries.size(); }
  [[nodiscard]] std::optional<std::uint32_t> bos() const noexcept override { return tables_->bos; }
  [[nodiscard]] std::optional<std::uint32_t> eos() const noexcept override { return tables_->eos; }
  [[nodiscard]] std::span<const std::uint32_t> prompt_prefix() const noexcept override {
    return tables_->around.prefix;
  }
  [[nodiscard]] std::span<const std::uint32_t> prompt_suffix() const noexcept override {
    return tables_->around.suffix;
  }
  [[nodiscard]] const std::string& name() const noexcept override { return tables_->name; }
  [[nodiscard]] const std::string& fingerprint() const noexcept override { return tables_->fingerprint; }
  [[nodiscard]] std::unique_ptr<Tokenizer> share() const override {
    return std::make_unique<JsonTokenizer>(tables_);
  }

 private:
  void encode_valid(std::string_view text, std::vector<std::uint32_t>& ids) {
    std::vector<AddedTokens::Part> parts;
    tables_->as_written->split(text, parts);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].token != nullptr) {
        ids.push_back(parts[i].token->id);
        continue;
      }
      const bool first = i == 0;
      if (tables_->normalizer.empty()) {
        encode_normalized(parts[i].text, first, ids);
      } else {
        const std::string normalized = tables_->normalizer.apply(parts[i].text, matcher_);
        encode_normalized(normalized, first, ids);
      }
    }
  }

  void encode_normalized(std::string_view text, bool first, std::vector<std::uint32_t>& ids) {
    std::vector<AddedTokens::Part> parts;
    tables_->normalized->split(text, parts);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (parts[i].token != nullptr) {
        ids.push_back(parts[i].token->id);
        continue;
      }
      tables_->pre_tokenizer.cut(parts[i].text, first && i == 0, matcher_, words_);
      for (const std::string_view word : words_.list) encode_word(word, ids);
    }
  }

  void encode_word(std::string_view word, std::vector<std::uint32_t>& ids) {
    if (const auto* known = cache_.find(word)) {
      ids.insert(ids.end(), known->begin(), known->end());
      return;
    }
    const std::size_t before = ids.size();
    tables_->model->encode_word(word, ids);
    cache_.remember(word, std::span(ids).subspan(before));
  }

  std::shared_ptr<const Tables> tables_;
  Matcher matcher_;
  Words words_;
  WordCache cache_;
};

std::string read_file(const std::filesystem::path& path, const std::string& name) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (!error && size > largest_file)
    throw TokenizerError(
        fmt::format("{}: is larger than {} MB, no tokenizer.json", name, largest_file >> 20));
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) throw TokenizerError(fmt::format("{}: cannot be read", name));
  return std::move(text).str();
}

std::unique_ptr<Tokenizer> make(std::string_view text, const std::string& name, const json& neighbour) {
  try {
    return std::make_unique<JsonTokenizer>(read_tables(text, name, neighbour));
  } catch (const TokenizerError& error) {
    throw TokenizerError(fmt::format("{}: {}", name, error.what()));
  }
}

}  // namespace

std::unique_ptr<Tokenizer> load_json_tokenizer(const std::filesystem::path& file, const std::string& name) {
  json neighbour = json::object();
  if (const auto path = file.parent_path() / "tokenizer_config.json"; std::filesystem::exists(path)) {
    neighbour = json::parse(read_file(path, path.string()), nullptr, false);
    if (!neighbour.is_object()) throw TokenizerError(fmt::format("{}: is no JSON object", path.string()));
  }
  return make(read_file(file, name), name, neighbour);
}

std::unique_ptr<Tokenizer> parse_json_tokenizer(std::string_view text, const std::string& name) {
  return make(text, name, json::object());
}

}  // namespace weft
