#pragma once
// Hugging Face's config.json of a Llama, in the older spelling (rope_theta, rope_scaling, torch_dtype) and
// the newer one (rope_parameters, dtype).
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "weft/model/llama_config.h"

namespace weft {

/// What a config.json says.
struct HfConfig {
  LlamaArchitecture llama;
  std::optional<DType> dtype;  ///< as declared; the tensors of the files may have another
};

/// Reads the text of a config.json; keys that are missing have transformers' defaults. Throws CheckpointError
/// that begins with `file_name` and names the key, for everything that weft would not compute as transformers
/// does: other models, activations, dropout, sliding windows, quantised weights, other rope types, keys it
/// does not know, two spellings that disagree, sizes that do not fit.
[[nodiscard]] HfConfig parse_hf_config(std::string_view text, const std::string& file_name);

/// The text of a config.json, in both spellings, for weights of type `dtype`. Keys of `base`, another
/// config.json, that say nothing about the architecture are kept. Throws CheckpointError when `base` is no
/// JSON object.
[[nodiscard]] std::string to_hf_config(const LlamaArchitecture& config, DType dtype,
                                       std::string_view base = "{}");

}  // namespace weft
