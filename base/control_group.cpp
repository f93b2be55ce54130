#include "weft/base/control_group.h"

#include <sstream>
#include <string>

namespace weft {

std::vector<ControlGroupFolder> control_group_folders(std::string_view membership,
                                                      const std::filesystem::path& mount,
                                                      std::string_view controller) {
  std::vector<ControlGroupFolder> folders;
  std::istringstream lines{std::string(membership)};
  for (std::string line; std::getline(lines, line);) {
    // `0::/path` in the second version of control groups, `4:cpu,cpuacct:/path` in the first
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = ',' + line.substr(first + 1, second - first - 1) + ',';
    const bool unified = controllers == ",,";
    if (!unified && controllers.find(',' + std::string(controller) + ',') == std::string::npos) continue;
    std::filesystem::path folder = unified ? mount : mount / controller;
    folders.push_back({folder, unified});
    for (const auto& part : std::filesystem::path(line.substr(second + 1)).relative_path())
      folders.push_back({folder /= part, unified});
  }
  return folders;
}

}  // namespace weft
