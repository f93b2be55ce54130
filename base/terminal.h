#pragma once
// What a terminal on a descriptor can show.
#include <string_view>

namespace weft {

/// Whether the cursor may be moved there: a terminal that is not TERM=dumb.
[[nodiscard]] bool is_smart_terminal(int descriptor);

/// What takes a progress bar away that may stand on the last line: goes to its start and clears it; empty where
/// there can be no bar.
[[nodiscard]] std::string_view line_eraser(int descriptor);

}  // namespace weft
