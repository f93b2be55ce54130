// Which parameters a pattern of weight_decay_exclude_named_params means.
#include "weft/model/llama/decay_exclusion.h"

#include <gtest/gtest.h>

#include "weft/model/weights/hf_folder.h"

namespace weft {
namespace {

LlamaArchitecture two_layers() {
  LlamaArchitecture model;
  model.num_hidden_layers = 2;
  model.attention_bias = true;
  return model;
}

std::vector<std::string> excluded(const std::vector<std::string>& patterns) {
  const DecayExclusion exclusion(patterns);
  std::vector<std::string> names;
  for (const LlamaTensor& tensor : llama_tensors(two_layers()))
    if (exclusion.excludes(tensor.name)) names.push_back(tensor.name);
  return names;
}

using Names = std::vector<std::string>;

TEST(DecayExclusion, KnowsANameOfNanotronsForEveryParameter) {
  for (const LlamaTensor& tensor : llama_tensors(two_layers()))
    EXPECT_NE(nanotron_name(tensor.name), "") << tensor.name;
  EXPECT_EQ(nanotron_name("model.layers.17.self_attn.k_proj.bias"),
            "model.decoder.17.pp_block.attn.qkv_proj.bias");
  EXPECT_EQ(nanotron_name("model.layers.3"), "");
  EXPECT_EQ(nanotron_name("weight"), "");
}

TEST(DecayExclusion, UnderstandsBothNames) {
  EXPECT_EQ(excluded({".*embed_tokens.*"}), Names{"model.embed_tokens.weight"});
  EXPECT_EQ(excluded({".*token_embedding.*"}), Names{"model.embed_tokens.weight"});
  EXPECT_EQ(excluded({"model\\.final_layer_norm.*"}), Names{"model.norm.weight"});
  EXPECT_EQ(excluded({"model.lm_head", "lm_head"}), Names{"lm_head.weight"});
  EXPECT_EQ(excluded({"model.decoder.1.pp_block.mlp.gate_up_proj.weight"}),
            (Names{"model.layers.1.mlp.gate_proj.weight", "model.layers.1.mlp.up_proj.weight"}));
  EXPECT_EQ(excluded({"model.decoder.0.pp_block.attn.qkv_proj.weight"}),
            (Names{"model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.k_proj.weight",
                   "model.layers.0.self_attn.v_proj.weight"}));
  EXPECT_EQ(excluded({".*(norm|bias).*"}), excluded({".*norm.*", ".*\\.bias$"}));
}

TEST(DecayExclusion, MatchesFromTheBeginning) {
  EXPECT_EQ(excluded({"embed_tokens"}), Names{});
  EXPECT_EQ(excluded({}), Names{});
}

}  // namespace
}  // namespace weft
