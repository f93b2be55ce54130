#pragma once
// This machine: every rank is a process of it.
#include <vector>

#include "weft/launch/hosts/guardian.h"
#include "weft/launch/hosts/rank_host.h"
#include "weft/launch/hosts/signals.h"

namespace weft {

/// Starts each rank as the leader of a process group. No process is left when this object goes, nor when this
/// process is killed. Configuration and token lie in files in memory that ranks inherit; all listen on the
/// loopback device.
class LocalHost final : public RankHost {
 public:
  /// Forks, so it must be made before the process has other threads. Throws Error.
  LocalHost();
  ~LocalHost() override;
  LocalHost(const LocalHost&) = delete;
  LocalHost& operator=(const LocalHost&) = delete;

  [[nodiscard]] std::string launcher_address() const override { return "127.0.0.1"; }
  void start(const RankProgram& program, const Rendezvous& rendezvous) override;
  void signal(std::uint32_t rank, int number) override;
  void add_descriptors(std::vector<pollfd>& waiting, bool with_output) const override;
  void report(HostObserver& observer, bool with_output) override;
  [[nodiscard]] bool may_print() const override;
  void end_output(HostObserver& observer) override;

 private:
  struct Child;

  Guardian guardian_;
  SignalQueue children_signals_;
  std::vector<Child> children_;  // by rank
};

}  // namespace weft
