#include "weft/launch/job.h"

#include <cstdlib>

#include "weft/base/error.h"

namespace weft {

std::chrono::milliseconds heartbeat_limit() {
  const char* text = std::getenv("WEFT_HEARTBEAT_LIMIT");
  if (text == nullptr) return std::chrono::seconds(10);
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  if (end == text || *end != '\0' || !(seconds >= 1 && seconds <= 1e6)) {
    throw ConfigError("WEFT_HEARTBEAT_LIMIT: '" + std::string(text) +
                      "' does not fit; allowed: seconds, 1 to 1000000");
  }
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

int JobResult::exit_status() const noexcept {
  if (cause) return 1;
  return stop_signal != 0 ? 128 + stop_signal : 0;
}

}  // namespace weft
