#include "weft/tensor/arena.h"

#include <sys/mman.h>

#include <cassert>
#include <cstring>
#include <utility>

#include "weft/base/error.h"

namespace weft {
namespace {

// NaN in every float type, so that a slot read after it was freed shows at once.
void poison([[maybe_unused]] std::byte* data, [[maybe_unused]] std::size_t bytes) noexcept {
#ifdef WEFT_POISON
  std::memset(data, 0xFF, bytes);
#endif
}

}  // namespace

Arena::Arena(std::size_t bytes, std::string purpose, Device device)
    : size_(aligned(bytes)), purpose_(std::move(purpose)), device_(device) {
  if (device.kind != DeviceKind::cpu)
    throw DeviceError("no memory for " + purpose_ + " on device " + device_name(device) +
                      ": this build computes on the CPU only");
  if (size_ == 0) return;
  // Anonymous pages are zero and cost nothing until they are touched.
  void* data = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) throw Error("no memory for " + purpose_ + ": " + std::to_string(size_) + " bytes");
  madvise(data, size_, MADV_HUGEPAGE);
  data_ = static_cast<std::byte*>(data);
}

Arena::~Arena() {
  if (data_ != nullptr) munmap(data_, size_);
}

Arena::Arena(Arena&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      used_(std::exchange(other.used_, 0)),
      purpose_(std::move(other.purpose_)),
      device_(other.device_) {}

std::byte* Arena::take(std::size_t bytes) {
  const std::size_t need = aligned(bytes);
  if (need > size_ - used_)
    throw Error("arena for " + purpose_ + " is used up: " + std::to_string(need) + " of " +
                std::to_string(size_ - used_) + " free bytes asked for");
  std::byte* range = data_ + used_;
  used_ += need;
  return range;
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      device_(other.device_),
      pool_(std::exchange(other.pool_, nullptr)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    release();
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    device_ = other.device_;
    pool_ = std::exchange(other.pool_, nullptr);
  }
  return *this;
}

void Buffer::release() noexcept {
  if (pool_ != nullptr) pool_->give_back(data_);
  data_ = nullptr;
  size_ = 0;
  pool_ = nullptr;
}

BlockPool::BlockPool(Arena& arena, std::size_t block_bytes, std::uint32_t count)
    : block_bytes_(block_bytes), count_(count), device_(arena.device()) {
  free_.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) free_.push_back(arena.take(block_bytes));
  // The first block is used first: a pool that is larger than needed touches no more pages than it uses.
  for (std::uint32_t i = 0; i < count / 2; ++i) std::swap(free_[i], free_[count - 1 - i]);
}

BlockPool::~BlockPool() { assert(free_.size() == count_ && "a buffer outlives its pool"); }

Buffer BlockPool::acquire() noexcept {
  if (free_.empty()) return {};
  std::byte* block = free_.back();
  free_.pop_back();
  const auto in_use = count_ - available();
  if (in_use > peak_) peak_ = in_use;
  return Buffer(block, block_bytes_, device_, this);
}

void BlockPool::give_back(std::byte* block) noexcept {
  poison(block, block_bytes_);
  free_.push_back(block);
  if (hook_ != nullptr) hook_(owner_, tag_);
}

}  // namespace weft
