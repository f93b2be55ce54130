#include "weft/training/training_position.h"

#include <algorithm>

#include "weft/model/weights/hf_config.h"
#include "weft/training/config/load.h"
#include "weft/training/learning_rate.h"
#include "weft/training/llama.h"

namespace weft {

std::string optimizer_name(const NanotronConfig& config) {
  return config.optimizer.optimizer_factory.name == OptimizerKind::sgd ? "sgd" : "adamW";
}

TrainingPosition training_position(const NanotronConfig& config, const TrainingData& data, std::uint64_t step,
                                   const std::string& model_base) {
  const auto samples_per_step = static_cast<std::uint64_t>(config.tokens.samples_per_step());
  TrainingPosition position;
  position.step = step;
  position.consumed_samples = step * samples_per_step;
  position.consumed_tokens =
      position.consumed_samples * static_cast<std::uint64_t>(config.tokens.sequence_length);
  for (const DataStageConfig& stage : config.data_stages) {
    const auto begins = static_cast<std::uint64_t>(stage.start_training_step) - 1;
    std::uint64_t ends = step;
    for (const DataStageConfig& other : config.data_stages)  // they come in any order
      if (other.start_training_step > stage.start_training_step)
        ends = std::min(ends, static_cast<std::uint64_t>(other.start_training_step) - 1);
    DataPosition used;
    used.stage = stage.name;
    if (ends > begins) used.consumed_samples = (ends - begins) * samples_per_step;
    if (ends > begins && ends == step) used.fingerprint = data.fingerprint(step);
    position.data.push_back(std::move(used));
  }
  position.optimizer = optimizer_name(config);
  position.learning_rate = step == 0 ? 0 : learning_rate(config, step);
  position.seed = config.general.seed;
  position.config = to_yaml(config);
  position.model = to_hf_config(Llama(config).config(), config.model.dtype, model_base);
  return position;
}

bool has_same_data(const TrainingPosition& saved, const TrainingData& data) {
  for (const DataPosition& stage : saved.data)
    if (!stage.fingerprint.empty()) return stage.fingerprint == data.fingerprint(saved.step);
  return true;
}

}  // namespace weft
