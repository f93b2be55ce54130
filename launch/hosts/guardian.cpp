#include "weft/launch/hosts/guardian.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>
#include <utility>

#include "weft/base/error.h"

namespace weft {
namespace {

/// The guardian's whole life: positive numbers are groups to guard, negative ones groups that have ended, the
/// end of the pipe is the launcher's.
[[noreturn]] void watch(int pipe) {
  setsid();  // no signal of the terminal or of the launcher's group is meant for it
  prctl(PR_SET_NAME, "weft-guardian");
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_IGN);
  signal(SIGCHLD, SIG_DFL);
  const int nothing = open("/dev/null", O_RDWR);
  for (int standard = 0; standard < 3; ++standard) dup2(nothing, standard);
  if (pipe != 3) dup2(pipe, 3);
  close_range(4, ~0U, 0);
  std::set<pid_t> groups;
  pid_t message = 0;
  for (;;) {
    const ssize_t got = read(3, &message, sizeof(message));
    if (got < 0 && errno == EINTR) continue;
    if (got != sizeof(message)) break;
    if (message > 0) {
      groups.insert(message);
    } else {
      groups.erase(-message);
    }
  }
  for (const pid_t group : groups) kill(-group, SIGKILL);
  _exit(0);
}

}  // namespace

Guardian::Guardian() {
  PipeEnds pipe = make_pipe();
  pid_ = fork();
  if (pid_ < 0) throw Error(std::string("cannot fork: ") + std::strerror(errno));
  if (pid_ == 0) {
    pipe.writing.close();
    watch(pipe.reading.number());
  }
  pipe_ = std::move(pipe.writing);
}

Guardian::~Guardian() {
  pipe_.close();
  waitpid(pid_, nullptr, 0);
}

void Guardian::guard(pid_t group) const { tell(group); }
void Guardian::release(pid_t group) const { tell(-group); }

void Guardian::tell(pid_t message) const {
  // a pipe takes so short a message whole; without a guardian there is only less protection
  [[maybe_unused]] const auto written = write(pipe_.number(), &message, sizeof(message));
}

}  // namespace weft
