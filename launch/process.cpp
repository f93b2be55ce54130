#include "weft/launch/process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "weft/base/error.h"

namespace weft {
namespace {

class Pipe {
 public:
  Pipe() {
    if (pipe2(ends_.data(), O_CLOEXEC) != 0)
      throw Error(std::string("cannot make a pipe: ") + std::strerror(errno));
  }
  ~Pipe() {
    close_end(0);
    close_end(1);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  [[nodiscard]] int reading() const { return ends_[0]; }
  [[nodiscard]] int writing() const { return ends_[1]; }
  void close_writing() { close_end(1); }
  int take_reading() { return std::exchange(ends_[0], -1); }

 private:
  void close_end(std::size_t which) {
    if (ends_[which] >= 0) close(std::exchange(ends_[which], -1));
  }
  std::array<int, 2> ends_{-1, -1};
};

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (const std::string& one : strings) result.push_back(const_cast<char*>(one.c_str()));
  result.push_back(nullptr);
  return result;
}

/// What happens between fork and exec, so only async-signal-safe calls. Reports errno through `report` on
/// failure.
[[noreturn]] void become(const char* path, char* const* arguments, char* const* environment, int inherited,
                         int output, int errors, int report, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // the parent went before the line above
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int input = open("/dev/null", O_RDONLY);
  dup2(input, 0);
  if (output >= 0) dup2(output, 1);
  if (errors >= 0) dup2(errors, 2);
  if (inherited >= 0) fcntl(inherited, F_SETFD, 0);
  execve(path, arguments, environment);
  const int reason = errno;
  [[maybe_unused]] const auto written = write(report, &reason, sizeof(reason));
  _exit(127);
}

}  // namespace

Process start_process(const Program& program, Output output) {
  std::vector<char*> arguments = pointers(program.arguments);
  std::vector<char*> environment = pointers(program.environment);
  const pid_t parent = getpid();
  Pipe report;
  Process process;
  if (output == Output::shared) {
    process.pid = fork();
    if (process.pid == 0) {
      become(program.path.c_str(), arguments.data(), environment.data(), program.inherited, -1, -1,
             report.writing(), parent);
    }
  } else {
    Pipe out;
    Pipe err;
    process.pid = fork();
    if (process.pid == 0) {
      become(program.path.c_str(), arguments.data(), environment.data(), program.inherited, out.writing(),
             err.writing(), report.writing(), parent);
    }
    process.output = out.take_reading();
    process.errors = err.take_reading();
  }
  if (process.pid < 0) throw Error(std::string("cannot fork: ") + std::strerror(errno));
  setpgid(process.pid, process.pid);  // here as well, so that the group exists when this function returns
  report.close_writing();
  int reason = 0;
  if (read(report.reading(), &reason, sizeof(reason)) == sizeof(reason)) {
    waitpid(process.pid, nullptr, 0);
    if (process.output >= 0) close(process.output);
    if (process.errors >= 0) close(process.errors);
    throw Error("cannot run " + program.path + ": " + std::strerror(reason));
  }
  return process;
}

std::string signal_name(int number) {
  const char* name = sigabbrev_np(number);
  std::string text = "signal " + std::to_string(number);
  if (name != nullptr) text += std::string(" (SIG") + name + ")";
  return text;
}

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) {
    if (access(name.c_str(), X_OK) == 0) return name;
    throw Error("cannot run " + name + ": " + std::strerror(errno));
  }
  const char* path = std::getenv("PATH");
  std::string_view folders = path == nullptr ? "/usr/bin:/bin" : path;
  while (!folders.empty()) {
    const std::size_t end = std::min(folders.find(':'), folders.size());
    const std::string candidate = std::string(end == 0 ? "." : folders.substr(0, end)) + "/" + name;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
    folders.remove_prefix(std::min(end + 1, folders.size()));
  }
  throw Error("cannot run " + name + ": no such program in PATH");
}

}  // namespace weft
