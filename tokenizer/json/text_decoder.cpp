#include "weft/tokenizer/json/text_decoder.h"

#include <algorithm>

#include "weft/base/text/utf8.h"

namespace weft {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";

class TextDecoder : public TokenDecoder {
 public:
  TextDecoder(std::shared_ptr<const DecoderSteps> steps, std::shared_ptr<const TokenTexts> texts,
              SpecialTokens special)
      : steps_(std::move(steps)), texts_(std::move(texts)), special_(special) {}

 protected:
  // Null for an id that is no text: unknown, or special and left out.
  [[nodiscard]] const TokenTexts::Entry* entry(std::uint32_t id) const {
    if (id >= texts_->entries.size() || !texts_->entries[id].known) return nullptr;
    const TokenTexts::Entry& entry = texts_->entries[id];
    return entry.special && special_ == SpecialTokens::leave_out ? nullptr : &entry;
  }

  std::shared_ptr<const DecoderSteps> steps_;
  std::shared_ptr<const TokenTexts> texts_;
  SpecialTokens special_;
};

// Tokens are bytes: whole characters leave, the beginning of one waits.
class ByteLevelDecoder final : public TextDecoder {
 public:
  using TextDecoder::TextDecoder;

  std::string next(std::uint32_t id) override {
    if (const auto* token = entry(id)) held_ += token->text;
    std::size_t whole = 0;
    std::string text;
    while (whole < held_.size()) {
      const Utf8Character character = first_character(std::string_view(held_).substr(whole));
      if (character.cut_off) break;
      if (character.valid)
        text.append(held_, whole, character.length);
      else
        text += replacement;
      whole += character.length;
    }
    held_.erase(0, whole);
    return text;
  }

  std::string finish() override {
    const bool incomplete = !held_.empty();
    held_.clear();
    return incomplete ? std::string(replacement) : std::string();
  }

 private:
  std::string held_;
};

// Tokens are text: tokens that stand for bytes wait until the run of them ends, since it is text only as a
// whole.
class PieceDecoder final : public TextDecoder {
 public:
  using TextDecoder::TextDecoder;

  std::string next(std::uint32_t id) override {
    const auto* token = entry(id);
    if (token == nullptr) return {};
    const bool first = std::exchange(first_, false);
    if (steps_->byte_fallback && token->byte >= 0) {
      bytes_ += static_cast<char>(static_cast<unsigned char>(token->byte));
      return {};
    }
    std::string text = token->text;
    for (const DecoderSteps::Replace& replace : steps_->before_bytes) {
      std::string result;
      std::size_t done = 0;
      while (const auto match = matcher_.find(replace.pattern, text, done)) {
        result.append(text, done, match->begin - done);
        result += replace.content;
        done = match->end;
      }
      text = result.append(text, done, std::string::npos);
    }
    if (!steps_->metaspace.empty()) text = without_metaspace(text, first);
    if (steps_->joined_by_blanks && !first) text = std::string(1, ' ').append(text);
    return stripped(end_of_bytes() + text);
  }

  std::string finish() override {
    std::string text = stripped(end_of_bytes());
    first_ = true;
    stripped_ = 0;
    strips_ = true;
    return text;
  }

 private:
  std::string end_of_bytes() {
    const std::string bytes = std::exchange(bytes_, {});
    if (is_valid_utf8(bytes)) return bytes;
    std::string text;
    for (std::size_t i = 0; i < bytes.size(); ++i) text += replacement;
    return text;
  }

  [[nodiscard]] std::string without_metaspace(const std::string& text, bool first) const {
    const std::string& mark = steps_->metaspace;
    std::string result;
    for (std::size_t at = 0; at < text.size();)
      if (text.compare(at, mark.size(), mark) == 0) {
        if (!(first && steps_->metaspace_drops_first)) result += ' ';
        at += mark.size();
      } else {
        result += text[at++];
      }
    return result;
  }

  std::string stripped(std::string text) {
    const std::string& strip = steps_->strip;
    while (strips_ && !text.empty()) {
      strips_ = stripped_ < steps_->strip_at_start && text.compare(0, strip.size(), strip) == 0;
      if (!strips_) break;
      text.erase(0, strip.size());
      ++stripped_;
    }
    return text;
  }

  Matcher matcher_;
  std::string bytes_;
  bool first_ = true;
  std::size_t stripped_ = 0;
  bool strips_ = true;
};

}  // namespace

std::unique_ptr<TokenDecoder> make_text_decoder(std::shared_ptr<const DecoderSteps> steps,
                                                std::shared_ptr<const TokenTexts> texts,
                                                SpecialTokens special) {
  if (steps->byte_level)
    return std::make_unique<ByteLevelDecoder>(std::move(steps), std::move(texts), special);
  return std::make_unique<PieceDecoder>(std::move(steps), std::move(texts), special);
}

}  // namespace weft
