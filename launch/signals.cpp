#include "weft/launch/signals.h"

#include <sys/signalfd.h>
#include <unistd.h>

#include "weft/base/error.h"

namespace weft {
namespace {

bool is_ignored(int number) {
  struct sigaction now {};
  sigaction(number, nullptr, &now);
  return now.sa_handler == SIG_IGN;
}

}  // namespace

SignalQueue::SignalQueue() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGCHLD, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT})
    sigaddset(&set, number);
  if (!is_ignored(SIGHUP)) sigaddset(&set, SIGHUP);
  descriptor_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (descriptor_ < 0) throw Error("cannot make a descriptor for signals");
  pthread_sigmask(SIG_BLOCK, &set, &before_);
  struct sigaction ignore {};
  ignore.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &ignore, &pipe_before_);
}

SignalQueue::~SignalQueue() {
  while (next()) {
  }
  close(descriptor_);
  sigaction(SIGPIPE, &pipe_before_, nullptr);
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<int> SignalQueue::next() const {
  signalfd_siginfo info{};
  if (read(descriptor_, &info, sizeof(info)) != sizeof(info)) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

}  // namespace weft
