#include "weft/training/config/source.h"
#include "weft/base/text/foreign_text.h"

#include <fmt/format.h>

namespace weft {
std::string Source::prefix() const {
  return file.empty() ? std::string() : fmt::format("{}:{}:{}: ", printable(file), line, column);
}

Source ConfigSources::find(std::string_view path) const {
  for (;;) {
    const auto place = places_.find(path);
    if (place != places_.end()) return place->second;
    if (path.empty()) return Source{};
    const std::size_t dot = path.rfind('.');
    path = dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
  }
}

ValueError config_error(const Source& source, std::string_view path, std::string_view problem,
                        std::string_view allowed) {
  std::string text = source.prefix();
  if (!path.empty()) text += printable(path) + ": ";
  text += printable(problem);
  if (!allowed.empty()) text += "; allowed: " + printable(allowed);
  return {source, path, text};
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t longest = 80;
  return fmt::format("'{}'", printable(text, longest));
}

}  // namespace weft
