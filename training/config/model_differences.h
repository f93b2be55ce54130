#pragma once
// Two architectures side by side, key by key.
#include <string>
#include <vector>

#include "weft/model/llama_config.h"

namespace weft {

/// A key whose values differ, with both of them as text.
struct KeyDifference {
  std::string key;  ///< its whole path, `model.model_config.hidden_size`
  std::string first;
  std::string second;
};

/// What makes the two compute something else: spellings of defaults, keys of a rope scaling that is not used
/// and max_position_embeddings do not.
[[nodiscard]] std::vector<KeyDifference> model_differences(const LlamaArchitecture& first,
                                                           const LlamaArchitecture& second);

}  // namespace weft
