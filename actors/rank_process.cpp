#include "weft/actors/rank_process.h"

#include <fmt/core.h>

#include "weft/base/cores.h"
#include "weft/base/error.h"
#include "weft/transport/rendezvous/build_identity.h"
#include "weft/transport/ucx/ucx_transport.h"

namespace weft {
namespace {

constexpr Nanoseconds close_limit = 5'000'000'000;

std::vector<CommonFact> with_build(std::vector<CommonFact> facts) {
  facts.insert(facts.begin(), CommonFact{"build", build_identity()});
  return facts;
}

}  // namespace

RankProcess::RankProcess(const RankEnvironment& environment, std::vector<CommonFact> facts)
    : environment_(environment) {
  control_ = std::make_unique<ControlClient>(environment_, with_build(std::move(facts)), [this] {
    const std::scoped_lock lock(mutex_);
    if (loop_ != nullptr) loop_->interrupt();
  });
  try {
    transport_ = make_ucx_transport(environment_.rank, environment_.mesh.world_size(),
                                    [this](std::vector<std::byte> mine) { return control_->exchange(mine); });
  } catch (...) {
    report_failure(std::current_exception());
    throw;
  }
}

Nanoseconds RankProcess::spin() const noexcept {
  return environment_.local_world_size > usable_cores() ? 0 : 20'000;
}

LoopWatch RankProcess::watch(EventLoop& loop) {
  loop.on_tick([](void* control) { static_cast<ControlClient*>(control)->tick(); }, control_.get());
  loop.on_interrupt([this] {
    if (const auto failure = control_->failure()) throw PeerFailure(failure->rank, failure->what);
  });
  const std::scoped_lock lock(mutex_);
  loop_ = &loop;
  if (control_->failure()) loop.interrupt();
  return LoopWatch([this, &loop] {
    const std::scoped_lock undo_lock(mutex_);
    loop_ = nullptr;
    loop.on_tick(nullptr, nullptr);
    loop.on_interrupt({});
  });
}

void RankProcess::finish() {
  transport_->close(now_ns() + close_limit);
  control_->barrier();  // nobody's endpoint goes while another still listens
  control_->done();
}

std::string RankProcess::report_failure(std::exception_ptr error) noexcept {
  try {
    std::rethrow_exception(error);
  } catch (const PeerFailure& failure) {
    if (!control_->failure()) control_->fail_by_peer(failure.rank(), failure.what());
    if (const auto cause = control_->failure()) return cause->what;
    return failure.what();
  } catch (const std::exception& e) {
    control_->fail(e.what());
    return e.what();
  } catch (...) {
    control_->fail("an unknown exception");
    return "an unknown exception";
  }
}

void RankProcess::working(std::uint64_t ops_done, const Op& op) noexcept {
  char text[32];
  const auto kind = "FBIW"[static_cast<std::size_t>(op.kind)];
  const auto end = fmt::format_to_n(text, sizeof(text), "{}{}{}", op.stage, kind, op.microbatch).out;
  control_->set_working(ops_done, {text, static_cast<std::size_t>(end - text)});
}

void RankProcess::waiting(std::uint64_t ops_done, const char* what) noexcept {
  control_->set_waiting(ops_done, what);
}

}  // namespace weft
