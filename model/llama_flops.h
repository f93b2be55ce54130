#pragma once
// How much arithmetic a Llama is, by Nanotron's formula.
#include "weft/model/llama_config.h"

namespace weft {

/// FLOPs of one layer's forward, per token, with `sequence` tokens attended to (no discount for the causal
/// mask): 2h nh dh + 4h nkv dh + 4S nh dh + 2 nh dh h + 6h f.
[[nodiscard]] double layer_flops_per_token(const LlamaArchitecture& model, double sequence);

/// FLOPs of the head's forward, per token: 2 h V.
[[nodiscard]] double head_flops_per_token(const LlamaArchitecture& model);

}  // namespace weft
