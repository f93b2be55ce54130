#pragma once
// The larger parts of the schema, each in a file of its own.
#include <cstdint>
#include <limits>

#include "weft/training/config/nanotron_config.h"
#include "weft/training/config/schema_value.h"

namespace weft::schema {

inline constexpr std::int64_t most_steps = 2'000'000'000;
inline constexpr std::int64_t most_positions = 1 << 24;
inline constexpr std::int64_t most_tokens = 1 << 30;
inline constexpr std::int64_t largest_integer = std::numeric_limits<std::int64_t>::max();

[[nodiscard]] Value model_value(ModelArgs& model);             // schema_model.cpp
[[nodiscard]] Table data_stage_table(DataStageConfig& stage);  // schema_data.cpp
/// The `data` block of the dialect before data_stages.
[[nodiscard]] Value older_data();  // schema_data.cpp

}  // namespace weft::schema
