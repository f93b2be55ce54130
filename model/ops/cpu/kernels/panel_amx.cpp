// bf16 panels on AMX tiles: 2 x 2 tiles of 16 x 16 sums, 32 steps of the summed dimension at a time.
// Only where cpu_level() is amx: CPU and operating system allow tiles then.
#include <immintrin.h>

#include <cstdint>

#include "weft/model/ops/cpu/kernels/panels.h"
#include "weft/model/ops/cpu/kernels/prefetch.h"

namespace weft::cpu {
namespace {

constexpr std::size_t block = 32;          // rows, columns and depth of one round
constexpr std::size_t tile_rows = 16;      // rows of one tile
constexpr std::size_t b_row_bytes = 128;   // 32 columns of pairs
constexpr std::size_t b_tile_offset = 32;  // elements from the first 16 columns of a pair row to the next 16

/// The operand of LDTILECFG: all eight tiles have 16 rows of 64 bytes.
struct alignas(64) TileConfiguration {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t bytes_per_row[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfiguration) == 64);

constexpr TileConfiguration configuration;

}  // namespace

void panel_amx(std::size_t rows, std::size_t depth, const BFloat16* a, std::size_t a_stride,
               const BFloat16* b, const BFloat16* next_b, float* c, std::size_t c_stride, bool accumulate) {
  const std::size_t a_bytes = a_stride * sizeof(BFloat16);
  const std::size_t c_bytes = c_stride * sizeof(float);
  const std::size_t rounds = rows / block * (depth / block);
  std::size_t round = 0;
  _tile_loadconfig(&configuration);
  for (std::size_t row = 0; row < rows; row += block) {
    const BFloat16* upper = a + row * a_stride;
    const BFloat16* lower = upper + tile_rows * a_stride;
    float* c_upper = c + row * c_stride;
    float* c_lower = c_upper + tile_rows * c_stride;
    if (accumulate) {
      _tile_loadd(0, c_upper, c_bytes);
      _tile_loadd(1, c_upper + 16, c_bytes);
      _tile_loadd(2, c_lower, c_bytes);
      _tile_loadd(3, c_lower + 16, c_bytes);
    } else {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
    }
    const BFloat16* right = b;
    for (std::size_t k = 0; k < depth; k += block) {
      prefetch_part(next_b, depth * block * sizeof(BFloat16), round++, rounds);
      _tile_loadd(4, upper + k, a_bytes);
      _tile_loadd(5, lower + k, a_bytes);
      _tile_loadd(6, right, b_row_bytes);
      _tile_loadd(7, right + b_tile_offset, b_row_bytes);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
      right += block * block;
    }
    _tile_stored(0, c_upper, c_bytes);
    _tile_stored(1, c_upper + 16, c_bytes);
    _tile_stored(2, c_lower, c_bytes);
    _tile_stored(3, c_lower + 16, c_bytes);
  }
  _tile_release();
}

}  // namespace weft::cpu
