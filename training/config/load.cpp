#include "weft/training/config/load.h"

#include <algorithm>

#include "weft/training/config/checks.h"
#include "weft/training/config/schedule_key.h"
#include "weft/training/config/schema.h"
#include "weft/training/config/yaml_reader.h"
#include "weft/training/config/yaml_writer.h"

namespace weft {

LoadedConfig parse_config(const std::string& text, const std::string& name,
                          const std::vector<ConfigOverride>& overrides,
                          const FindArchitecture& architecture) {
  const Source start{name, 1, 1, 0};
  Node tree = parse_yaml(text, start);
  if (tree.kind != Node::Kind::block && !tree.is_null()) {
    throw config_error(tree.source, "",
                       tree.describe() + " where the blocks of a configuration are expected");
  }
  apply_overrides(tree, overrides);
  resolve_schedule_spellings(tree);

  LoadedConfig loaded;
  loaded.sources.add("", start);
  schema::Reading reading{loaded.sources, loaded.notices};
  schema::read_table(tree, "", schema::table_of(loaded.config), reading);
  if (loaded.config.model.dtype == DType::bfloat16 && !loaded.config.optimizer.accumulate_grad_in_fp32)
    loaded.notices.push_back(
        "optimizer.accumulate_grad_in_fp32: false is ignored: weft always sums gradients in float32");
  adopt_given_architecture(loaded.config, loaded.sources, loaded.notices, architecture);
  check_together(loaded.config, loaded.sources);
  return loaded;
}

LoadedConfig load_config(const std::string& path, const std::vector<ConfigOverride>& overrides,
                         const FindArchitecture& architecture) {
  return parse_config(read_config_file(path), path, overrides, architecture);
}

std::string to_yaml(const NanotronConfig& config) {
  NanotronConfig copy = config;
  return write_yaml(schema::write_table(schema::table_of(copy)));
}

NanotronConfig NanotronConfig::load_from_yaml(const std::string& path) { return load_config(path).config; }

}  // namespace weft
