#pragma once
// Values that replace those of the file: `--set PATH=VALUE` and the flags that stand for one key.
#include <string>
#include <vector>

#include "weft/training/config/complaints.h"
#include "weft/training/config/node.h"

namespace weft {

/// One value for one path, in the order given on the command line.
struct ConfigOverride {
  std::string flag;              ///< `--set`, `--threads`, ...: stands in for the file in messages
  std::string path;              ///< `data_stages.0.data.seed`
  std::string value;             ///< YAML for --set, the bare text of a scalar for other flags
  std::size_t value_column = 1;  ///< where the value starts in the argument
};

/// Splits the argument of `--set`. Throws ConfigError when it is not PATH=VALUE.
[[nodiscard]] ConfigOverride set_override(const std::string& argument);

/// The override of a flag such as `--threads 2`.
[[nodiscard]] ConfigOverride flag_override(std::string flag, std::string path, std::string value);

/// Puts the values into the tree, each replacing the old value whole. Missing blocks are made, a list item
/// one past the end appends. Complained of is a value that is no YAML, a path through a value that is no
/// block or list, and an item that does not exist. Whether the keys exist is found out when the tree is read.
void apply_overrides(Node& root, const std::vector<ConfigOverride>& overrides, Complaints& complaints);

}  // namespace weft
