#pragma once
// SHA-256 of data that comes in pieces.
#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace weft {

/// One SHA-256 in the making.
class Sha256 {
 public:
  /// Throws Error when the crypto library has no SHA-256.
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(std::span<const std::byte> bytes);
  void update(std::string_view text) { update(std::as_bytes(std::span(text.data(), text.size()))); }
  /// The digest as 64 lower-case hexadecimal digits. Nothing may be added afterwards.
  [[nodiscard]] std::string hex();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

/// SHA-256 of one range, as 64 lower-case hexadecimal digits.
[[nodiscard]] std::string sha256_hex(std::span<const std::byte> bytes);
[[nodiscard]] std::string sha256_hex(std::string_view text);

}  // namespace weft
