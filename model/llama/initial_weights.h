#pragma once
#include <span>

#include "weft/actors/stage.h"
#include "weft/model/llama_config.h"

namespace weft {

/// Sets the values (and masters) of a Llama's parameters at the start of training, on `config.threads`
/// threads: norms 1, biases 0, all else normally distributed with standard deviation init_std, o_proj and
/// down_proj with init_std / sqrt(2 * layers) if init_scaled_by_layers. A pure function of the seed and each
/// parameter's name; a tied one takes the name of its first use.
void set_initial_weights(const LlamaConfig& config, std::span<Parameter> parameters);

}  // namespace weft
