#include "weft/tokenizer/byte_tokenizer.h"

namespace weft {
namespace {

class ByteDecoder final : public TokenDecoder {
 public:
  std::string next(std::uint32_t id) override {
    return id < 256 ? std::string(1, static_cast<char>(static_cast<unsigned char>(id))) : std::string();
  }
  std::string finish() override { return {}; }
};

}  // namespace

std::size_t ByteTokenizer::encode(std::string_view text, std::vector<std::uint32_t>& ids) {
  ids.reserve(ids.size() + text.size());
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return 0;
}

std::unique_ptr<TokenDecoder> ByteTokenizer::decoder(SpecialTokens) const {
  return std::make_unique<ByteDecoder>();
}

const std::string& ByteTokenizer::name() const noexcept {
  static const std::string name = "byte";
  return name;
}

const std::string& ByteTokenizer::fingerprint() const noexcept {
  static const std::string fingerprint = "byte";
  return fingerprint;
}

std::unique_ptr<Tokenizer> ByteTokenizer::share() const { return std::make_unique<ByteTokenizer>(); }

}  // namespace weft
