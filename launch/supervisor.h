#pragma once
// What the launcher makes of what it hears: when a job has failed and why, whom to tell, whom to end and
// when. It waits for nothing and starts nothing; news and the time come in by calls.
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/launch/hosts/rank_host.h"
#include "weft/launch/job.h"
#include "weft/launch/verdict.h"
#include "weft/transport/rendezvous/rendezvous_server.h"

namespace weft {

class Supervisor final : public HostObserver {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// How it speaks, besides by signals.
  class Voice {
   public:
    virtual ~Voice() = default;
    /// Tells all ranks the first cause of the job's end.
    virtual void announce_failure(const Failure& cause) = 0;
    /// Asks all ranks to stop after their step.
    virtual void request_stop() = 0;
    /// Writes to the launcher's stdout (1) or stderr (2).
    virtual void write(int descriptor, std::string text) = 0;
  };

  /// `host` has been, or will be, told to start the job's ranks. All must outlive this object.
  Supervisor(const Job& job, RankHost& host, Voice& voice);

  /// A signal that the launcher got.
  void take_signal(int number, Time now);
  /// News of the control connections.
  void take_event(const RendezvousEvent& event, Time now);
  /// News of the host.
  void printed(std::uint32_t rank, RankStream stream, const std::vector<std::string>& lines) override;
  void ended(std::uint32_t rank, RankEnd how) override;
  /// After all news of a moment were taken: draws the conclusions and acts on them.
  void settle(Time now);
  /// When settle() should be called again at the latest; none when only news can change anything.
  [[nodiscard]] std::optional<Time> deadline() const;

  [[nodiscard]] bool all_ended() const;
  /// When all have ended and no news are left.
  [[nodiscard]] JobResult result(Time now);

 private:
  struct Rank {
    bool joined = false;
    bool done = false;
    bool lost_peer = false;
    std::string last_words;
    std::optional<RankEnd> end;
    std::optional<Time> kill_at;
  };

  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(ranks_.size()); }
  [[nodiscard]] bool blames() const;
  void stop(int number, Time now);
  [[nodiscard]] Time end_of_patience() const;
  void judge_ends(Time now);
  void judge_end(std::uint32_t number, Time now);
  void judge_quiet_ends();
  void fail(const Failure& cause, Time now);
  void kill_at(Time when);
  void kill_due(Time now);
  void signal_all(int number);
  void say(const std::string& message) { voice_.write(2, "weft: " + message + "\n"); }

  const Job& job_;
  RankHost& host_;
  Voice& voice_;
  std::vector<Rank> ranks_;
  std::vector<std::uint32_t> just_ended_;
  std::optional<std::uint32_t> teller_;  // the rank that told of its failure first
  Verdict verdict_;
  JobResult result_;
  Pace pace_;
  Time stop_asked_;
  int stop_repeats_ = 0;
  bool impatient_ = false;  // whoever asked for a stop has asked again
  bool killed_ = false;
};

}  // namespace weft
