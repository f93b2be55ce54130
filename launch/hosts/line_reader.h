#pragma once
// One output stream of one process, in whole lines.
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/files/descriptor.h"

namespace weft {

/// Reads a pipe and cuts it into lines. Not a byte is lost: a last line without an end is one, too, and a
/// line above 64 KiB comes in pieces of that length.
class LineReader {
 public:
  /// `pipe` is made non-blocking; none means a stream that has ended.
  explicit LineReader(Descriptor pipe);

  /// -1 once the stream has ended.
  [[nodiscard]] int descriptor() const noexcept { return pipe_.number(); }
  /// Reads what is there, at most 256 KiB, and returns the lines that are complete, without their ends.
  [[nodiscard]] std::vector<std::string> read();
  /// The same, with a last line that has no end, and closes.
  [[nodiscard]] std::vector<std::string> finish();

 private:
  void take(std::string_view bytes, std::vector<std::string>& lines);

  Descriptor pipe_;
  std::string partial_;
};

}  // namespace weft
