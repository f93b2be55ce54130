#pragma once
// Writing Hugging Face folders.
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "weft/model/weights/safetensors.h"

namespace weft {

/// Writes config.json and the tensors, in their order, in files of at most `shard_bytes` (a larger tensor has
/// a file of its own), with an index if there are several. The folder is complete or absent: it must not
/// exist yet, or be empty. Throws CheckpointError.
void write_hf_folder(const std::filesystem::path& folder, std::string_view config_text,
                     std::span<const StoredTensor> tensors, std::uint64_t shard_bytes = 5'000'000'000);

}  // namespace weft
