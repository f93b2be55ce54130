#include "weft/tensor/cpu_queue.h"

#include <cstring>

#include "weft/tensor/sum_of_squares.h"

namespace weft {
namespace {

// memcpy and memset want a pointer even for nothing.
void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);
}

}  // namespace

void CpuQueue::upload(std::byte* to, std::span<const std::byte> host) {
  copy_bytes(to, host.data(), host.size());
}
void CpuQueue::download(std::byte* host, const std::byte* from, std::size_t bytes) {
  copy_bytes(host, from, bytes);
}
void CpuQueue::copy(std::byte* to, const std::byte* from, std::size_t bytes) { copy_bytes(to, from, bytes); }

void CpuQueue::fill(std::byte* to, std::uint8_t value, std::size_t bytes) {
  if (bytes != 0) std::memset(to, value, bytes);
}

void CpuQueue::add(float* sum, const float* summand, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) sum[i] += summand[i];
}

void CpuQueue::squares(std::span<const std::span<const float>> ranges, double* sums) {
  for (std::size_t i = 0; i < ranges.size(); ++i) sums[i] = sum_of_squares(ranges[i]);
}

void CpuQueue::wait(const Event& event) { event.wait(); }

}  // namespace weft
