#pragma once
// Memory is taken once, before the first step: an Arena is one allocation, a BlockPool equal blocks of it, a
// Buffer one block in use. All of it belongs to one thread.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "weft/tensor/device.h"

namespace weft {

/// Every range that an Arena hands out starts at a multiple of this.
inline constexpr std::size_t arena_alignment = 64;
/// `bytes` rounded up to the alignment of an arena.
[[nodiscard]] constexpr std::size_t aligned(std::size_t bytes) noexcept {
  return (bytes + arena_alignment - 1) / arena_alignment * arena_alignment;
}

/// One zero-filled allocation from which ranges are taken in turn; nothing is given back but the whole.
class Arena {
 public:
  /// Takes `bytes` (rounded up) of the device's memory. Throws Error, naming `purpose` and the size, when
  /// there is not as much, DeviceError, naming the device, when this build or machine lacks it.
  Arena(std::size_t bytes, std::string purpose, Device device = {});
  ~Arena();
  Arena(Arena&& other) noexcept;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  Arena& operator=(Arena&&) = delete;

  /// The next `bytes`, aligned. Throws Error when the arena is used up: its size was computed wrongly.
  [[nodiscard]] std::byte* take(std::size_t bytes);
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] std::size_t used() const noexcept { return used_; }
  [[nodiscard]] Device device() const noexcept { return device_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t used_ = 0;
  std::string purpose_;
  Device device_;
};

class BlockPool;

/// Sole use of a range of memory: a block that goes back to its pool on destruction, or borrowed memory that
/// does not.
class Buffer {
 public:
  Buffer() = default;
  /// Memory that somebody else owns and that outlives the buffer.
  static Buffer borrowed(std::byte* data, std::size_t bytes, Device device = {}) noexcept {
    return Buffer(data, bytes, device, nullptr);
  }
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { release(); }

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] Device device() const noexcept { return device_; }
  explicit operator bool() const noexcept { return data_ != nullptr; }
  /// True for a block of `pool`.
  [[nodiscard]] bool belongs_to(const BlockPool& pool) const noexcept { return pool_ == &pool; }
  /// Gives the block back now.
  void release() noexcept;

 private:
  friend class BlockPool;
  Buffer(std::byte* data, std::size_t bytes, Device device, BlockPool* pool) noexcept
      : data_(data), size_(bytes), device_(device), pool_(pool) {}
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  Device device_;
  BlockPool* pool_ = nullptr;
};

/// `count` blocks of equal size. A pool is destroyed after all its buffers have come back (asserted).
class BlockPool {
 public:
  /// Called on every release; the mailbox returns a credit there.
  using ReleaseHook = void (*)(void* owner, std::uint32_t tag);

  BlockPool(Arena& arena, std::size_t block_bytes, std::uint32_t count);
  ~BlockPool();
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  /// The bytes an Arena must have for such a pool.
  [[nodiscard]] static std::size_t arena_bytes(std::size_t block_bytes, std::uint32_t count) noexcept {
    return aligned(block_bytes) * count;
  }

  /// A free block, or an empty Buffer when all are in use.
  [[nodiscard]] Buffer acquire() noexcept;
  [[nodiscard]] std::uint32_t available() const noexcept { return static_cast<std::uint32_t>(free_.size()); }
  [[nodiscard]] std::uint32_t count() const noexcept { return count_; }
  [[nodiscard]] std::size_t block_bytes() const noexcept { return block_bytes_; }
  [[nodiscard]] std::uint32_t peak_in_use() const noexcept { return peak_; }
  void on_release(ReleaseHook hook, void* owner, std::uint32_t tag) noexcept {
    hook_ = hook;
    owner_ = owner;
    tag_ = tag;
  }

 private:
  friend class Buffer;
  void give_back(std::byte* block) noexcept;

  std::size_t block_bytes_;
  std::uint32_t count_;
  std::uint32_t peak_ = 0;
  Device device_;
  std::vector<std::byte*> free_;
  ReleaseHook hook_ = nullptr;
  void* owner_ = nullptr;
  std::uint32_t tag_ = 0;
};

}  // namespace weft
