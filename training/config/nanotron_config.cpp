#include "weft/training/config/nanotron_config.h"

#include <algorithm>

namespace weft {

std::int64_t ModelArgs::padded_vocab_size() const noexcept {
  const std::int64_t unit = std::max<std::int64_t>(1, make_vocab_size_divisible_by);
  return (std::int64_t{model_config.vocab_size} + unit - 1) / unit * unit;
}

LlamaArchitecture ModelArgs::architecture() const {
  LlamaArchitecture model = model_config;
  model.vocab_size = static_cast<std::uint32_t>(padded_vocab_size());
  return model;
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

}  // namespace weft
