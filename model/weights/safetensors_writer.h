#pragma once
// Writing safetensors files.
#include <filesystem>
#include <span>

#include "weft/base/files/durable_file.h"
#include "weft/model/weights/safetensors.h"

namespace weft {

/// Writes a new file, in the strict form (padded header, tensors sorted by size of element, then name),
/// flushed to the medium. Throws CheckpointError when the file exists or cannot be written completely, when a
/// name comes twice, is no UTF-8 or the size of a tensor's bytes is not that of its shape and `dtype`
/// (`type` is not looked at).
FileRecord write_new_safetensors(const std::filesystem::path& path, std::span<const StoredTensor> tensors,
                                 const SafetensorsMetadata& metadata = {});

}  // namespace weft
