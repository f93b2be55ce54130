#include "weft/training/config/nanotron_config.h"

#include <algorithm>
#include <regex>

namespace weft {

std::int64_t ModelArgs::padded_vocab_size() const noexcept {
  const std::int64_t unit = std::max<std::int64_t>(1, make_vocab_size_divisible_by);
  return (model_config.vocab_size + unit - 1) / unit * unit;
}

std::string expand_run_name(const std::string& run, const std::string& date, const std::string& job) {
  std::string result;
  for (std::size_t i = 0; i < run.size();) {
    const std::string_view rest = std::string_view(run).substr(i);
    if (rest.starts_with("%date")) {
      result += date;
      i += 5;
    } else if (rest.starts_with("%jobid")) {
      result += job;
      i += 6;
    } else {
      result += run[i++];
    }
  }
  return result;
}

bool decays_weights(const OptimizerConfig& optimizer, const std::string& parameter) {
  const auto& patterns = optimizer.weight_decay_exclude_named_params;
  return std::none_of(patterns.begin(), patterns.end(), [&](const std::string& pattern) {
    return std::regex_search(parameter, std::regex(pattern), std::regex_constants::match_continuous);
  });
}

}  // namespace weft
