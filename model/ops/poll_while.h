#pragma once
#include "weft/model/ops/ops.h"

namespace weft {

/// Sets a poll function while in scope.
template <class T>
class PollWhile {
 public:
  PollWhile(const Ops<T>& ops, Poll poll) noexcept : ops_(ops) { ops_.set_poll(poll); }
  ~PollWhile() { ops_.set_poll({}); }
  PollWhile(const PollWhile&) = delete;
  PollWhile& operator=(const PollWhile&) = delete;

 private:
  const Ops<T>& ops_;
};

}  // namespace weft
