#pragma once
// A flat file of little-endian token ids, without header, cut into windows.
#include <cstdint>
#include <span>
#include <string>

#include "weft/base/files/readable_file.h"

namespace weft {

/// Window i is tokens [i x window, (i + 1) x window); the last tokens are dropped.
class TokenWindows {
 public:
  /// `token_bytes` is 2 or 4. Throws Error, naming the file, when it is missing, empty or no multiple of
  /// token_bytes.
  TokenWindows(const std::string& path, std::uint64_t token_bytes, std::uint64_t window,
               std::uint64_t vocab_size);

  [[nodiscard]] std::string path() const { return file_.path().string(); }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return file_.size(); }
  [[nodiscard]] std::uint64_t token_count() const noexcept { return bytes() / token_bytes_; }
  [[nodiscard]] std::uint64_t window_count() const noexcept { return token_count() / window_; }

  /// Writes window `i` < window_count(). Throws Error, naming the byte offset, for a token outside the
  /// vocabulary and for a file that has become shorter.
  void read(std::uint64_t i, std::span<std::int32_t> tokens) const;
  /// Reads all windows once; throws as read() does.
  void check() const;

 private:
  void read_from(std::uint64_t first, std::span<std::int32_t> tokens) const;

  ReadableFile file_;
  std::uint64_t token_bytes_;
  std::uint64_t window_;
  std::uint64_t vocab_size_;
};

}  // namespace weft
