#pragma once
// Values of a device, read or written by the host.
#include <cstddef>
#include <memory>
#include <span>

#include "weft/tensor/queue.h"

namespace weft {

/// What lies at some range of memory, on the host: that memory itself where the host can use it, else a copy.
/// For weights that are loaded, hashed or saved, outside of steps: it allocates and waits.
class HostValues {
 public:
  /// `values` as they are, to be read. `queue` is null for memory of the host.
  [[nodiscard]] static HostValues read(Queue* queue, std::span<const std::byte> values);
  /// Room for new ones, every byte of which is to be written before `store`.
  [[nodiscard]] static HostValues overwrite(Queue* queue, std::span<std::byte> values);

  [[nodiscard]] std::span<std::byte> bytes() const noexcept { return host_; }
  template <class T>
  [[nodiscard]] T* as() const noexcept {
    return reinterpret_cast<T*>(host_.data());
  }
  /// After `overwrite`: puts the new values in their place.
  void store();

 private:
  HostValues(Queue* queue, std::span<std::byte> values);

  Queue* queue_;
  std::span<std::byte> values_;
  std::unique_ptr<std::byte[]> copy_;
  std::span<std::byte> host_;
};

}  // namespace weft
