#include "weft/launch/supervise.h"

#include <poll.h>
#include <signal.h>

#include <algorithm>
#include <optional>

#include "weft/launch/console_writer.h"
#include "weft/launch/hosts/local_host.h"
#include "weft/launch/hosts/signals.h"
#include "weft/launch/supervisor.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;
using namespace std::chrono_literals;

/// How long output is still read when all ranks are gone but a descendant holds their pipes.
constexpr auto last_output_limit = 200ms;

RendezvousOptions server_options(const Job& job, const RankHost& host, const RunToken& token) {
  RendezvousOptions options;
  options.world_size = job.mesh.world_size();
  options.token = token;
  options.bind_address = host.launcher_address();
  options.heartbeat_limit = job.heartbeat_limit;
  options.join_limit = job.join_limit;
  return options;
}

class Launcher final : Supervisor::Voice {
 public:
  Launcher(const Job& job, RankHost& host)
      : job_(job),
        host_(host),
        signals_({SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT}),
        server_(server_options(job, host, token_)),
        supervisor_(job, host, *this) {}

  JobResult run() {
    host_.start(job_, {server_.port(), token_});
    while (!supervisor_.all_ended()) {
      wait(supervisor_.deadline());
      take_signals();
      host_.report(supervisor_, !console_.full());
      take_events();  // after the ends of ranks: what they said before
      supervisor_.settle(Clock::now());
    }
    take_events();
    JobResult result = supervisor_.result(Clock::now());
    const Time end = Clock::now() + last_output_limit;
    while (host_.may_print() && Clock::now() < end) {
      wait(end);
      host_.report(supervisor_, !console_.full());
    }
    host_.end_output(supervisor_);
    return result;
  }

 private:
  void announce_failure(const Failure& cause) override { server_.announce_failure(cause); }
  void request_stop() override { server_.request_stop(); }
  void write(int descriptor, std::string text) override { console_.write(descriptor, std::move(text)); }

  void wait(std::optional<Time> until) {
    const bool listens = !console_.full();
    std::chrono::milliseconds span = listens ? 60'000ms : 20ms;
    if (until) span = std::min(span, std::chrono::ceil<std::chrono::milliseconds>(*until - Clock::now()));
    std::vector<pollfd> waiting{{signals_.descriptor(), POLLIN, 0}, {server_.event_descriptor(), POLLIN, 0}};
    host_.add_descriptors(waiting, listens);
    poll(waiting.data(), waiting.size(), static_cast<int>(std::max(span, 0ms).count()));
  }

  void take_signals() {
    while (const auto number = signals_.next()) {
      supervisor_.take_signal(*number, Clock::now());
      if (*number == SIGTSTP) raise(SIGSTOP);
    }
  }

  void take_events() {
    while (const auto event = server_.next_event()) supervisor_.take_event(*event, Clock::now());
  }

  const Job& job_;
  RankHost& host_;
  SignalQueue signals_;  // before the first thread
  RunToken token_ = make_run_token();
  RendezvousServer server_;
  ConsoleWriter console_;
  Supervisor supervisor_;
};

}  // namespace

JobResult supervise(const Job& job, RankHost& host) { return Launcher(job, host).run(); }

JobResult supervise(const Job& job) {
  LocalHost host;
  return supervise(job, host);
}

}  // namespace weft
