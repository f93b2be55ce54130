#pragma once
// `weft convert`: a Llama between Hugging Face's folders and weft's checkpoints. Tensors keep their bytes and
// types, config.json its text, so that there and back again gives what was there.
#include <cstdint>
#include <filesystem>

#include "weft/training/checkpoint/checkpoint_text.h"

namespace weft {

/// Makes `target` a checkpoint (of step 0, weights alone) of the Llama in the folder `source`. `target` must
/// not exist or be empty; it is complete or absent. Throws CheckpointError.
[[nodiscard]] CheckpointReport convert_hf_to_weft(const std::filesystem::path& source,
                                                  const std::filesystem::path& target);

/// Makes `target` a Hugging Face folder of a checkpoint's weights; a folder of checkpoints stands for its
/// newest valid one. Files hold at most `shard_bytes`. `target` must not exist or be empty; it is complete or
/// absent. Throws CheckpointError, also when the checkpoint is not that of a Llama.
[[nodiscard]] CheckpointReport convert_weft_to_hf(const std::filesystem::path& checkpoint,
                                                  const std::filesystem::path& target,
                                                  std::uint64_t shard_bytes = 5'000'000'000);

}  // namespace weft
