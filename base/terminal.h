#pragma once
// What the terminal behind a descriptor can show.
#include <cstdint>
#include <string_view>

namespace weft {

/// Columns of the terminal behind `descriptor`; `otherwise` where there is none.
[[nodiscard]] std::uint32_t terminal_columns(int descriptor, std::uint32_t otherwise);

/// Columns of the terminal behind stdout, or of COLUMNS, or 100; from 40 to 1000.
[[nodiscard]] std::uint32_t terminal_width();

/// True when stdout is a terminal that wants colours (NO_COLOR and TERM=dumb say no).
[[nodiscard]] bool terminal_has_colours();

/// Whether the cursor may be moved there: a terminal that is not TERM=dumb.
[[nodiscard]] bool is_smart_terminal(int descriptor);

/// What takes a progress bar away that may stand on the last line: goes to its start and clears it; empty
/// where there can be no bar.
[[nodiscard]] std::string_view line_eraser(int descriptor);

}  // namespace weft
