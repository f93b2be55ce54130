#pragma once
// YAML text to Node. yaml-cpp does the grammar; what a value means is weft's own (scalar.h).
#include <string>
#include <string_view>

#include "weft/training/config/complaints.h"
#include "weft/training/config/node.h"

namespace weft {

/// Parses one document; `start` is the place of its first byte. Bytes that are not UTF-8 are kept as they
/// are. Aliases are replaced by copies, `!!binary` by the bytes it stands for, merge keys (`<<`) by what they
/// merge, as PyYAML does: own keys win, then the block that comes first in a list. Throws ConfigError on
/// wrong grammar, a key given twice, other tags, keys that are no scalars, a second document, control
/// characters, more than 64 levels, more than 100 000 values (copies counted), and aliases that contain
/// themselves.
[[nodiscard]] Node parse_yaml(std::string_view text, const Source& start);

/// The same, but a key given twice is added to the complaints, and its last value stands.
[[nodiscard]] Node parse_yaml(std::string_view text, const Source& start, Complaints& complaints);

/// Reads a file of at most 1 MiB. Throws ConfigError when it cannot be read or is larger.
[[nodiscard]] std::string read_config_file(const std::string& path);

}  // namespace weft
