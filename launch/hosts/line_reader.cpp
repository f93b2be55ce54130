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

LineReader::LineReader(int pipe) : pipe_(pipe) {
  if (pipe_ >= 0) fcntl(pipe_, F_SETFL, O_NONBLOCK);
}

LineReader::LineReader(LineReader&& other) noexcept
    : pipe_(std::exchange(other.pipe_, -1)), partial_(std::move(other.partial_)) {}

LineReader::~LineReader() { end(); }

void LineReader::end() {
  if (pipe_ >= 0) close(std::exchange(pipe_, -1));
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
  for (int reads = 0; reads < 4 && pipe_ >= 0; ++reads) {
    const ssize_t got = ::read(pipe_, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    if (got <= 0) {
      if (!partial_.empty()) lines.push_back(std::exchange(partial_, {}));
      end();
      break;
    }
    take({buffer.data(), static_cast<std::size_t>(got)}, lines);
  }
  return lines;
}

std::vector<std::string> LineReader::finish() {
  std::vector<std::string> lines = read();
  if (!partial_.empty()) lines.push_back(std::exchange(partial_, {}));
  end();
  return lines;
}

}  // namespace weft
