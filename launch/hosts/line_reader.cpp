#include "weft/launch/hosts/line_reader.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace weft {
namespace {

constexpr std::size_t longest_line = 64 * 1024;

}  // namespace

LineReader::LineReader(Descriptor pipe) : pipe_(std::move(pipe)) {
  if (pipe_) fcntl(pipe_.number(), F_SETFL, O_NONBLOCK);
}

void LineReader::take(std::string_view bytes, std::vector<std::string>& lines) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::size_t room = longest_line - partial_.size();
    const std::size_t taken = std::min({end, bytes.size(), room});
    partial_.append(bytes.substr(0, taken));
    bytes.remove_prefix(taken);
    const bool line_ended = bytes.starts_with('\n');
    if (!line_ended && partial_.size() < longest_line) continue;
    if (line_ended) bytes.remove_prefix(1);
    lines.push_back(std::exchange(partial_, {}));
  }
}

std::vector<std::string> LineReader::read() {
  std::array<char, 64 * 1024> buffer;
  std::vector<std::string> lines;
  for (int reads = 0; reads < 4 && pipe_; ++reads) {
    const ssize_t got = ::read(pipe_.number(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    if (got <= 0) {
      if (!partial_.empty()) lines.push_back(std::exchange(partial_, {}));
      pipe_.close();
      break;
    }
    take({buffer.data(), static_cast<std::size_t>(got)}, lines);
  }
  return lines;
}

std::vector<std::string> LineReader::finish() {
  std::vector<std::string> lines = read();
  if (!partial_.empty()) lines.push_back(std::exchange(partial_, {}));
  pipe_.close();
  return lines;
}

}  // namespace weft
