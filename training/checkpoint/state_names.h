#pragma once
// Which optimizer state belongs to which parameter, by name.
#include <span>
#include <string>
#include <string_view>

#include "weft/actors/optimizer.h"
#include "weft/actors/stage.h"

namespace weft {

/// The suffix under which the float32 master copy of a parameter is stored.
inline constexpr std::string_view master_suffix = ".master";

/// The parameter of an optimizer state (NAME.STATE belongs to NAME). Throws CheckpointError when there is
/// none.
[[nodiscard]] const Parameter& owner_of(const OptimizerState& state, std::span<Parameter* const> parameters);

/// The name under which the state of `owner` is stored.
[[nodiscard]] std::string stored_name(const OptimizerState& state, const Parameter& owner);

}  // namespace weft
