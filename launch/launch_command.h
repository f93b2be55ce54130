#pragma once
// `weft launch`: any program that embeds weft, one process per rank.
#include <cstdint>
#include <string>
#include <vector>

namespace weft {

struct LaunchArguments {
  std::uint32_t ranks = 1;
  std::vector<std::string> program;  ///< name or path, then its arguments
};

/// Returns the exit status. Throws Error when the program cannot be started.
[[nodiscard]] int launch_program(const LaunchArguments& arguments);

}  // namespace weft
