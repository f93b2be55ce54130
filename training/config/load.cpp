#include "weft/training/config/load.h"

#include <utility>

#include "weft/training/config/checks.h"
#include "weft/training/config/complaints.h"
#include "weft/training/config/decay_patterns.h"
#include "weft/training/config/schedule_key.h"
#include "weft/training/config/schema.h"
#include "weft/training/config/yaml_reader.h"
#include "weft/training/config/yaml_writer.h"

namespace weft {

namespace {

struct Read {
  LoadedConfig loaded;
  Complaints complaints;
};

Read read_config(const std::string& text, const std::string& name,
                 const std::vector<ConfigOverride>& overrides, ConfigUse use) {
  Read result;
  const Source start{name, 1, 1, 0};
  Node tree = parse_yaml(text, start, result.complaints);
  if (tree.kind != Node::Kind::block && !tree.is_null()) {
    throw config_error(tree.source, "",
                       tree.describe() + " where the blocks of a configuration are expected");
  }
  apply_overrides(tree, overrides, result.complaints);
  resolve_schedule_spellings(tree, result.complaints);

  LoadedConfig& loaded = result.loaded;
  loaded.sources.add("", start);
  schema::Reading reading{loaded.sources, loaded.notices, result.complaints, use};
  schema::read_all(tree, loaded.config, reading);
  return result;
}

LoadedConfig checked(Read read, const FindArchitecture& architecture, ConfigUse use) {
  LoadedConfig& loaded = read.loaded;
  NanotronConfig& config = loaded.config;
  if (config.model.dtype == DType::bfloat16 && !config.optimizer.accumulate_grad_in_fp32)
    loaded.notices.push_back(
        "optimizer.accumulate_grad_in_fp32: false is ignored: weft always sums gradients in float32");
  if (read.complaints.is_sound("model.init_method") && read.complaints.is_sound("checkpoints"))
    read.complaints.collect("model.model_config", [&] {
      adopt_given_architecture(config, loaded.sources, loaded.notices, architecture);
    });
  check_together(config, loaded.sources, use, read.complaints);
  read.complaints.throw_if_any();
  tell_patterns_without_effect(config, loaded.sources, loaded.notices);
  return std::move(loaded);
}

}  // namespace

LoadedConfig parse_config(const std::string& text, const std::string& name,
                          const std::vector<ConfigOverride>& overrides,
                          const FindArchitecture& architecture) {
  return checked(read_config(text, name, overrides, ConfigUse::training), architecture, ConfigUse::training);
}

LoadedConfig load_config(const std::string& path, const std::vector<ConfigOverride>& overrides,
                         const FindArchitecture& architecture) {
  return parse_config(read_config_file(path), path, overrides, architecture);
}

LoadedConfig load_plan_config(const std::string& path, const std::vector<ConfigOverride>& overrides) {
  return checked(read_config(read_config_file(path), path, overrides, ConfigUse::plan),
                 architecture_of_folder, ConfigUse::plan);
}

NanotronConfig parse_written_config(const std::string& text, const std::string& name) {
  Read read = read_config(text, name, {}, ConfigUse::training);
  read.complaints.throw_if_any();
  return std::move(read.loaded.config);
}

std::string to_yaml(const NanotronConfig& config) {
  NanotronConfig copy = config;
  return write_yaml(schema::write_table(schema::table_of(copy)));
}

NanotronConfig NanotronConfig::load_from_yaml(const std::string& path) { return load_config(path).config; }

}  // namespace weft
