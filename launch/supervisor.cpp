#include "weft/launch/supervisor.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "weft/launch/hosts/signals.h"

namespace weft {
namespace {

using namespace std::chrono_literals;

/// From the announcement of a failure to SIGKILL: time for the other ranks to say good-bye.
constexpr auto farewell_limit = 500ms;
/// The same for a rank that told of its failure itself: it has a result.json to write.
constexpr auto teller_limit = 5s;
/// Signals to stop that come closer together are one wish; a third one ends its patience.
constexpr auto one_wish = 1s;
constexpr std::size_t longest_last_words = 400;

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

}  // namespace

Supervisor::Supervisor(const Job& job, RankHost& host, Voice& voice)
    : job_(job), host_(host), voice_(voice), ranks_(job.mesh.world_size()) {}

void Supervisor::take_signal(int number, Time now) {
  switch (number) {
    case SIGINT:
    case SIGTERM:
    case SIGHUP:
      return stop(number, now);
    case SIGTSTP:
      return signal_all(SIGSTOP);
    case SIGCONT:
    case SIGUSR1:
      return signal_all(number);
    default:
      if (job_.stop_by == StopBy::signal) signal_all(number);
  }
}

void Supervisor::stop(int number, Time now) {
  if (result_.cause) return;
  if (result_.stop_signal != 0) {
    // `timeout` and shells send one wish twice, to the process and to its group.
    if (++stop_repeats_ < 2 && now - stop_asked_ <= one_wish) return;
    impatient_ = true;
    return kill_at(now);
  }
  result_.stop_signal = number;
  stop_asked_ = now;
  kill_at(end_of_patience());
  voice_.request_stop();
  if (job_.stop_by == StopBy::signal) signal_all(number);
}

/// A rank may be at the start of a step that must end, with a save after it; twice, since the next one may be
/// slower.
Supervisor::Time Supervisor::end_of_patience() const {
  return stop_asked_ + job_.stop_limit + 2 * (pace_.step + pace_.save);
}

/// False once ranks end because the launcher made them.
bool Supervisor::blames() const {
  return !killed_ && (result_.stop_signal == 0 || job_.stop_by == StopBy::message);
}

void Supervisor::take_event(const RendezvousEvent& event, Time now) {
  Rank& rank = ranks_[event.rank];
  const Failure news{event.rank, event.what};
  switch (event.kind) {
    case RendezvousEvent::Kind::joined:
      rank.joined = true;
      rank.done = false;
      return;
    case RendezvousEvent::Kind::done:
      rank.done = true;
      return;
    case RendezvousEvent::Kind::failed:
      if (!blames()) return;
      if (!teller_) teller_ = event.rank;
      return verdict_.convict(news);
    case RendezvousEvent::Kind::found:
      if (blames()) verdict_.convict(news);
      return;
    case RendezvousEvent::Kind::lost_peer:
      rank.lost_peer = true;
      [[fallthrough]];
    case RendezvousEvent::Kind::left:
      if (blames()) verdict_.suspect(news, now);
      return;
    case RendezvousEvent::Kind::pace:
      pace_ = event.pace;
      if (result_.stop_signal != 0 && !impatient_ && !result_.cause && !killed_) kill_at(end_of_patience());
      return;
  }
}

void Supervisor::printed(std::uint32_t rank, RankStream stream, const std::vector<std::string>& lines) {
  // The speaker's lines have stdout for themselves.
  const int target = stream == RankStream::errors || job_.speaker ? 2 : 1;
  const std::string prefix = fmt::format("[rank {}] ", rank);
  std::string text;
  for (const std::string& line : lines) {
    text.append(prefix).append(line).push_back('\n');
    if (stream == RankStream::errors && !line.empty())
      ranks_[rank].last_words = line.substr(0, longest_last_words);
  }
  voice_.write(target, std::move(text));
}

void Supervisor::ended(std::uint32_t rank, RankEnd how) {
  ranks_[rank].end = how;
  just_ended_.push_back(rank);
}

void Supervisor::settle(Time now) {
  judge_ends(now);
  if (!result_.cause) {
    if (const auto cause = verdict_.cause(now)) fail(*cause, now);
  }
  kill_due(now);
}

void Supervisor::judge_ends(Time now) {
  std::vector<std::uint32_t> ends = std::exchange(just_ended_, {});
  // A rank that was killed explains neighbours that gave up, not the other way round.
  std::stable_partition(ends.begin(), ends.end(),
                        [&](std::uint32_t number) { return ranks_[number].end->killed; });
  for (const std::uint32_t number : ends) judge_end(number, now);
  judge_quiet_ends();
}

void Supervisor::judge_end(std::uint32_t number, Time now) {
  if (!blames()) return;
  const Rank& rank = ranks_[number];
  const RankEnd how = *rank.end;
  if (!how.killed && how.number == 0) return;  // see judge_quiet_ends
  std::string what = how.killed ? fmt::format("rank {} was killed by {}{}", number, signal_name(how.number),
                                              usual_reason(how.number))
                                : fmt::format("rank {} ended with exit status {}", number, how.number);
  if (!rank.last_words.empty()) what += "; its last words: " + rank.last_words;
  if (rank.lost_peer) return verdict_.suspect({number, what}, now);
  verdict_.convict({number, what});
}

void Supervisor::judge_quiet_ends() {
  const bool joins =
      job_.must_join || std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& one) { return one.joined; });
  if (!joins || !blames()) return;
  for (std::uint32_t number = 0; number < size(); ++number) {
    const Rank& rank = ranks_[number];
    const bool quiet = rank.end && !rank.end->killed && rank.end->number == 0;
    if (quiet && !rank.done) {
      verdict_.convict(
          {number, fmt::format("rank {} ended with exit status 0 before its work was done", number)});
    }
  }
}

