#include "weft/training/config/unfinished.h"

namespace weft {
namespace {

void refuse(bool asked, const ConfigSources& sources, const std::string& path, const std::string& problem,
            const std::string& allowed) {
  if (asked) throw config_error(sources.find(path), path, problem, allowed);
}

}  // namespace

void refuse_unfinished(const NanotronConfig& config, const ConfigSources& sources) {
  refuse_checkpoints(config, sources);
  refuse_bfloat16(config, sources);
  refuse_recompute(config, sources);
  refuse_given_weights(config, sources);
  refuse_evaluation(config, sources);
}

void refuse_checkpoints(const NanotronConfig& config, const ConfigSources& sources) {
  const CheckpointsConfig& c = config.checkpoints;
  const std::string problem = "weft does not write or read checkpoints yet";
  refuse(c.checkpoint_interval.has_value(), sources, "checkpoints.checkpoint_interval", problem, "null");
  refuse(c.save_initial_state, sources, "checkpoints.save_initial_state", problem, "false");
  refuse(c.save_final_state, sources, "checkpoints.save_final_state", problem, "false");
  refuse(c.keep_last.has_value(), sources, "checkpoints.keep_last", problem, "null");
  refuse(c.resume_checkpoint_path.has_value(), sources, "checkpoints.resume_checkpoint_path", problem,
         "null");
}

void refuse_bfloat16(const NanotronConfig& config, const ConfigSources& sources) {
  refuse(config.model.dtype != DType::float32, sources, "model.dtype", "weft does not train in bfloat16 yet",
         "float32");
}

void refuse_recompute(const NanotronConfig& config, const ConfigSources& sources) {
  refuse(config.parallelism.recompute_layer, sources, "parallelism.recompute_layer",
         "weft does not recompute layers yet", "false");
}

void refuse_given_weights(const NanotronConfig& config, const ConfigSources& sources) {
  refuse(config.model.init_method.path.has_value(), sources, "model.init_method.path",
         "weft does not start from given weights yet", "std");
}

void refuse_evaluation(const NanotronConfig& config, const ConfigSources& sources) {
  refuse(config.tokens.val_check_interval > 0, sources, "tokens.val_check_interval",
         "weft does not evaluate between steps yet", "-1");
}

}  // namespace weft
