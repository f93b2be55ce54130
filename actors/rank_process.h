#pragma once
// This process as one rank of a run that a launcher started: its control connection and its transport.
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "weft/actors/event_loop.h"
#include "weft/actors/loop_watch.h"
#include "weft/actors/stage_actor.h"
#include "weft/transport/rendezvous/control_client.h"
#include "weft/transport/rendezvous/rank_environment.h"
#include "weft/transport/transport.h"

namespace weft {

class RankProcess final : public ActorObserver {
 public:
  /// Meets the other ranks. `facts` must be the same on all (the build is one of them already). Throws
  /// TransportError, PeerFailure.
  RankProcess(const RankEnvironment& environment, std::vector<CommonFact> facts);
  [[nodiscard]] std::uint32_t rank() const noexcept { return environment_.rank; }
  [[nodiscard]] const Mesh& mesh() const noexcept { return environment_.mesh; }
  [[nodiscard]] Transport& transport() noexcept { return *transport_; }
  [[nodiscard]] bool stop_requested() const noexcept { return control_->stop_requested(); }
  /// How long a loop may spin on this host: nothing when ranks outnumber cores.
  [[nodiscard]] Nanoseconds spin() const noexcept;

  /// Ties the loop to the control connection: heartbeats, and an exception when another rank fails. One loop
  /// at a time.
  LoopWatch watch(EventLoop& loop);
  /// Tells the launcher that state is being saved, and that it is not any more.
  void begin_save() noexcept { control_->begin_save(); }
  void end_save() noexcept { control_->end_save(); }
  /// All work is done: waits for what is still being sent, then leaves in order.
  void finish();
  /// Tells everybody that this rank fails for `error`, and returns the text of the first cause known. To be
  /// called before anything is destroyed that may take its time; later calls only return.
  std::string report_failure(std::exception_ptr error) noexcept;

  void working(std::uint64_t ops_done, const Op& op) noexcept override;
  void waiting(std::uint64_t ops_done, const char* what) noexcept override;
  /// Between steps, where no progress is expected.
  void outside() noexcept override { control_->set_outside(); }

 private:
  RankEnvironment environment_;
  std::mutex mutex_;  // guards loop_ against the control thread
  EventLoop* loop_ = nullptr;
  std::unique_ptr<ControlClient> control_;
  std::unique_ptr<Transport> transport_;
};

}  // namespace weft
