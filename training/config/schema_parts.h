#pragma once
// The larger parts of the schema, each in a file of its own.
#include "weft/training/config/nanotron_config.h"
#include "weft/training/config/schema_value.h"

namespace weft::schema {

[[nodiscard]] Value model_value(ModelArgs& model);             // schema_model.cpp
[[nodiscard]] Table data_stage_table(DataStageConfig& stage);  // schema_data.cpp

}  // namespace weft::schema
