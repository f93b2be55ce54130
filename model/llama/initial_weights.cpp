#include "weft/model/llama/initial_weights.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "weft/base/random.h"
#include "weft/tensor/bfloat16.h"
#include "weft/tensor/host_values.h"

namespace weft {
namespace {

// FNV-1a, cut to the 56 bits that a stream of random numbers may have.
std::uint64_t stream_of(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash >> 8;
}

/// function(0) .. function(count - 1), on threads of their own: values are made on the host, whatever device
/// computes with them. `function` does not throw.
template <class Function>
void for_each(int threads, std::size_t count, const Function& function) {
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) function(i);
  };
  std::vector<std::jthread> helpers;
  try {
    for (std::size_t i = 1; i < std::min<std::size_t>(static_cast<std::size_t>(threads), count); ++i)
      helpers.emplace_back(work);
  } catch (const std::system_error&) {
    // fewer threads do it as well
  }
  work();
}

}  // namespace

void set_initial_weights(const LlamaConfig& config, std::span<Parameter> parameters) {
  constexpr std::size_t chunk = 65536;
  for (const Parameter& parameter : parameters) {
    const std::string_view name = parameter.stored_name();
    const std::size_t n = parameter.shape.elements();
    HostValues values = HostValues::overwrite(parameter.queue, parameter.value_bytes());
    HostValues masters = HostValues::overwrite(parameter.queue, parameter.master_bytes());
    const bool rounded = parameter.master != nullptr;
    float* full = rounded ? masters.as<float>() : values.as<float>();
    const auto round = [&](std::size_t first, std::size_t count) {
      for (std::size_t i = first; rounded && i < first + count; ++i)
        values.as<BFloat16>()[i] = to_bfloat16(full[i]);
    };
    if (parameter.shape.rank() == 1) {
      std::fill_n(full, n, name.ends_with("norm.weight") ? 1.0f : 0.0f);
      round(0, n);
    } else {
      const bool into_residual = name.ends_with("o_proj.weight") || name.ends_with("down_proj.weight");
      const double deviation = into_residual && config.init_scaled_by_layers
                                   ? config.init_std / std::sqrt(2.0 * config.num_hidden_layers)
                                   : config.init_std;
      const CounterRandom random(config.seed, RandomPurpose::weights, stream_of(name));
      for_each(config.threads, (n + chunk - 1) / chunk, [&](std::size_t block) {
        const std::size_t first = block * chunk;
        const std::size_t count = std::min(chunk, n - first);
        random.fill_normal(first, deviation, {full + first, count});
        round(first, count);
      });
    }
    values.store();
    masters.store();
  }
}

}  // namespace weft
