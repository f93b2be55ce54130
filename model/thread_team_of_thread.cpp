#include "weft/model/thread_team_of_thread.h"

#include <memory>

namespace weft {

cpu::ThreadTeam& thread_team_of_this_thread(int threads) {
  thread_local std::unique_ptr<cpu::ThreadTeam> team;
  if (team == nullptr || team->threads() != threads) {
    team.reset();  // its helpers end before new ones start
    team = std::make_unique<cpu::ThreadTeam>(threads);
  }
  return *team;
}

}  // namespace weft
