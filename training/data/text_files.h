#pragma once
// Bytes of text files as tokens.
#include <cstdint>
#include <string>
#include <vector>

#include "weft/base/files/readable_file.h"
#include "weft/training/data/dataset.h"

namespace weft {

/// The regular files that paths and globs name, in the order of their bytes; a further name or link of a file
/// already taken is skipped. A path that exists is taken as it is, whatever characters it holds. Throws
/// DatasetItemError, naming path or glob, for a path that does not exist or is no regular file, a file that
/// is empty or cannot be read, and a glob that matches no file.
[[nodiscard]] std::vector<std::string> find_text_files(const std::vector<std::string>& patterns);

/// Which windows of the files: all of them, or with an evaluation beside the training the first 95 % and the
/// last 5 % (at least one).
enum class TextPart : std::uint8_t { all, training, validation };

/// The files one after the other, cut into windows of sequence_length + 1 bytes without overlap, the last
/// bytes dropped. Sample n is window n of its epoch: in file order, or in an order drawn anew for every
/// (seed, epoch).
class TextFiles final : public Dataset {
 public:
  /// `window` = sequence_length + 1. Throws Error for a missing or empty file, or when there is not one
  /// window.
  TextFiles(const std::vector<std::string>& paths, std::uint64_t window, bool shuffle, std::uint64_t seed,
            TextPart part = TextPart::all);

  [[nodiscard]] std::uint64_t sample_count() const override { return endless; }
  /// Windows of one epoch.
  [[nodiscard]] std::uint64_t window_count() const noexcept { return windows_; }
  void read(std::uint64_t n, std::span<std::int32_t> tokens) const override;

 private:
  std::vector<ReadableFile> files_;
  std::vector<std::uint64_t> ends_;  ///< of each file, in bytes from the first one's start
  std::uint64_t first_ = 0;          ///< window
  std::uint64_t windows_ = 0;
  bool shuffle_;
  std::uint64_t seed_;
};

}  // namespace weft
