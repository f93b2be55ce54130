#pragma once
// From tokens to text as the `decoder` of a tokenizer.json says.
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/tokenizer/split_pattern.h"
#include "weft/tokenizer/tokenizer.h"

namespace weft {

/// The decoders of tokenizer.json that weft computes, one after another.
struct DecoderSteps {
  bool byte_level = false;        ///< tokens are bytes; then nothing else applies
  bool joined_by_blanks = false;  ///< there is no decoder: tokens with blanks between them
  bool byte_fallback = false;     ///< <0xE2> and its like are bytes, between `before_bytes` and the rest
  struct Replace {
    SplitPattern pattern;
    std::string content;
  };
  std::vector<Replace> before_bytes;   ///< in each token
  std::string metaspace;               ///< what stands for a blank; empty: nothing does
  bool metaspace_drops_first = false;  ///< those of the first token are dropped
  std::string strip;                   ///< taken away at the front of the whole text
  std::size_t strip_at_start = 0;      ///< so often at most
};

/// The text of each id, with what decoding needs to know of it.
struct TokenTexts {
  struct Entry {
    std::string text;  ///< bytes where tokens are bytes
    bool known = false;
    bool special = false;
    int byte = -1;  ///< of <0xE2>
  };
  std::vector<Entry> entries;  ///< [id]
};

[[nodiscard]] std::unique_ptr<TokenDecoder> make_text_decoder(std::shared_ptr<const DecoderSteps> steps,
                                                              std::shared_ptr<const TokenTexts> texts,
                                                              SpecialTokens special);

}  // namespace weft
