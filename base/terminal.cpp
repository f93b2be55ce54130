#include "weft/base/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace weft {

std::uint32_t terminal_columns(int descriptor, std::uint32_t otherwise) {
  winsize size{};
  return ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : otherwise;
}

std::uint32_t terminal_width() {
  const char* columns = std::getenv("COLUMNS");
  const int wanted = columns == nullptr ? 0 : std::atoi(columns);
  return std::clamp(terminal_columns(STDOUT_FILENO, wanted > 0 ? static_cast<std::uint32_t>(wanted) : 100U),
                    40U, 1000U);
}

bool terminal_has_colours() {
  return is_smart_terminal(STDOUT_FILENO) && std::getenv("NO_COLOR") == nullptr &&
         std::getenv("TERM") != nullptr;
}

bool is_smart_terminal(int descriptor) {
  const char* terminal = std::getenv("TERM");
  return isatty(descriptor) == 1 && (terminal == nullptr || std::string_view(terminal) != "dumb");
}

std::string_view line_eraser(int descriptor) { return is_smart_terminal(descriptor) ? "\r\033[K" : ""; }

}  // namespace weft
