#pragma once
// Node to YAML text.
#include <string>

#include "weft/training/config/node.h"

namespace weft {

/// Block style, two-space indents, lists of scalars in one line; always UTF-8, with `!!binary` for strings
/// that are not. parse_yaml reads back the same values.
[[nodiscard]] std::string write_yaml(const Node& node);

}  // namespace weft
