#include "weft/launch/console_writer.h"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <string_view>
#include <utility>

#include "weft/base/files/descriptor.h"
#include "weft/base/terminal.h"

namespace weft {
namespace {

constexpr std::size_t most_waiting = 4 * 1024 * 1024;

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
        (write_fully(next.descriptor, eraser) != 0 || write_fully(next.descriptor, next.text) != 0))
      failed.insert(next.descriptor);
    lock.lock();
    waiting_ -= next.text.size();
  }
}

}  // namespace weft
