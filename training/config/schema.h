#pragma once
// The schema: every key of the configuration, once, with its type, range and effect.
#include <string>
#include <vector>

#include "weft/training/config/nanotron_config.h"
#include "weft/training/config/node.h"
#include "weft/training/config/schema_value.h"

namespace weft::schema {

/// All keys, bound to the fields of `config`. The table refers to `config`, which must outlive it.
[[nodiscard]] Table table_of(NanotronConfig& config);

/// Reads a whole file into `config`; what is wrong is in the complaints of `reading`.
void read_all(const Node& tree, NanotronConfig& config, Reading& reading);

}  // namespace weft::schema
