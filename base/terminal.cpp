#include "weft/base/terminal.h"

#include <unistd.h>

#include <cstdlib>

namespace weft {

bool is_smart_terminal(int descriptor) {
  const char* terminal = std::getenv("TERM");
  return ::isatty(descriptor) == 1 && (terminal == nullptr || std::string_view(terminal) != "dumb");
}

std::string_view line_eraser(int descriptor) { return is_smart_terminal(descriptor) ? "\r\033[K" : ""; }

}  // namespace weft
