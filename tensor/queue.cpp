#include "weft/tensor/queue.h"

#include <thread>

#include "weft/base/error.h"
#include "weft/tensor/cpu_queue.h"

namespace weft {

bool Event::done() const { return queue_ == nullptr || queue_->reached(point_); }

void Event::wait() const {
  while (!done()) std::this_thread::yield();
}

std::unique_ptr<Queue> make_queue(Device device) {
  if (device.kind == DeviceKind::cpu) return std::make_unique<CpuQueue>();
  throw DeviceError("device " + device_name(device) + ": this build computes on the CPU only");
}

}  // namespace weft
