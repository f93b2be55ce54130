#include "weft/model/llama/initial_weights.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "weft/base/random.h"
#include "weft/model/ops/cpu/row_kernels.h"

namespace weft {
namespace {

// FNV-1a, cut to the 56 bits that a stream of random numbers may have.
std::uint64_t stream_of(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash >> 8;
}

void round_to_value(const Parameter& parameter, std::size_t first, std::size_t count) {
  if (parameter.master == nullptr) return;
  auto* value = reinterpret_cast<BFloat16*>(parameter.value);
  cpu::row_kernels<BFloat16>().scale(parameter.master + first, 1.0f, value + first, count);
}

}  // namespace

void set_initial_weights(cpu::ThreadTeam& team, const LlamaConfig& config, std::span<Parameter> parameters) {
  constexpr std::size_t chunk = 65536;
  for (const Parameter& parameter : parameters) {
    const std::string_view name = parameter.name;
    const std::size_t n = parameter.shape.elements();
    float* full = parameter.master != nullptr ? parameter.master : reinterpret_cast<float*>(parameter.value);
    if (parameter.shape.rank() == 1) {
      std::fill_n(full, n, name.ends_with("norm.weight") ? 1.0f : 0.0f);
      round_to_value(parameter, 0, n);
      continue;
    }
    const bool into_residual = name.ends_with("o_proj.weight") || name.ends_with("down_proj.weight");
    const double deviation = into_residual && config.init_scaled_by_layers
                                 ? config.init_std / std::sqrt(2.0 * config.num_hidden_layers)
                                 : config.init_std;
    const CounterRandom random(config.seed, RandomPurpose::weights,
                               stream_of(parameter.tied_to.empty() ? name : parameter.tied_to));
    team.parallel_for((n + chunk - 1) / chunk, [&](std::size_t block) {
      const std::size_t first = block * chunk;
      const std::size_t count = std::min(chunk, n - first);
      random.fill_normal(first, deviation, {full + first, count});
      round_to_value(parameter, first, count);
    });
  }
}

}  // namespace weft
