#pragma once
// The spelling of flags: `-` and `_` are the same, and a wrong one gets the nearest right one as an answer.
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/error.h"

namespace weft {

/// Wrong usage of the command line: exit status 2.
class UsageError : public Error {
 public:
  using Error::Error;
};

/// Gives every long flag among `arguments` (`--name` or `--name=value`, up to a lone `--`) the spelling it
/// has in `known`. Throws UsageError, with the nearest known name, for one that is not there.
void spell_flags(std::vector<std::string>& arguments, std::span<const std::string> known);

/// Throws UsageError for a flag among `arguments` (up to a lone `--`) whose value is empty: nothing has an
/// empty name, and a variable of a script that holds nothing must not mean something else.
void refuse_empty_values(std::span<const std::string> arguments);

/// The command among `known` that `name` is. Throws UsageError, with the nearest known name.
void check_command(std::string_view name, std::span<const std::string> known);

}  // namespace weft
