#include "weft/launch/supervisor.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "weft/base/error.h"
#include "weft/launch/guardian.h"
#include "weft/launch/process.h"
#include "weft/launch/rank_output.h"
#include "weft/launch/rank_variables.h"
#include "weft/launch/signals.h"
#include "weft/launch/verdict.h"
#include "weft/transport/rendezvous/rendezvous_server.h"

namespace weft {
namespace {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;
using namespace std::chrono_literals;

/// From the announcement of a failure to SIGKILL: time for the other ranks to say good-bye.
constexpr auto farewell_limit = 500ms;
/// Signals to stop that come closer together are one wish; a third one ends its patience.
constexpr auto one_wish = 1s;
/// How long output is still read when all ranks are gone but a descendant holds their pipes.
constexpr auto last_output_limit = 200ms;

struct Rank {
  Rank(std::uint32_t number, const Process& started, bool has_speaker)
      : process(started),
        output(started.output, has_speaker ? STDERR_FILENO : STDOUT_FILENO,
               fmt::format("[rank {}] ", number)),
        errors(started.errors, STDERR_FILENO, fmt::format("[rank {}] ", number)) {}

  Process process;
  RankStream output;
  RankStream errors;
  bool joined = false;
  bool done = false;
  bool lost_peer = false;
  std::optional<siginfo_t> exit;  ///< how it ended
};

/// What is most often behind a signal that leaves a rank no last words.
std::string_view usual_reason(int signal) {
  switch (signal) {
    case SIGKILL:
      return ", by somebody or by a kernel out of memory (see dmesg)";
    case SIGBUS:
      return ": a file that it reads has become shorter, or /dev/shm is full";
    default:
      return "";
  }
}

/// A port of this host that nothing listens on at the moment.
std::uint16_t find_free_port() {
  const int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in place{};
  place.sin_family = AF_INET;
  place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(place);
  const bool found = bind(probe, reinterpret_cast<sockaddr*>(&place), size) == 0 &&
                     getsockname(probe, reinterpret_cast<sockaddr*>(&place), &size) == 0;
  close(probe);
  if (!found) throw Error("no free port on the loopback device");
  return ntohs(place.sin_port);
}

class Token {
 public:
  explicit Token(const RunToken& token) : descriptor_(share_run_token(token)) {}
  ~Token() { close(descriptor_); }
  Token(const Token&) = delete;
  Token& operator=(const Token&) = delete;
  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

RendezvousOptions server_options(const Job& job, const RunToken& token) {
  RendezvousOptions options;
  options.world_size = job.ranks;
  options.token = token;
  options.heartbeat_limit = job.heartbeat_limit;
  options.join_limit = job.join_limit;
  return options;
}

class Supervisor {
 public:
  explicit Supervisor(const Job& job) : job_(job), server_(server_options(job, secret_)) {
    ranks_.reserve(job.ranks);
  }
  ~Supervisor();
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;
  JobResult run();

 private:
  void start_all();
  void wait_for_news();
  [[nodiscard]] int patience() const;
  void handle_signals();
  void handle_events();
  void handle_event(const RendezvousEvent& event);
  void reap();
  void judge_exit(std::uint32_t number);
  void judge_quiet_exits();
  [[nodiscard]] bool blames() const;
  void handle_deadlines();
  void stop(int number);
  void fail(const Failure& cause);
  void drain_output();
  void signal_all(int number) const;
  void say(const std::string& message) { writer_.write(STDERR_FILENO, "weft: " + message + "\n"); }
  [[nodiscard]] bool all_exited() const;
  [[nodiscard]] bool any_output_open() const;