void Supervisor::fail(const Failure& cause, Time now) {
  result_.cause = cause;
  voice_.announce_failure(cause);
  say(cause.what);
  kill_at(now + farewell_limit);
  if (teller_ == cause.rank) ranks_[cause.rank].kill_at = now + teller_limit;
  for (std::uint32_t number = 0; number < size(); ++number) {
    const Rank& rank = ranks_[number];
    if (!rank.end && !rank.joined) host_.signal(number, SIGTERM);  // it cannot hear the announcement
  }
}

void Supervisor::kill_at(Time when) {
  for (Rank& rank : ranks_) rank.kill_at = when;
}

void Supervisor::kill_due(Time now) {
  std::vector<std::uint32_t> due;
  for (std::uint32_t number = 0; number < size(); ++number) {
    Rank& rank = ranks_[number];
    if (rank.end || !rank.kill_at || now < *rank.kill_at) continue;
    rank.kill_at.reset();
    due.push_back(number);
  }
  if (due.empty()) return;
  if (!std::exchange(killed_, true) && !result_.cause)
    say(impatient_ ? "asked again to stop: the ranks were killed"
                   : "the ranks did not stop by themselves and were killed");
  for (const std::uint32_t number : due) host_.signal(number, SIGKILL);
}

void Supervisor::signal_all(int number) {
  for (std::uint32_t rank = 0; rank < size(); ++rank)
    if (!ranks_[rank].end) host_.signal(rank, number);
}

std::optional<Supervisor::Time> Supervisor::deadline() const {
  std::optional<Time> next = verdict_.deadline();
  for (const Rank& rank : ranks_)
    if (!rank.end && rank.kill_at && (!next || *rank.kill_at < *next)) next = rank.kill_at;
  return next;
}

bool Supervisor::all_ended() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.end.has_value(); });
}

JobResult Supervisor::result(Time now) {
  judge_ends(now);
  if (const auto cause = verdict_.cause(Time::max()); cause && !result_.cause) fail(*cause, now);
  return result_;
}

}  // namespace weft
