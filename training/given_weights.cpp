#include "weft/training/given_weights.h"

#include <utility>

#include "weft/base/error.h"
#include "weft/model/weights/hf_folder.h"

namespace weft {

FindArchitecture resumed_architecture(ResumeRequest request) {
  return [request = std::move(request)](const NanotronConfig& config, const ConfigSources& sources) {
    const auto point = expected_resume_point(config, request, sources);
    if (!point || point->checkpoint.manifest.position.model.empty())
      return architecture_of_folder(config, sources);
    const std::string from = point->checkpoint.folder.string() + "/manifest.json";
    return GivenArchitecture{parse_hf_config(point->checkpoint.manifest.position.model, from).llama, from};
  };
}

void load_given_weights(const NanotronConfig& config, std::span<Parameter* const> parameters) {
  if (config.model.init_method.path) HfFolder(*config.model.init_method.path).load(parameters);
}

std::string given_config_text(const NanotronConfig& config) {
  const auto& path = config.model.init_method.path;
  return path ? HfFolder(*path).config_text() : "{}";
}

}  // namespace weft
