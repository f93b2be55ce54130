#pragma once
// What a checkpoint says about where training stands, as a function of configuration and step.
#include <cstdint>
#include <string>

#include "weft/training/checkpoint/manifest.h"
#include "weft/training/config/nanotron_config.h"
#include "weft/training/data/training_data.h"

namespace weft {

/// The optimizer's name in manifests: the configuration's.
[[nodiscard]] std::string optimizer_name(const NanotronConfig& config);

/// The position after `step`. `model_base` is a config.json whose other keys are kept.
[[nodiscard]] TrainingPosition training_position(const NanotronConfig& config, const TrainingData& data,
                                                 std::uint64_t step, const std::string& model_base);

/// False when the last step before the checkpoint read other samples than this configuration gives it.
[[nodiscard]] bool has_same_data(const TrainingPosition& saved, const TrainingData& data);

}  // namespace weft
