#pragma once
// Strings that are no text in YAML: `!!binary` with base64, as YAML itself and Python's readers have it. So a
// file name of any bytes can be written, in a file that other tools can read.
#include <optional>
#include <string>
#include <string_view>

namespace weft {

/// The tag as yaml-cpp names it.
constexpr std::string_view binary_tag = "tag:yaml.org,2002:binary";

[[nodiscard]] std::string to_base64(std::string_view bytes);

/// Spaces and line breaks in `text` do not count. None when it is not base64.
[[nodiscard]] std::optional<std::string> from_base64(std::string_view text);

}  // namespace weft
