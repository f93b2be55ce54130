#pragma once
#include "weft/model/ops/cpu/thread_team.h"

namespace weft {

/// The team of the calling thread, which all stages and the optimizer of a rank share: made at the first
/// call, anew when `threads` changes, ended with the thread. Throws Error when threads cannot be started.
[[nodiscard]] cpu::ThreadTeam& thread_team_of_this_thread(int threads);

/// Runs a poll function between the blocks of a team while in scope.
class PollWhile {
 public:
  PollWhile(cpu::ThreadTeam& team, cpu::Poll poll) noexcept : team_(team) { team_.set_poll(poll); }
  ~PollWhile() { team_.set_poll({}); }
  PollWhile(const PollWhile&) = delete;
  PollWhile& operator=(const PollWhile&) = delete;

 private:
  cpu::ThreadTeam& team_;
};

}  // namespace weft
