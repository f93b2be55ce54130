#pragma once
// Bytes from outside (names in files, words of other processes) as text that people, terminals and other
// formats can take.
#include <string>
#include <string_view>

namespace weft {

/// The text with a replacement character for what is no UTF-8, for formats that allow nothing else.
[[nodiscard]] std::string to_utf8(std::string_view text);

/// The text with `\xNN` for every byte of what a terminal obeys or does not show (control characters, marks
/// that hide or turn round the text beside them) and of what is no UTF-8; cut to `longest` bytes, with `...`
/// then.
[[nodiscard]] std::string printable(std::string_view text, std::size_t longest = std::string_view::npos);

/// A name in double quotes, printable, cut to a readable length.
[[nodiscard]] std::string quoted_name(std::string_view name);

/// A name as it is when it is short and all of it can be seen, else quoted_name.
[[nodiscard]] std::string shown_name(std::string_view name);

}  // namespace weft
