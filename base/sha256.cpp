#include "weft/base/sha256.h"

#include <openssl/evp.h>

#include "weft/base/error.h"

namespace weft {

struct Sha256::Context {
  EVP_MD_CTX* handle = EVP_MD_CTX_new();
  Context() = default;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context() { EVP_MD_CTX_free(handle); }
};

namespace {
void require(bool done) {
  if (!done) throw Error("the crypto library cannot compute SHA-256");
}
}  // namespace

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  require(context_->handle && EVP_DigestInit_ex(context_->handle, EVP_sha256(), nullptr) == 1);
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::span<const std::byte> bytes) {
  if (!bytes.empty()) require(EVP_DigestUpdate(context_->handle, bytes.data(), bytes.size()) == 1);
}

std::string Sha256::hex() {
  std::array<unsigned char, 32> digest{};
  require(EVP_DigestFinal_ex(context_->handle, digest.data(), nullptr) == 1);
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  text.reserve(64);
  for (const unsigned char byte : digest) {
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

std::string sha256_hex(std::span<const std::byte> bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.hex();
}

std::string sha256_hex(std::string_view text) {
  return sha256_hex(std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace weft
