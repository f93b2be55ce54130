#include "weft/tensor/host_values.h"

namespace weft {

HostValues::HostValues(Queue* queue, std::span<std::byte> values)
    : queue_(queue), values_(values), host_(values) {
  if (queue_ == nullptr || queue_->device().kind == DeviceKind::cpu) return;
  copy_ = std::make_unique_for_overwrite<std::byte[]>(values.size());
  host_ = {copy_.get(), values.size()};
}

HostValues HostValues::read(Queue* queue, std::span<const std::byte> values) {
  // Nothing is written through it: bytes() of what was read is for reading.
  HostValues made(queue, {const_cast<std::byte*>(values.data()), values.size()});
  if (made.copy_ != nullptr) {
    queue->download(made.copy_.get(), values.data(), values.size());
    queue->record().wait();
  }
  return made;
}

HostValues HostValues::overwrite(Queue* queue, std::span<std::byte> values) { return {queue, values}; }

void HostValues::store() {
  if (copy_ != nullptr) queue_->upload(values_.data(), host_);
}

}  // namespace weft
