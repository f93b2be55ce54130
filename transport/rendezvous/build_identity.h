#pragma once
// What tells two builds apart: ranks compare it, since equal bits are promised for one build only.
#include <string>

namespace weft {

/// The linker's build id of the running program in hexadecimal, or the compiler's version where there is
/// none.
[[nodiscard]] std::string build_identity();

}  // namespace weft
