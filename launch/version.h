#pragma once
// `weft version`.
#include <string>

namespace weft {

/// One line: version, compiler, build id.
[[nodiscard]] std::string version_line();

}  // namespace weft
