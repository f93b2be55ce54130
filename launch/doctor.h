#pragma once
// `weft doctor`: what this machine offers, and what that means for a run.
#include <string>

namespace weft {

/// Several lines for people. Nothing it finds missing is an error.
[[nodiscard]] std::string examine_machine();

}  // namespace weft
