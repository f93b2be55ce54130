#include "weft/launch/hosts/local_host.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "weft/launch/hosts/free_port.h"
#include "weft/launch/hosts/handed_config.h"
#include "weft/launch/hosts/line_reader.h"
#include "weft/launch/hosts/process.h"
#include "weft/launch/hosts/rank_variables.h"

namespace weft {
namespace {

std::string name_of_this_host() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

void tell(HostObserver& observer, std::uint32_t rank, RankStream stream,
          const std::vector<std::string>& lines) {
  if (!lines.empty()) observer.printed(rank, stream, lines);
}

}  // namespace

struct LocalHost::Child {
  explicit Child(Process started)
      : pid(started.pid), output(std::move(started.output)), errors(std::move(started.errors)) {}

  pid_t pid;
  LineReader output;
  LineReader errors;
  bool ended = false;
};

LocalHost::LocalHost() : children_signals_({SIGCHLD}) {
  ::signal(SIGCHLD, SIG_DFL);  // where it is ignored, the system forgets how children end
}

LocalHost::~LocalHost() {
  // Some are left only when something was thrown.
  for (const Child& child : children_)
    if (!child.ended) kill(-child.pid, SIGKILL);
  for (const Child& child : children_)
    if (!child.ended) waitpid(child.pid, nullptr, 0);
}

void LocalHost::start(const RankProgram& program, const Rendezvous& rendezvous) {
  const Descriptor token = share_run_token(rendezvous.token);
  Meeting meeting{launcher_address(), rendezvous.port, find_free_port(), token.number()};
  Program child;
  child.path = find_program(program.program);
  child.arguments = program.arguments;
  child.inherited = {token.number()};
  std::optional<HandedConfig> config;
  if (program.config) child.inherited.push_back(config.emplace(*program.config).descriptor());
  // Whoever ends a whole session or control group sends these to every process: ranks leave them to the
  // launcher.
  if (program.stop_by == StopBy::message) child.ignored = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
  RankPlace place;
  place.mesh = program.mesh;
  place.host_name = name_of_this_host();
  place.local_world_size = program.mesh.world_size();
  for (std::uint32_t rank = 0; rank < program.mesh.world_size(); ++rank) {
    place.rank = place.local_rank = rank;
    Variables variables = rank_variables(place, meeting);
    if (config) variables.push_back(config->variable());
    child.environment = environment_with(variables);
    const Output output = program.speaker == rank ? Output::shared : Output::piped;
    children_.emplace_back(start_process(child, output));
    guardian_.guard(children_.back().pid);
  }
}

void LocalHost::signal(std::uint32_t rank, int number) {
  if (rank < children_.size() && !children_[rank].ended) kill(-children_[rank].pid, number);
}

void LocalHost::add_descriptors(std::vector<pollfd>& waiting, bool with_output) const {
  waiting.push_back({children_signals_.descriptor(), POLLIN, 0});
  if (!with_output) return;
  for (const Child& child : children_)
    for (const LineReader* stream : {&child.output, &child.errors})
      if (stream->descriptor() >= 0) waiting.push_back({stream->descriptor(), POLLIN, 0});
}

void LocalHost::report(HostObserver& observer, bool with_output) {
  while (children_signals_.next())
    continue;  // several ends may have come as one signal: all children are asked
  for (std::uint32_t rank = 0; rank < children_.size(); ++rank) {
    Child& child = children_[rank];
    siginfo_t how{};
    const bool ends = !child.ended &&
                      waitid(P_PID, static_cast<id_t>(child.pid), &how, WEXITED | WNOHANG | WNOWAIT) == 0 &&
                      how.si_pid != 0;
    if (ends) {
      // While it is not reaped, its number cannot become another group's.
      kill(-child.pid, SIGKILL);
      guardian_.release(child.pid);
      waitpid(child.pid, nullptr, 0);
      child.ended = true;
    }
    if (with_output || ends) {
      tell(observer, rank, RankStream::output, child.output.read());
      tell(observer, rank, RankStream::errors, child.errors.read());
    }
    if (ends) observer.ended(rank, {how.si_code != CLD_EXITED, how.si_status});
  }
}

bool LocalHost::may_print() const {
  return std::any_of(children_.begin(), children_.end(), [](const Child& child) {
    return child.output.descriptor() >= 0 || child.errors.descriptor() >= 0;
  });
}

void LocalHost::end_output(HostObserver& observer) {
  for (std::uint32_t rank = 0; rank < children_.size(); ++rank) {
    tell(observer, rank, RankStream::output, children_[rank].output.finish());
    tell(observer, rank, RankStream::errors, children_[rank].errors.finish());
  }
}

}  // namespace weft
