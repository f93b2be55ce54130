#pragma once
// A small process that outlives the launcher just long enough to end what the launcher started: also when the
// launcher is killed, and also what a rank started itself, as long as it stays in the rank's process group.
#include <sys/types.h>

#include "weft/base/files/descriptor.h"

namespace weft {

class Guardian {
 public:
  /// Forks, so it must be made before the process has other threads. Throws Error.
  Guardian();
  /// Ends the guardian, which kills the groups it still guards.
  ~Guardian();
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  void guard(pid_t group) const;
  void release(pid_t group) const;

 private:
  void tell(pid_t message) const;

  pid_t pid_ = -1;
  Descriptor pipe_;
};

}  // namespace weft