  const Job& job_;
  Guardian guardian_;  // before the first thread
  SignalQueue signals_;
  RunToken secret_ = make_run_token();
  RendezvousServer server_;
  ConsoleWriter writer_;
  std::vector<Rank> ranks_;
  Verdict verdict_;
  JobResult result_;
  std::optional<Time> kill_at_;
  Time stop_asked_;
  int stop_repeats_ = 0;
  bool killed_ = false;
};

Supervisor::~Supervisor() {
  // Some are left only when something was thrown.
  signal_all(SIGKILL);
  for (const Rank& rank : ranks_) {
    if (!rank.exit) waitpid(rank.process.pid, nullptr, 0);
  }
}

void Supervisor::start_all() {
  const Token token(secret_);
  const Meeting meeting{"127.0.0.1", server_.port(), find_free_port(), token.descriptor()};
  // Whoever ends a whole session or control group sends these to every process: ranks leave them to the
  // launcher.
  std::vector<int> ignored;
  if (job_.stop_by == StopBy::message) ignored = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
  for (std::uint32_t number = 0; number < job_.ranks; ++number) {
    Variables variables = rank_variables(number, job_.ranks, meeting);
    variables.insert(variables.end(), job_.environment.begin(), job_.environment.end());
    const Program program{job_.program, job_.arguments, environment_with(variables), token.descriptor(),
                          ignored};
    const Output output = job_.speaker == number ? Output::shared : Output::piped;
    ranks_.emplace_back(number, start_process(program, output), job_.speaker.has_value());
    guardian_.guard(ranks_.back().process.pid);
  }
}

JobResult Supervisor::run() {
  start_all();
  while (!all_exited()) {
    wait_for_news();
    handle_signals();
    handle_events();
    reap();
    handle_deadlines();
  }
  handle_events();
  if (const auto cause = verdict_.cause(Time::max()); cause && !result_.cause) fail(*cause);
  drain_output();
  return result_;
}

int Supervisor::patience() const {
  std::optional<Time> next = verdict_.deadline();
  if (kill_at_ && (!next || *kill_at_ < *next)) next = kill_at_;
  std::chrono::milliseconds span = writer_.full() ? 20ms : 60'000ms;
  if (next) span = std::min(span, std::chrono::ceil<std::chrono::milliseconds>(*next - Clock::now()));
  return static_cast<int>(std::max(span, 0ms).count());
}

void Supervisor::wait_for_news() {
  std::vector<pollfd> waiting{{signals_.descriptor(), POLLIN, 0}, {server_.event_descriptor(), POLLIN, 0}};
  std::vector<RankStream*> streams;
  const bool listen = !writer_.full();
  for (Rank& rank : ranks_) {
    for (RankStream* stream : {&rank.output, &rank.errors}) {
      if (!listen || stream->descriptor() < 0) continue;
      waiting.push_back({stream->descriptor(), POLLIN, 0});
      streams.push_back(stream);
    }
  }
  poll(waiting.data(), waiting.size(), patience());
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (waiting[i + 2].revents != 0) streams[i]->pump(writer_);
  }
}

void Supervisor::handle_signals() {
  while (const auto number = signals_.next()) {
    switch (*number) {
      case SIGCHLD:
        break;  // reap() looks by itself
      case SIGINT:
      case SIGTERM:
      case SIGHUP:
        stop(*number);
        break;
      case SIGTSTP:
        signal_all(SIGSTOP);
        raise(SIGSTOP);
        break;
      case SIGCONT:
        signal_all(SIGCONT);
        break;
      case SIGUSR1:
        signal_all(SIGUSR1);
        break;
      default:
        if (job_.stop_by == StopBy::signal) signal_all(*number);
    }
  }
}

void Supervisor::stop(int number) {
  if (result_.cause) return;
  if (result_.stop_signal != 0) {
    // `timeout` and shells send one wish twice, to the process and to its group.
    if (++stop_repeats_ >= 2 || Clock::now() - stop_asked_ > one_wish) kill_at_ = Clock::now();
    return;
  }
  result_.stop_signal = number;
  stop_asked_ = Clock::now();
  kill_at_ = Clock::now() + job_.stop_limit;
  server_.request_stop();
  if (job_.stop_by == StopBy::signal) signal_all(number);
}

void Supervisor::handle_events() {
  while (const auto event = server_.next_event()) handle_event(*event);
}

/// False once ranks end because the launcher made them.
bool Supervisor::blames() const {
  return !killed_ && (result_.stop_signal == 0 || job_.stop_by == StopBy::message);
}

void Supervisor::handle_event(const RendezvousEvent& event) {
  Rank& rank = ranks_[event.rank];
  const Failure news{event.rank, event.what};
  switch (event.kind) {
    case RendezvousEvent::Kind::joined:
      rank.joined = true;
      rank.done = false;
      return judge_quiet_exits();
    case RendezvousEvent::Kind::done:
      rank.done = true;
      return;
    case RendezvousEvent::Kind::failed:
      if (blames()) verdict_.convict(news);
      return;
    case RendezvousEvent::Kind::lost_peer:
      rank.lost_peer = true;
      [[fallthrough]];
    case RendezvousEvent::Kind::left:
      if (blames()) verdict_.suspect(news, Clock::now());
      return;
  }
}

void Supervisor::reap() {
  std::vector<std::uint32_t> ended;
  for (std::uint32_t number = 0; number < ranks_.size(); ++number) {
    Rank& rank = ranks_[number];
    siginfo_t how{};
    const auto pid = static_cast<id_t>(rank.process.pid);
    if (rank.exit || waitid(P_PID, pid, &how, WEXITED | WNOHANG | WNOWAIT) != 0 || how.si_pid == 0) continue;
    // While it is not reaped, its number cannot become another group's.
    kill(-rank.process.pid, SIGKILL);
    guardian_.release(rank.process.pid);
    waitpid(rank.process.pid, nullptr, 0);
    rank.exit = how;
    rank.output.pump(writer_);
    rank.errors.pump(writer_);
    ended.push_back(number);
  }
  if (ended.empty()) return;
  handle_events();  // what they said before they ended
  // A rank that was killed explains neighbours that gave up, not the other way round.
  std::stable_partition(ended.begin(), ended.end(),
                        [&](std::uint32_t number) { return ranks_[number].exit->si_code != CLD_EXITED; });
  for (const std::uint32_t number : ended) judge_exit(number);
}

void Supervisor::judge_exit(std::uint32_t number) {
  if (!blames()) return;
  const Rank& rank = ranks_[number];
  const bool exited = rank.exit->si_code == CLD_EXITED;
  if (exited && rank.exit->si_status == 0) return judge_quiet_exits();
  std::string what = exited
                         ? fmt::format("rank {} ended with exit status {}", number, rank.exit->si_status)
                         : fmt::format("rank {} was killed by {}{}", number,
                                       signal_name(rank.exit->si_status), usual_reason(rank.exit->si_status));
  if (!rank.errors.last_lines().empty()) what += "; its last words: " + rank.errors.last_lines().back();
  if (rank.lost_peer) return verdict_.suspect({number, what}, Clock::now());
  verdict_.convict({number, what});
}

void Supervisor::judge_quiet_exits() {
  const bool joins =
      job_.must_join || std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& one) { return one.joined; });
  if (!joins || !blames()) return;
  for (std::uint32_t number = 0; number < ranks_.size(); ++number) {
    const Rank& rank = ranks_[number];
    const bool quiet = rank.exit && rank.exit->si_code == CLD_EXITED && rank.exit->si_status == 0;
    if (quiet && !rank.done) {
      verdict_.convict(
          {number, fmt::format("rank {} ended with exit status 0 before its work was done", number)});
    }
  }
}

