#pragma once
// A rank's side of the rendezvous and, afterwards, of the control connection to the launcher: one thread that
// sends heartbeats, last words and `done`, and hears of failures elsewhere and of stop requests. It never
// touches UCX.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/transport/rendezvous/rank_environment.h"

namespace weft {

/// Something all ranks of a run must have in common, for example {"build", build_identity()}, {"CPU level",
/// "avx512"}. The rendezvous is refused, naming both ranks and values, when they differ.
struct CommonFact {
  std::string name;
  std::string value;
};

/// Stands for the launcher where a rank is named.
inline constexpr std::uint32_t launcher_rank = 0xffffffffU;

/// The first cause of a run's end.
struct Failure {
  std::uint32_t rank =
      launcher_rank;  ///< the rank that failed first, launcher_rank when it is not a rank's fault
  std::string what;   ///< one or more lines for the user
};

/// The connection of one rank. Public functions may be called from any thread unless said otherwise; the
/// functions marked "actor thread" are wait-free, allocate nothing and belong to one thread at a time.
class ControlClient {
 public:
  using Bytes = std::vector<std::byte>;

  /// Connects, proves knowledge of the token and checks that the launcher knows it as well, says who this
  /// rank is. `on_failure` is called at most once, on the control thread, right after `failure()` has got its
  /// value; it must be quick and must not throw (waking an event loop is its purpose). Throws TransportError
  /// when the launcher cannot be reached or does not know the token, or refuses this rank.
  ControlClient(const RankEnvironment& environment, std::vector<CommonFact> facts,
                std::function<void()> on_failure = {});
  /// Leaves. Without `done()` before, the launcher takes this for a failure.
  ~ControlClient();
  ControlClient(const ControlClient&) = delete;
  ControlClient& operator=(const ControlClient&) = delete;

  /// Gives `own` (at most 64 KiB) to all ranks and returns everyone's, by rank. Collective: all ranks call it
  /// equally often, so it is a barrier too. Throws PeerFailure when a rank fails meanwhile, TransportError
  /// when refused.
  [[nodiscard]] std::vector<Bytes> exchange(std::span<const std::byte> own);
  /// Returns when all ranks have called it. Throws like `exchange`.
  void barrier();

  /// Actor thread: `count` ops are done and the next is `doing` (for people; cut to 119 bytes, no control
  /// characters).
  void set_working(std::uint64_t count, std::string_view doing) noexcept;
  /// Actor thread: it waits for `what`, for example "1B3 waits for the gradient of stage 2 from rank 1".
  void set_waiting(std::uint64_t count, std::string_view what) noexcept;
  /// Actor thread: it is outside of a step, where the launcher expects no progress. The state at the start.
  void set_outside() noexcept;
  /// Actor thread: state is being saved from here to there. The launcher, asked to end the run, waits longer
  /// for ranks whose steps and saves take long.
  void begin_save() noexcept;
  void end_save() noexcept;
  /// Actor thread: it is alive; called from every turn of the loop and every `poll()`. A rank inside a step
  /// that does not tick for the heartbeat limit is reported as stuck; ranks that all wait that long, as a
  /// deadlock.
  void tick() noexcept;

  /// This rank fails for `what`: tells the launcher, who tells all others. Returns when it has been taken
  /// over or after two seconds. Only the first call counts.
  void fail(std::string_view what) noexcept;
  /// This rank fails because it lost `peer` (an endpoint error, say): a cause only if nothing better is
  /// found.
  void fail_by_peer(std::uint32_t peer, std::string_view what) noexcept;
  /// This rank has ended all its work and will leave: from now on its end is no failure. Waits for the
  /// launcher's answer, ten seconds at most.
  void done() noexcept;

  /// The first cause once one is known: another rank's failure, or the loss of the launcher.
  [[nodiscard]] std::optional<Failure> failure() const;
  /// True once the launcher has asked all ranks to stop. Ranks hear of it at different steps: let rank 0
  /// alone read it and pass the decision on with its next broadcast, so that all stop after the same step.
  [[nodiscard]] bool stop_requested() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft
