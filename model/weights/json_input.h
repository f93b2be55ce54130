#pragma once
// JSON files from outside, as a tree; for small files only, since the tree takes many times their size.
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace weft {

/// Parses `text` into an object. Throws CheckpointError that begins with `file_name` for anything else, for a
/// key given twice and for nesting deeper than 64.
[[nodiscard]] nlohmann::json parse_json_object(std::string_view text, const std::string& file_name);

/// The same for a file of at most `limit` bytes.
[[nodiscard]] nlohmann::json read_json_object(const std::filesystem::path& path, std::size_t limit);

}  // namespace weft
