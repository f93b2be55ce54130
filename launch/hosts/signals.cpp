#include "weft/launch/hosts/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include <cstring>

#include "weft/base/error.h"

namespace weft {
namespace {

bool is_ignored(int number) {
  struct sigaction now {};
  sigaction(number, nullptr, &now);
  return now.sa_handler == SIG_IGN;
}

}  // namespace

SignalQueue::SignalQueue(std::initializer_list<int> numbers) {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : numbers)
    if (number != SIGHUP || !is_ignored(SIGHUP)) sigaddset(&set, number);
  descriptor_ = Descriptor(signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!descriptor_) throw Error("cannot make a descriptor for signals");
  pthread_sigmask(SIG_BLOCK, &set, &before_);
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &pipe_before_);
}

SignalQueue::~SignalQueue() {
  while (next()) {
  }
  descriptor_.close();
  sigaction(SIGPIPE, &pipe_before_, nullptr);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<int> SignalQueue::next() const {
  signalfd_siginfo info{};
  if (read(descriptor_.number(), &info, sizeof(info)) != sizeof(info)) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

std::string signal_name(int number) {
  const char* name = sigabbrev_np(number);
  std::string text = "signal " + std::to_string(number);
  if (name != nullptr) text += std::string(" (SIG") + name + ")";
  return text;
}

}  // namespace weft
