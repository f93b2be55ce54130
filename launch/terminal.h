#pragma once
// What stdout is connected to.
#include <cstdint>

namespace weft {

/// Columns of the terminal behind stdout, or of COLUMNS, or 100.
[[nodiscard]] std::uint32_t terminal_width();

/// True for a terminal that wants colours (NO_COLOR and TERM=dumb say no).
[[nodiscard]] bool terminal_has_colours();

}  // namespace weft
