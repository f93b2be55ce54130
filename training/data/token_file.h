#pragma once
// A flat file of little-endian token ids, without header.
#include <cstdint>
#include <optional>
#include <string>

#include "weft/training/data/dataset.h"
#include "weft/training/data/mapped_file.h"

namespace weft {

/// Sample n is tokens [n (sequence_length + 1), (n + 1)(sequence_length + 1)), in file order or in one order
/// drawn from the seed; the last tokens are dropped. Samples do not repeat.
class TokenFile final : public Dataset {
 public:
  /// `token_bytes` is 2 or 4, `window` = sequence_length + 1. Throws Error when the file is missing, empty,
  /// no multiple of token_bytes or shorter than one sample.
  TokenFile(const std::string& path, std::uint64_t token_bytes, std::uint64_t window,
            std::uint64_t vocab_size, bool shuffle, std::uint64_t seed);

  [[nodiscard]] std::uint64_t sample_count() const override { return samples_; }
  void read(std::uint64_t n, std::span<std::int32_t> tokens) const override;
  /// Reads all tokens of the samples once. Throws Error, naming the byte offset, for one outside the
  /// vocabulary.
  void check_tokens() const;

 private:
  [[nodiscard]] std::uint64_t token(std::uint64_t i) const noexcept;
  [[noreturn]] void refuse_token(std::uint64_t i) const;

  std::string path_;
  MappedFile file_;
  std::uint64_t token_bytes_;
  std::uint64_t window_;
  std::uint64_t vocab_size_;
  std::uint64_t samples_;
  bool shuffle_;
  std::uint64_t seed_;
};

}  // namespace weft
