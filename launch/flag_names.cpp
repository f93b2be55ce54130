#include "weft/launch/flag_names.h"

#include <algorithm>

#include "weft/base/text/spelling.h"

namespace weft {
namespace {

std::string plain(std::string_view name) {
  std::string result(name);
  std::replace(result.begin(), result.end(), '_', '-');
  return result;
}

std::string hint(std::string_view name, std::span<const std::string> known) {
  const std::vector<std::string_view> candidates(known.begin(), known.end());
  const std::string_view nearest = nearest_spelling(name, candidates);
  return nearest.empty() ? std::string() : "; did you mean '" + std::string(nearest) + "'?";
}

}  // namespace

void spell_flags(std::vector<std::string>& arguments, std::span<const std::string> known) {
  for (std::string& argument : arguments) {
    if (argument == "--") return;
    if (!argument.starts_with("--")) continue;
    const std::size_t end = std::min(argument.find('='), argument.size());
    const std::string name = argument.substr(0, end);
    const auto found = std::find_if(known.begin(), known.end(),
                                    [&](const std::string& one) { return plain(one) == plain(name); });
    if (found == known.end()) throw UsageError("unknown option '" + name + "'" + hint(name, known));
    argument.replace(0, end, *found);
  }
}

void refuse_empty_values(std::span<const std::string> arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& flag = arguments[i];
    if (flag == "--") return;
    if (!flag.starts_with("--")) continue;
    const std::size_t equals = flag.find('=');
    const bool none_behind =
        equals == std::string::npos && i + 1 < arguments.size() && arguments[i + 1].empty();
    if (none_behind || equals + 1 == flag.size())
      throw UsageError(flag.substr(0, equals) + ": the value is empty");
  }
}

void check_command(std::string_view name, std::span<const std::string> known) {
  if (std::find(known.begin(), known.end(), name) != known.end()) return;
  std::string all;
  for (const std::string& one : known) all += (all.empty() ? "" : ", ") + one;
  throw UsageError("unknown command '" + std::string(name) + "'" + hint(name, known) + " (commands: " + all +
                   ")");
}

}  // namespace weft
