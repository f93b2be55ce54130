#include "weft/launch/rank_output.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>
#include <utility>

#include "weft/base/terminal.h"

namespace weft {
namespace {

constexpr std::size_t longest_line = 64 * 1024;
constexpr std::size_t most_waiting = 4 * 1024 * 1024;
constexpr std::size_t last_line_count = 20;
constexpr std::size_t longest_last_line = 400;

/// False when the descriptor takes nothing any more.
bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) return false;
    pollfd room{descriptor, POLLOUT, 0};  // somebody else has made the terminal non-blocking
    poll(&room, 1, -1);
  }
  return true;
}

}  // namespace

ConsoleWriter::ConsoleWriter() {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  thread_ = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

ConsoleWriter::~ConsoleWriter() {
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void ConsoleWriter::write(int descriptor, std::string text) {
  if (text.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    waiting_ += text.size();
    texts_.push_back({descriptor, std::move(text)});
  }
  changed_.notify_one();
}

bool ConsoleWriter::full() const {
  const std::lock_guard lock(mutex_);
  return waiting_ > most_waiting;
}

void ConsoleWriter::run() {
  std::set<int> failed;
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return end_ || !texts_.empty(); });
    if (texts_.empty()) return;
    const Text next = std::move(texts_.front());
    texts_.pop_front();
    lock.unlock();
    const std::string_view eraser = line_eraser(next.descriptor);  // a rank may have drawn a bar there
    if (!failed.contains(next.descriptor) &&
        !(write_all(next.descriptor, eraser) && write_all(next.descriptor, next.text)))
      failed.insert(next.descriptor);
    lock.lock();
    waiting_ -= next.text.size();
  }
}

RankStream::RankStream(int pipe, int target, std::string prefix)
    : pipe_(pipe), target_(target), prefix_(std::move(prefix)) {
  if (pipe_ >= 0) fcntl(pipe_, F_SETFL, O_NONBLOCK);
}

RankStream::RankStream(RankStream&& other) noexcept
    : pipe_(std::exchange(other.pipe_, -1)),
      target_(other.target_),
      prefix_(std::move(other.prefix_)),
      partial_(std::move(other.partial_)),
      last_lines_(std::move(other.last_lines_)) {}

RankStream::~RankStream() { end(); }

void RankStream::end() {
  if (pipe_ >= 0) close(std::exchange(pipe_, -1));
}

void RankStream::emit(std::string_view line, std::string& out) {
  out.append(prefix_).append(line).push_back('\n');
  if (line.empty()) return;
  last_lines_.emplace_back(line.substr(0, longest_last_line));
  if (last_lines_.size() > last_line_count) last_lines_.pop_front();
}

void RankStream::take(std::string_view bytes, std::string& out) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::size_t room = longest_line - partial_.size();
    const std::size_t taken = std::min({end, bytes.size(), room});
    partial_.append(bytes.substr(0, taken));
    bytes.remove_prefix(taken);
    const bool line_ended = bytes.starts_with('\n');
    if (!line_ended && partial_.size() < longest_line) continue;
    if (line_ended) bytes.remove_prefix(1);
    emit(partial_, out);
    partial_.clear();
  }
}

void RankStream::pump(ConsoleWriter& writer) {
  std::array<char, 64 * 1024> buffer;
  std::string out;
  for (int reads = 0; reads < 4 && pipe_ >= 0; ++reads) {
    const ssize_t got = read(pipe_, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) break;
    if (got <= 0) {
      if (!partial_.empty()) emit(std::exchange(partial_, {}), out);
      end();
      break;
    }
    take({buffer.data(), static_cast<std::size_t>(got)}, out);
  }
  writer.write(target_, std::move(out));
}

void RankStream::finish(ConsoleWriter& writer) {
  pump(writer);
  std::string out;
  if (!partial_.empty()) emit(std::exchange(partial_, {}), out);
  writer.write(target_, std::move(out));
  end();
}

}  // namespace weft
