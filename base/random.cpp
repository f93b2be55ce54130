#include "weft/base/random.h"

#include <Random123/philox.h>

#include <bit>
#include <cmath>
#include <numbers>

#include "weft/base/error.h"

namespace weft {
namespace {

constexpr double two_to_minus_53 = 0x1p-53;

/// Natural logarithm of x in [2^-53, 1]: x = 2^e m with m in [sqrt(1/2), sqrt(2)), then the series of atanh.
double logarithm(double x) noexcept {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  int exponent = static_cast<int>(bits >> 52) - 1023;
  double mantissa = std::bit_cast<double>((bits & ((1ULL << 52) - 1)) | (1023ULL << 52));
  if (mantissa >= std::numbers::sqrt2) {
    mantissa *= 0.5;
    ++exponent;
  }
  const double s = (mantissa - 1.0) / (mantissa + 1.0);  // |s| < 0.1716
  const double square = s * s;
  double sum = 0.0;
  for (int k = 23; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
  return exponent * std::numbers::ln2 + 2.0 * s * sum;
}

struct SineCosine {
  double sine;
  double cosine;
};

/// Sine and cosine of 2 pi `turns`, turns in [0, 1): quadrants, then Taylor series on [-pi/4, pi/4].
SineCosine sine_cosine_of_turns(double turns) noexcept {
  const double quarters = turns * 4.0;
  const int quadrant = static_cast<int>(quarters + 0.5);
  const double x = (quarters - quadrant) * (std::numbers::pi / 2);
  const double square = x * x;
  double sine = 1.0;
  double cosine = 1.0;
  for (int k = 18; k >= 2; k -= 2) {
    sine = 1.0 - sine * square / (k * (k + 1.0));
    cosine = 1.0 - cosine * square / (k * (k - 1.0));
  }
  sine *= x;
  switch (quadrant & 3) {
    case 0:
      return {sine, cosine};
    case 1:
      return {cosine, -sine};
    case 2:
      return {-sine, -cosine};
    default:
      return {-cosine, sine};
  }
}

std::uint64_t join(std::uint32_t low, std::uint32_t high) noexcept {
  return (static_cast<std::uint64_t>(high) << 32) | low;
}

std::uint32_t low_half(std::uint64_t value) noexcept { return static_cast<std::uint32_t>(value); }
std::uint32_t high_half(std::uint64_t value) noexcept { return static_cast<std::uint32_t>(value >> 32); }

}  // namespace

std::array<std::uint32_t, 4> philox_block(const std::array<std::uint32_t, 4>& counter,
                                          const std::array<std::uint32_t, 2>& key) noexcept {
  const r123::Philox4x32::ctr_type in{{counter[0], counter[1], counter[2], counter[3]}};
  const r123::Philox4x32::ukey_type user_key{{key[0], key[1]}};
  const r123::Philox4x32::ctr_type out = r123::Philox4x32()(in, user_key);
  return {out[0], out[1], out[2], out[3]};
}

CounterRandom::CounterRandom(std::uint64_t seed, RandomPurpose purpose, std::uint64_t stream)
    : key_{low_half(seed), high_half(seed)},
      stream_{low_half(stream), (high_half(stream) << 8) | static_cast<std::uint32_t>(purpose)} {
  if (stream >> 56 != 0) throw Error("random stream " + std::to_string(stream) + " is not below 2^56");
}

std::array<std::uint32_t, 4> CounterRandom::block(std::uint64_t number) const noexcept {
  return philox_block({low_half(number), high_half(number), stream_[0], stream_[1]}, key_);
}

std::uint32_t CounterRandom::u32(std::uint64_t index) const noexcept { return block(index / 4)[index % 4]; }

std::uint64_t CounterRandom::u64(std::uint64_t index) const noexcept {
  const auto words = block(index / 2);
  return index % 2 == 0 ? join(words[0], words[1]) : join(words[2], words[3]);
}

std::uint32_t CounterRandom::below(std::uint32_t bound, std::uint64_t index) const noexcept {
  const std::uint64_t bits = u64(index);
  // (bits * bound) >> 64, in two halves
  const std::uint64_t low = static_cast<std::uint64_t>(low_half(bits)) * bound;
  const std::uint64_t high = static_cast<std::uint64_t>(high_half(bits)) * bound;
  return high_half(high + (low >> 32));
}

double CounterRandom::uniform(std::uint64_t index) const noexcept {
  return static_cast<double>(u64(index) >> 11) * two_to_minus_53;
}

std::array<double, 2> CounterRandom::normal_pair(std::uint64_t number) const noexcept {
  const auto words = block(number);
  const double radius_uniform = static_cast<double>((join(words[0], words[1]) >> 11) + 1) * two_to_minus_53;
  const double turns = static_cast<double>(join(words[2], words[3]) >> 11) * two_to_minus_53;
  const double radius = std::sqrt(-2.0 * logarithm(radius_uniform));
  const SineCosine direction = sine_cosine_of_turns(turns);
  return {radius * direction.cosine, radius * direction.sine};
}

double CounterRandom::normal(std::uint64_t index) const noexcept { return normal_pair(index / 2)[index % 2]; }

void CounterRandom::fill_normal(std::uint64_t first, double standard_deviation,
                                std::span<float> out) const noexcept {
  std::size_t i = 0;
  if (first % 2 == 1 && !out.empty()) out[i++] = static_cast<float>(standard_deviation * normal(first));
  for (; i + 1 < out.size(); i += 2) {
    const auto pair = normal_pair((first + i) / 2);
    out[i] = static_cast<float>(standard_deviation * pair[0]);
    out[i + 1] = static_cast<float>(standard_deviation * pair[1]);
  }
  if (i < out.size()) out[i] = static_cast<float>(standard_deviation * normal(first + i));
}

}  // namespace weft
