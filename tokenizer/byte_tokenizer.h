#pragma once
// Bytes as tokens: ids 0 to 255, no special tokens.
#include "weft/tokenizer/tokenizer.h"

namespace weft {

/// Takes bytes as they are: nothing is malformed, and decoding gives back any bytes.
class ByteTokenizer final : public Tokenizer {
 public:
  using Tokenizer::encode;
  std::size_t encode(std::string_view text, std::vector<std::uint32_t>& ids) override;
  [[nodiscard]] std::unique_ptr<TokenDecoder> decoder(SpecialTokens special) const override;
  [[nodiscard]] std::size_t vocab_size() const noexcept override { return 256; }
  [[nodiscard]] std::optional<std::uint32_t> bos() const noexcept override { return std::nullopt; }
  [[nodiscard]] std::optional<std::uint32_t> eos() const noexcept override { return std::nullopt; }
  [[nodiscard]] std::span<const std::uint32_t> prompt_prefix() const noexcept override { return {}; }
  [[nodiscard]] std::span<const std::uint32_t> prompt_suffix() const noexcept override { return {}; }
  [[nodiscard]] const std::string& name() const noexcept override;
  [[nodiscard]] const std::string& fingerprint() const noexcept override;
  [[nodiscard]] std::unique_ptr<Tokenizer> share() const override;
};

}  // namespace weft
