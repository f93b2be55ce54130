// All that is wrong with a configuration is said at once, and only that.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "config_text.h"
#include "weft/training/config/checks.h"

namespace weft {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::load_with;
using ::testing::Not;
using ::testing::StartsWith;
using testing::valid_text;
using testing::with;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

std::vector<std::string> complaints(const std::vector<std::string>& arguments,
                                    const std::string& text = valid_text) {
  return lines_of(error_of(arguments, text));
}

TEST(ConfigComplaints, AreAllToldInTheOrderOfTheirPlaces) {
  const std::string text = with("dp: 1", "dp: 2") + "nonsense: 1\ntokenizer: {tokenizer_name_or_path: 3}\n";
  EXPECT_THAT(complaints({"tokens.train_steps=many", "optimizer.clip_grad=0", "general.run=''"}, text),
              ElementsAre(StartsWith("c.yaml:4:19: parallelism.dp: 2 is not supported"),
                          StartsWith("c.yaml:30:1: nonsense: is not a known key"),
                          StartsWith("c.yaml:31:37: tokenizer.tokenizer_name_or_path: the number '3'"),
                          StartsWith("--set:1:20: tokens.train_steps: 'many'"),
                          StartsWith("--set:1:21: optimizer.clip_grad: '0' is out of range"),
                          StartsWith("--set:1:13: general.run: '' cannot name a folder")));
}

TEST(ConfigComplaints, StopAtTwentyLinesAndCountTheRest) {
  std::string text = valid_text;
  for (int i = 0; i < 23; ++i) text += "wrong" + std::to_string(i) + ": 1\n";
  const auto lines = complaints({}, text);
  ASSERT_EQ(lines.size(), 21u);
  EXPECT_THAT(lines[19], HasSubstr("wrong19"));
  EXPECT_EQ(lines[20], "and 3 more");
}

TEST(ConfigComplaints, DoNotFollowFromOneAnother) {
  const std::vector<std::vector<std::string>> each_one_line = {
      {"model.model_config.hidden_size=many"},  // no divisor of it is asked for
      {"model.model_config.num_hidden_layers=0", "parallelism.pp=4"},
      {"tokens.sequence_length=0"},
      {"pipeline_parallel.schedule=1f2b", "pipeline_parallel.chunks=3"},
      {"parallelism.pp_engine=1f2b"},
      {"data_stages.0.start_training_step=x"},  // some stage may start at step 1
      {"optimizer.weight_decay_exclude_named_params=['(', 'a']"},
      {"model.init_method={std: wide}"},
      {"tokens=3"},
      {"model.model_config.num_attention_heads=7", "model.model_config.num_key_value_heads=null"},
  };
  for (const auto& arguments : each_one_line)
    EXPECT_EQ(complaints(arguments).size(), 1u) << arguments.front() << "\n" << error_of(arguments);
  // a key that is misspelled is not missing as well, nor does its default count
  EXPECT_THAT(complaints({}, with("train_steps: 10", "train_stepz: 10")),
              ElementsAre(HasSubstr("did you mean 'train_steps'")));
  EXPECT_THAT(complaints({}, with("hidden_size: 64", "hiden_size: 65")),
              ElementsAre(HasSubstr("did you mean 'hidden_size'")));
}

TEST(ConfigComplaints, NameAKeyThatIsGivenTwiceAmongTheOthers) {
  EXPECT_THAT(complaints({}, with("dp: 1", "dp: 1, dp: 2")),
              ElementsAre("c.yaml:4:22: parallelism.dp: is given twice",
                          StartsWith("c.yaml:4:26: parallelism.dp: 2 is not supported")));
}

TEST(ConfigComplaints, OfEveryOverrideAreTold) {
  EXPECT_EQ(complaints({"tokens..x=1", "tokens.train_steps.x=3", "data_stages.2.name=x", "a={"}).size(), 4u);
}

TEST(ConfigComplaints, OfAProgramsConfigurationAreTold) {
  NanotronConfig config = load_with({}).config;
  config.tokens.micro_batch_size = 0;
  config.parallelism.dp = 2;
  config.model.model_config.num_attention_heads = 0;
  try {
    check_config(config);
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_EQ(lines_of(e.what()).size(), 3u) << e.what();
  }
}

TEST(OtherModels, AreNamedInTheFirstLine) {
  const std::string mamba = R"(general: {run: mamba}
model:
  init_method: {initializer_range: 0.02, rescale_prenorm_residual: true}
  model_config: {d_model: 1536, is_mamba_config: true, num_hidden_layers: 48, ssm_cfg: {bias: false}}
tokens: {sequence_length: 16, train_steps: 10, micro_batch_size: 2, batch_accumulation_per_replica: 0}
data_stages: [{name: a, start_training_step: 1, data: {}}]
optimizer: {optimizer_factory: {name: sgd}, learning_rate_scheduler: {learning_rate: 0.1}}
)";
  EXPECT_THAT(complaints({}, mamba),
              ElementsAre(StartsWith("c.yaml:4:50: model.model_config.is_mamba_config: the model is a Mamba"),
                          HasSubstr("batch_accumulation_per_replica: '0'")));
  const std::string block = "model.model_config.";
  for (const std::string experts :
       {"moe_config={num_experts: 8}", "is_llamoe_config=true", "moe_num_experts=4"}) {
    const auto lines = complaints({"parallelism.dp=2", block + experts, block + "num_experts_per_tok=1"});
    ASSERT_EQ(lines.size(), 2u) << experts;
    EXPECT_THAT(lines[0], HasSubstr("weft has no mixture of experts"));
  }
  EXPECT_THAT(complaints({block + "is_qwen2_config=true", block + "sliding_window_size=20"}),
              ElementsAre(HasSubstr("weft has no Qwen2 models"), HasSubstr("sliding_window_size")));
  for (const std::string harmless : {"moe_config=null", "is_mamba_config=false", "is_llamoe_config=False"})
    EXPECT_EQ(error_of({block + harmless}), "") << harmless;
}

