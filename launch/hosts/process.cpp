#include "weft/launch/hosts/process.h"

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
#include <optional>
#include <string_view>
#include <utility>

#include "weft/base/error.h"

namespace weft {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (const std::string& one : strings) result.push_back(const_cast<char*>(one.c_str()));
  result.push_back(nullptr);
  return result;
}

/// Everything a child needs between fork and exec, where memory must not be allocated.
struct Start {
  const Program& program;
  char* const* arguments;
  char* const* environment;
  int output;  ///< -1 = this process's
  int errors;
  int report;  ///< takes errno when the program cannot be run
  pid_t parent;
};

/// Only async-signal-safe calls.
[[noreturn]] void become(const Start& start) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != start.parent) _exit(1);  // the parent went before the line above
  for (int number = 1; number < NSIG; ++number) signal(number, SIG_DFL);
  for (const int number : start.program.ignored) signal(number, SIG_IGN);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  dup2(open("/dev/null", O_RDONLY), 0);
  if (start.output >= 0) dup2(start.output, 1);
  if (start.errors >= 0) dup2(start.errors, 2);
  for (const int descriptor : start.program.inherited) fcntl(descriptor, F_SETFD, 0);
  execve(start.program.path.c_str(), start.arguments, start.environment);
  const int reason = errno;
  [[maybe_unused]] const auto written = write(start.report, &reason, sizeof(reason));
  _exit(127);
}

}  // namespace

Process start_process(const Program& program, Output output) {
  const std::vector<char*> arguments = pointers(program.arguments);
  const std::vector<char*> environment = pointers(program.environment);
  std::optional<PipeEnds> out;
  std::optional<PipeEnds> errors;
  if (output == Output::piped) {
    out = make_pipe();
    errors = make_pipe();
  }
  PipeEnds report = make_pipe();
  const Start start{program,
                    arguments.data(),
                    environment.data(),
                    out ? out->writing.number() : -1,
                    errors ? errors->writing.number() : -1,
                    report.writing.number(),
                    getpid()};
  Process process;
  process.pid = fork();
  if (process.pid == 0) become(start);
  if (process.pid < 0) throw Error(std::string("cannot fork: ") + std::strerror(errno));
  setpgid(process.pid, process.pid);  // here as well, so that the group exists when this function returns
  report.writing.close();
  int reason = 0;
  if (read(report.reading.number(), &reason, sizeof(reason)) == sizeof(reason)) {
    waitpid(process.pid, nullptr, 0);
    throw Error("cannot run " + program.path + ": " + std::strerror(reason));
  }
  if (out) process.output = std::move(out->reading);
  if (errors) process.errors = std::move(errors->reading);
  return process;
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
