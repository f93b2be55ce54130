#pragma once
// Work in order on one device.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "weft/tensor/device.h"
#include "weft/tensor/event.h"

namespace weft {

/// One rank's work on one device, done in the order in which it is given. A call may return before its work
/// is done; `record()` tells when it is. On the CPU everything is done when a call returns. All calls come
/// from the rank's thread; none of them allocates. Throws DeviceError when the device fails.
class Queue {
 public:
  virtual ~Queue() = default;

  [[nodiscard]] virtual Device device() const noexcept = 0;
  /// host -> to, of the device. `host` may be changed as soon as the call returns.
  virtual void upload(std::byte* to, std::span<const std::byte> host) = 0;
  /// from, of the device -> host[bytes], there once a later event is past.
  virtual void download(std::byte* host, const std::byte* from, std::size_t bytes) = 0;
  /// from -> to, both of the device, which do not overlap.
  virtual void copy(std::byte* to, const std::byte* from, std::size_t bytes) = 0;
  /// Every byte of to[bytes] becomes `value`.
  virtual void fill(std::byte* to, std::uint8_t value, std::size_t bytes) = 0;
  /// sum[n] += summand[n], element by element.
  virtual void add(float* sum, const float* summand, std::size_t n) = 0;
  /// The sum of squares of each range, as sum_of_squares() -> sums[ranges] on the host, there once a later
  /// event is past.
  virtual void squares(std::span<const std::span<const float>> ranges, double* sums) = 0;

  /// The point after all work given so far.
  [[nodiscard]] virtual Event record() = 0;
  /// What is given from now on begins after `event`, of any queue.
  virtual void wait(const Event& event) = 0;
  /// The device's own handle (a CUstream on CUDA) for stages that bring their own kernels; null on the CPU.
  [[nodiscard]] virtual void* native() noexcept = 0;

  /// What all who compute on this queue share, such as compute threads or a library's handles; it belongs to
  /// them. Null at first.
  [[nodiscard]] std::shared_ptr<void>& shared() noexcept { return shared_; }

 protected:
  /// An event of this queue; `point` is the queue's own number for it.
  [[nodiscard]] Event event(std::uint64_t point) const noexcept { return Event(*this, point); }

 private:
  friend class Event;
  /// Whether the work before `point` is done. Throws DeviceError when it failed.
  [[nodiscard]] virtual bool reached(std::uint64_t point) const = 0;
  std::shared_ptr<void> shared_;
};

/// A queue on `device`. Throws DeviceError, naming the device, when this build or machine lacks it.
[[nodiscard]] std::unique_ptr<Queue> make_queue(Device device);

}  // namespace weft
