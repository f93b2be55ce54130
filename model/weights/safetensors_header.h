#pragma once
// The JSON header of a safetensors file, read event by event so that limits hold before memory is taken.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/model/weights/safetensors.h"

namespace weft {

/// One entry of a header, as it stands there; nothing but its form has been checked.
struct SafetensorsEntry {
  std::string name;
  std::string type;
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;
  SafetensorsMetadata metadata;
};

/// Throws CheckpointError that begins with `file_name` for anything that is not a header: wrong JSON, wrong
/// form of an entry, names given twice.
[[nodiscard]] SafetensorsHeader parse_safetensors_header(std::string_view text, const std::string& file_name);

}  // namespace weft
