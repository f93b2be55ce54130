// libFuzzer: whatever a file or a `--set` argument holds, loading ends in a checked configuration that is
// written and read back the same, or in a ConfigError of 21 lines
// at most. The first byte says where the rest goes.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "weft/training/config/load.h"
#include "weft/training/config/yaml_reader.h"
#include "weft/training/config/yaml_writer.h"
#include "weft/training/resume.h"

// Folders of checkpoints are not this target's subject, and what looks into them needs the whole runtime.
std::optional<weft::ResumePoint> weft::expected_resume_point(const NanotronConfig&, const ResumeRequest&,
                                                             const ConfigSources&) {
  return std::nullopt;
}

namespace {

const std::string valid = R"(model:
  dtype: float32
  init_method: {std: 0.02}
  model_config: {num_hidden_layers: 4, hidden_size: 64, num_attention_heads: 4}
tokens: {sequence_length: 16, train_steps: 10, micro_batch_size: 2, batch_accumulation_per_replica: 4}
data_stages: [{name: a, start_training_step: 1, data: {dataset: null}}]
optimizer: {optimizer_factory: {name: adamW}, learning_rate_scheduler: {learning_rate: 1e-3}}
)";

void load(const std::string& text, const std::vector<weft::ConfigOverride>& overrides) {
  const weft::NanotronConfig config = weft::parse_config(text, "fuzz.yaml", overrides).config;
  if (weft::parse_config(weft::to_yaml(config), "again.yaml").config != config) std::abort();
}

/// Every string as a string, whatever it looks like.
void make_strings(weft::Node& node) {
  if (!node.is_null()) node.plain = false;
  for (weft::Node& child : node.children) make_strings(child);
}

void parse(const std::string& text) {
  weft::Node tree = weft::parse_yaml(text, {"fuzz.yaml", 1, 1, 0});
  make_strings(tree);
  const std::string written = weft::write_yaml(tree);
  weft::Node again = weft::parse_yaml(written, {"again.yaml", 1, 1, 0});
  make_strings(again);
  if (weft::write_yaml(again) != written) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    switch (data[0] % 3) {
      case 0:
        load(text, {});
        break;
      case 1:
        load(valid, {weft::set_override(text)});
        break;
      default:
        parse(text);
    }
  } catch (const weft::ConfigError& e) {
    const std::string what = e.what();  // a line for each complaint, 20 at most, and how many more there are
    if (std::count(what.begin(), what.end(), '\n') > 20 || what.find("\n\n") != std::string::npos)
      std::abort();
  }
  return 0;
}
