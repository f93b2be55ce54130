#include "weft/model/llama/llama_stage.h"

#include <numeric>
#include <string>
#include <utility>

#include "weft/base/error.h"
#include "weft/model/llama/typed_llama_stage.h"

namespace weft {

std::unique_ptr<LlamaStage> make_llama_stage(const LlamaConfig& config, std::uint32_t first_layer,
                                             std::uint32_t layers) {
  check(config);
  if (layers == 0 || first_layer >= config.num_hidden_layers ||
      layers > config.num_hidden_layers - first_layer)
    throw Error("layers " + std::to_string(first_layer) + " to " +
                std::to_string(std::uint64_t{first_layer} + layers) + " are no part of a model of " +
                std::to_string(config.num_hidden_layers));
  if (config.dtype == DType::bfloat16)
    return std::make_unique<TypedLlamaStage<BFloat16>>(config, first_layer, layers);
  return std::make_unique<TypedLlamaStage<float>>(config, first_layer, layers);
}

StageFactory make_llama_stage_factory(const LlamaConfig& config,
                                      std::vector<std::uint32_t> layers_per_stage) {
  check(config);
  if (std::accumulate(layers_per_stage.begin(), layers_per_stage.end(), std::uint64_t{0}) !=
      config.num_hidden_layers)
    throw Error("the layers of the stages do not add up to the model's " +
                std::to_string(config.num_hidden_layers));
  return [config, layers = std::move(layers_per_stage)](std::uint16_t stage, std::uint16_t stages) {
    if (stages != layers.size() || stage >= stages)
      throw Error("the model is cut into " + std::to_string(layers.size()) + " stages, not " +
                  std::to_string(stages));
    const std::uint32_t first = std::accumulate(layers.begin(), layers.begin() + stage, std::uint32_t{0});
    return std::unique_ptr<Stage>(make_llama_stage(config, first, layers[stage]));
  };
}

}  // namespace weft
