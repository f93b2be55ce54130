#pragma once
// The command line of `weft`.
#include <string>
#include <vector>

namespace weft {

/// Runs the command that `arguments` (the first is the program's name) ask for and returns the exit status: 0
/// all is well, 1 the command failed, 2 wrong usage or configuration, 128 + n stopped by signal n. Messages
/// go to stderr.
[[nodiscard]] int run_command_line(std::vector<std::string> arguments);

}  // namespace weft
