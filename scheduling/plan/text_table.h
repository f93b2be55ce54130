#pragma once
// Small pieces of plain text that several views share.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/clock.h"
#include "weft/scheduling/orders/schedule.h"
#include "weft/scheduling/simulation/simulator.h"

namespace weft {

/// Lines of cells, aligned to the right in columns two blanks apart; the first line is the head.
[[nodiscard]] std::string to_table(const std::vector<std::vector<std::string>>& lines);

/// A time in plan.h's cost_unit, up to six digits.
[[nodiscard]] std::string time_text(Nanoseconds time);

/// A share as a percentage with one decimal, for example "5.9 %".
[[nodiscard]] std::string percent(double share);

/// Bytes in the unit that suits them, for example "1.5 MiB".
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);

/// When a B's gradient leaves in a plan, as a line for the reader.
inline constexpr std::string_view early_gradient_rule =
    "the gradient of a B leaves after its I half, as in a run\n";
inline constexpr std::string_view late_gradient_rule =
    "the gradient of a B leaves at its end, as published; a run sends it after the I half "
    "(--early-gradient)\n";

enum class Palette : std::uint8_t { plain, ansi };

/// One line per rank over time, `width` columns at most: ops as kind and micro-batch (`F3`) where there is
/// room, else the kind's letter alone; lower case for a rank's later stages; dots are idle time. `length`:
/// the time that fills the width where it does not fit at full size.
[[nodiscard]] std::string draw_timeline(const Simulation& simulation, const Schedule& schedule,
                                        Nanoseconds length, std::uint32_t width, Palette palette);

}  // namespace weft
