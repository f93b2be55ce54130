#include "weft/training/config/given_architecture.h"

#include <fmt/format.h>

#include "weft/base/error.h"
#include "weft/model/weights/hf_folder.h"
#include "weft/training/config/model_differences.h"

namespace weft {

GivenArchitecture architecture_of_folder(const NanotronConfig& config, const ConfigSources&) {
  const std::string& path = *config.model.init_method.path;
  return {HfFolder(path).config().llama, path + "/config.json"};
}

void adopt_given_architecture(NanotronConfig& config, const ConfigSources& sources,
                              std::vector<std::string>& notices, const FindArchitecture& find) {
  if (!config.model.init_method.path) return;
  try {
    const GivenArchitecture given = find(config, sources);
    LlamaArchitecture& model = config.model.model_config;
    std::string differences;
    if (model != LlamaArchitecture{})
      for (const KeyDifference& key : model_differences(model, given.model))
        differences += fmt::format("{} {} is {}, there {}", differences.empty() ? "" : ";",
                                   key.key.substr(std::string_view("model.model_config.").size()), key.first,
                                   key.second);
    if (!differences.empty())
      notices.push_back("model.model_config differs from " + given.from + " and is ignored:" + differences);
    model = given.model;
    config.model.make_vocab_size_divisible_by = 1;
  } catch (const CheckpointError& e) {
    throw config_error(sources.find("model.init_method.path"), "model.init_method.path", e.what());
  }
}

}  // namespace weft
