#pragma once
// Where the limits of this process's control group stand.
#include <filesystem>
#include <string_view>
#include <vector>

namespace weft {

/// One folder with limits, of the group itself or of one around it.
struct ControlGroupFolder {
  std::filesystem::path path;
  bool unified = false;  ///< of the second version: one hierarchy for all controllers
};

/// The folders below `mount` for `controller` ("cpu", "memory"), each hierarchy from its root to the group
/// that `membership` (as /proc/self/cgroup has it) names. They need not exist: a container sees its own part
/// only.
[[nodiscard]] std::vector<ControlGroupFolder> control_group_folders(std::string_view membership,
                                                                    const std::filesystem::path& mount,
                                                                    std::string_view controller);

}  // namespace weft
