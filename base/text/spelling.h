#pragma once
// "Did you mean ...?": the known name nearest to one that is not known.
#include <span>
#include <string_view>

namespace weft {

/// The candidate with the fewest letters to change, add or drop, or one that starts with `name`; empty when
/// none is near enough to be a misspelling (a third of the letters, at least one).
[[nodiscard]] std::string_view nearest_spelling(std::string_view name,
                                                std::span<const std::string_view> candidates);

}  // namespace weft
