#include "weft/base/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace weft {

std::uint32_t terminal_width() {
  std::uint32_t width = 100;
  winsize size{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    width = size.ws_col;
  } else if (const char* columns = std::getenv("COLUMNS"); columns != nullptr && std::atoi(columns) > 0) {
    width = static_cast<std::uint32_t>(std::atoi(columns));
  }
  return std::clamp(width, 40U, 1000U);
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