TEST(MovedKeys, AreToldWhereTheyBelong) {
  const std::string flat =
      with("  optimizer_factory: {name: adamW, adam_eps: 1e-8, adam_beta1: 0.9, adam_beta2: 0.95}\n",
           "  adam_beta1: 0.9\n  adam_eps: 1e-8\n  torch_adam_is_fused: true\n");
  EXPECT_THAT(complaints({}, flat),
              ElementsAre(HasSubstr("optimizer.adam_beta1: is not a known key here, it belongs to "
                                    "optimizer.optimizer_factory.adam_beta1"),
                          HasSubstr("it belongs to optimizer.optimizer_factory.adam_eps"),
                          HasSubstr("it belongs to optimizer.optimizer_factory.torch_adam_is_fused")));
  const std::string older =
      with("data_stages:\n- name: random\n  start_training_step: 1\n  data:\n    dataset: null\n",
           "data:\n  dataset: {hf_dataset_or_datasets: c4}\n  seed: -1\n");
  EXPECT_THAT(
      complaints({}, older),
      ElementsAre(AllOf(HasSubstr("data: has become data_stages"), HasSubstr("start_training_step: 1")),
                  HasSubstr("data.dataset.hf_dataset_or_datasets: weft does not read Hugging Face"),
                  HasSubstr("data.seed: '-1' is out of range")));
  EXPECT_THAT(
      error_of({"data_stages.0.data.dataset={dataset_folder: {a/b: 0.8, c: 0.2}}"}),
      HasSubstr("dataset_folder: a block of folders and weights is the older form of a blend; allowed: "
                "dataset_folder: [a/b, c] with dataset_weights: [0.8, 0.2]"));
  EXPECT_THAT(complaints({"parallelism.micro_batch_size=2", "general.shuffle=true"}),
              ElementsAre(HasSubstr("it belongs to tokens.micro_batch_size"), HasSubstr("dataset.shuffle")));
  EXPECT_THAT(error_of({"parallelism.recompute_granularity=selective"}),
              HasSubstr("has become parallelism.recompute_layer"));
  EXPECT_THAT(error_of({"parallelism.nonsense=2"}), AllOf(HasSubstr("allowed"), Not(HasSubstr("belongs"))));
}

class PlanConfig : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "weft_plan_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::vector<std::string> complaints_of_plan(const std::string& text) {
    const std::string path = (folder_ / "plan.yaml").string();
    std::ofstream(path) << text;
    try {
      (void)load_plan_config(path);
    } catch (const ConfigError& e) {
      return lines_of(e.what());
    }
    return {};
  }

  std::filesystem::path folder_;
};

TEST_F(PlanConfig, NeedsOnlyWhatAPlanUses) {
  const std::string needed =
      "parallelism: {pp: 2}\n"
      "model: {model_config: {hidden_size: 64, num_attention_heads: 4, num_hidden_layers: 4}}\n"
      "tokens: {sequence_length: 16, micro_batch_size: 2, batch_accumulation_per_replica: 4}\n";
  EXPECT_THAT(complaints_of_plan(needed), ElementsAre());
  EXPECT_EQ(complaints({}, needed).size(), 4u) << "a training needs data, optimizer, weights and steps too";
  EXPECT_THAT(complaints_of_plan(needed + "optimizer: {optimizer_factory: {name: adam}}\ndata_stages: []\n"),
              ElementsAre(HasSubstr("optimizer.learning_rate_scheduler: is missing"),
                          HasSubstr("optimizer.optimizer_factory.name: 'adam' is not known"),
                          HasSubstr("data_stages: holds no stage")))
      << "what is there is checked";
  EXPECT_THAT(complaints_of_plan("parallelism: {pp: 2}\n"),
              ElementsAre(HasSubstr("model: is missing"), HasSubstr("tokens: is missing")));
}

}  // namespace
}  // namespace weft