void Supervisor::handle_deadlines() {
  const Time now = Clock::now();
  if (!result_.cause) {
    if (const auto cause = verdict_.cause(now)) fail(*cause);
  }
  if (!kill_at_ || now < *kill_at_) return;
  kill_at_.reset();
  killed_ = true;
  if (!result_.cause)
    say(stop_repeats_ > 0 ? "asked again to stop: the ranks were killed"
                          : "the ranks did not stop by themselves and were killed");
  signal_all(SIGKILL);
}

void Supervisor::fail(const Failure& cause) {
  result_.cause = cause;
  server_.announce_failure(cause);
  say(cause.what);
  kill_at_ = Clock::now() + farewell_limit;
  for (const Rank& rank : ranks_) {
    if (!rank.exit && !rank.joined) kill(-rank.process.pid, SIGTERM);  // it cannot hear the announcement
  }
}

void Supervisor::drain_output() {
  const Time end = Clock::now() + last_output_limit;
  while (any_output_open() && Clock::now() < end) {
    kill_at_ = end;  // bounds the wait
    wait_for_news();
  }
  for (Rank& rank : ranks_) {
    rank.output.finish(writer_);
    rank.errors.finish(writer_);
  }
}

void Supervisor::signal_all(int number) const {
  for (const Rank& rank : ranks_) {
    if (!rank.exit) kill(-rank.process.pid, number);
  }
}

bool Supervisor::all_exited() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.exit.has_value(); });
}

bool Supervisor::any_output_open() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) {
    return rank.output.descriptor() >= 0 || rank.errors.descriptor() >= 0;
  });
}

}  // namespace

int JobResult::exit_status() const noexcept {
  if (cause) return 1;
  return stop_signal != 0 ? 128 + stop_signal : 0;
}

JobResult supervise(const Job& job) { return Supervisor(job).run(); }

}  // namespace weft
