// From text and overrides to a checked configuration.
#include "../support/paths.h"
#include "config_text.h"
#include "weft/base/text/foreign_text.h"
#include "weft/training/config/checks.h"
#include "weft/training/config/schedule_key.h"
#include "weft/training/config/yaml_reader.h"

namespace weft {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::load_with;
using ::testing::StartsWith;
using testing::valid_text;
using testing::with;

TEST(ConfigLoad, ReadsNanotronsNames) {
  const NanotronConfig c = load_with({}).config;
  EXPECT_EQ(c.general.run, "small");
  EXPECT_EQ(c.parallelism.pp, 2);
  EXPECT_EQ(c.model.dtype, DType::float32);
  EXPECT_EQ(c.model.model_config.key_value_heads(), 2);
  EXPECT_EQ(c.model.model_config.head_size(), 16);
  EXPECT_EQ(c.tokens.batch_accumulation_per_replica, 4);
  EXPECT_TRUE(std::holds_alternative<RandomTokensConfig>(c.data_stages.at(0).data.dataset));
  EXPECT_EQ(c.optimizer.optimizer_factory.adam_eps, 1e-8);
  EXPECT_EQ(c.optimizer.clip_grad, 1.0);
  EXPECT_EQ(c.pipeline_parallel.schedule, "1f1b");
  EXPECT_TRUE(c.checkpoints.save_final_state);
}

TEST(ConfigLoad, WritesWhatReadsBackToTheSameConfiguration) {
  const std::vector<std::vector<std::string>> variants = {
      {},
      {"general.run='2024'", "general.seed=9223372036854775807", "pipeline_parallel.threads=3"},
      {"pipeline_parallel.schedule=interleaved_1f1b", "pipeline_parallel.chunks=2",
       "pipeline_parallel.transport=ucx"},
      {"pipeline_parallel.partition=[3, 1]", "logging.log_level=debug"},
      {"pipeline_parallel.partition=nanotron", "model.init_method={std: 0.1, scaling_method: NONE}"},
      {"data_stages.0.data.dataset={text_files: ['a b', \"*.x\"], shuffle: false}"},
      {"data_stages.0.data.dataset={token_file: t.bin, token_size_in_bytes: 4}"},
      {"data_stages.1={name: 'null', start_training_step: 5, data: {dataset: null, seed: 7}}"},
      {"optimizer.optimizer_factory={name: sgd}", "optimizer.clip_grad=null", "optimizer.weight_decay=1e-3"},
      {"optimizer.learning_rate_scheduler={learning_rate: 0.1, lr_decay_style: 1-sqrt, lr_decay_steps: 3, "
       "lr_decay_starting_step: 4, min_decay_lr: 1e-7, lr_warmup_steps: 2, lr_warmup_style: constant}"},
      {"optimizer.weight_decay_exclude_named_params=['.*norm.*', 'a\\.b']"},
      {"tokens.limit_val_batches=0"},
      {"tokens.limit_val_batches=3", "tokens.val_check_interval=2"},
      {"model.model_config.rope_scaling={rope_type: llama3, factor: 8}",
       "model.model_config.attention_bias=true", "model.model_config.head_dim=32",
       "model.make_vocab_size_divisible_by=128"},
  };
  for (const auto& variant : variants) {
    const NanotronConfig config = load_with(variant).config;
    const std::string text = to_yaml(config);
    EXPECT_EQ(parse_config(text, "again", {}).config, config) << text;
    EXPECT_EQ(to_yaml(parse_config(text, "again", {}).config), text);
    check_config(config);
  }
}

TEST(ConfigLoad, KeepsBytesThatAreNotUtf8InYamlThatIs) {
  const NanotronConfig config =
      load_with({"general.project=r\xe9", "general.run=\xff\xfe", "data_stages.0.name=\xc3",
                 "checkpoints.checkpoints_path=c\xe9", "optimizer.weight_decay_exclude_named_params=[\xe9]",
                 "data_stages.0.data.dataset={text_files: [caf\xe9.txt, caf\u00e9.txt]}"})
          .config;
  EXPECT_EQ(config.general.run, "\xff\xfe");
  const auto& files = std::get<TextFilesConfig>(config.data_stages[0].data.dataset).text_files;
  EXPECT_THAT(files, ElementsAre("caf\xe9.txt", "caf\xc3\xa9.txt"));
  const std::string text = to_yaml(config);
  EXPECT_EQ(to_utf8(text), text);
  EXPECT_THAT(text, HasSubstr("caf\u00e9.txt")) << "text stays readable";
  EXPECT_EQ(parse_config(text, "again", {}).config, config) << text;
}

TEST(ConfigLoad, TakesNullForTheDefault) {
  EXPECT_EQ(load_with({"tokenizer=null", "general.seed=~", "optimizer.clip_grad=",
                       "pipeline_parallel.chunks=null", "logging=null", "model.model_config.rope_theta=null"})
                .config,
            load_with({"optimizer.clip_grad=null"}).config);
}

TEST(ConfigLoad, NamesWhatItIgnoresOnce) {
  const std::string text =
      valid_text + "lighteval: {tasks: {a: [1, 2]}}\ns3_upload: null\nprofiler: {x: y}\n";
  EXPECT_THAT(load_with({"general.benchmark_csv_path=b.csv"}, text).notices,
              ElementsAre(StartsWith("general.benchmark_csv_path is ignored"),
                          StartsWith("profiler is ignored"), StartsWith("lighteval is ignored")));
  EXPECT_THAT(load_with({}).notices, IsEmpty());
}

/// The paths of all values in a tree.
void collect_paths(const Node& node, const std::string& path, std::vector<std::string>& paths) {
  if (!path.empty()) paths.push_back(path);
  for (std::size_t i = 0; i < node.children.size(); ++i) {
    const std::string part = node.kind == Node::Kind::block ? node.keys[i] : std::to_string(i);
    collect_paths(node.children[i], path.empty() ? part : path + "." + part, paths);
  }
}

std::vector<std::string> all_paths() {
  NanotronConfig config = load_with({"data_stages.0.data.dataset={text_files: [x]}"}).config;
  std::vector<std::string> paths;
  collect_paths(parse_yaml(to_yaml(config), {}), "", paths);
  EXPECT_GT(paths.size(), 70U);
  return paths;
}

TEST(ConfigErrors, NameEveryKeyWithAWrongType) {
  for (const std::string& path : all_paths()) {
    EXPECT_THAT(error_of({"data_stages.0.data.dataset={text_files: [x]}", path + "=[[1], {nonsense: 1}]"}),
                AllOf(StartsWith("--set:1:"), HasSubstr(" " + path)))
        << path;
  }
}

TEST(ConfigErrors, NameEveryMisspelledKeyWithItsNearestSpelling) {
  for (const std::string& path : all_paths()) {
    const std::string key = path.substr(path.rfind('.') + 1);
    if (key.find_first_not_of("0123456789") == std::string::npos) continue;
    const std::string error = error_of({"data_stages.0.data.dataset={text_files: [x]}", path + "z=1"});
    EXPECT_THAT(error, AllOf(StartsWith("--set:1:1: " + path + "z: is not a known key"),
                             HasSubstr(key.size() < 3 && key != "pp" ? "allowed" : "did you mean '"),
                             HasSubstr(key)));
  }
}

TEST(ConfigErrors, HaveTheFormOfOneLineWithPlaceKeyAndWhatIsAllowed) {
  EXPECT_EQ(
      error_of({}, with("  train_steps: 10", "  train_steps: 10\n  train_stepz: 3")),
      "c.yaml:19:3: tokens.train_stepz: is not a known key, did you mean 'train_steps'?; allowed: "
      "sequence_length, train_steps, micro_batch_size, batch_accumulation_per_replica, val_check_interval, "
      "limit_val_batches");
  EXPECT_EQ(error_of({}, with("dp: 1", "dp: 2")),
            "c.yaml:4:19: parallelism.dp: 2 is not supported: weft has no data parallelism yet; allowed: 1");
  EXPECT_EQ(error_of({"parallelism.tp=2"}),
            "--set:1:16: parallelism.tp: 2 is not supported: weft has no tensor parallelism yet; allowed: 1");
  EXPECT_EQ(error_of({}, with("  train_steps: 10", "  train_steps: many")),
            "c.yaml:18:16: tokens.train_steps: 'many' where an integer from 1 to 2000000000 is expected; "
            "allowed: an "
            "integer from 1 to 2000000000");
  EXPECT_THAT(error_of({"general.run=\"a\\nb\""}),
              AllOf(HasSubstr("general.run"), ::testing::Not(HasSubstr("\n"))));
}

struct Refusal {
  std::string set;
  std::string message;  ///< part of it
};

TEST(ConfigErrors, RefuseWhatCannotBeHonoured) {
  const std::vector<Refusal> refusals = {
      {"tokens.batch_accumulation_per_replica=0",
       "tokens.batch_accumulation_per_replica: '0' is out of range"},
      {"tokens.train_steps=1.5", "tokens.train_steps: the number '1.5' where an integer"},
      {"tokens.train_steps=0x10", "tokens.train_steps: '0x10' where an integer"},
      {"tokens.train_steps='5'", "tokens.train_steps: the string '5' where an integer"},
      {"tokens.sequence_length=null", "tokens.sequence_length: is missing"},
      {"tokens=null", "tokens: is missing"},
      {"general.run=true", "general.run: the truth value true where a string is expected"},
      {"general.run=../x", "general.run: '../x' cannot name a folder"},
      {"general.run=12",
       "general.run: the number '12' where a string is expected; allowed: a string, in quotes"},
      {"general.run=1e999", "general.run: the number '1e999' where a string is expected"},
      {"general.run=\"a\\0b\"", "general.run: 'a\\x00b' holds a zero byte"},
      {"data_stages.0.data.dataset={text_files: [a, 3]}",
       "--set:1:45: data_stages.0.data.dataset.text_files.1: the number '3' where a string is expected"},
      {"data_stages.0.data.dataset={text_files: ['']}", "text_files.0: '' names no file or folder"},
      {"data_stages.0.data.dataset={text_files: [a], validation_files: ['']}",
       "validation_files.0: '' names no file or folder"},
      {"data_stages.0.data.dataset={token_file: ''}", "token_file: '' names no file or folder"},
      {"data_stages.0.data.dataset={dataset_folder: [a, '']}",
       "dataset_folder.1: '' names no file or folder"},
      {"checkpoints.checkpoints_path=''", "checkpoints_path: '' names no file or folder"},
      {"checkpoints.resume_checkpoint_path=''", "resume_checkpoint_path: '' names no file or folder"},
      {"model.init_method={path: ''}", "model.init_method.path: '' names no file or folder"},
      {"general.seed=-1",
       "general.seed: '-1' is out of range; allowed: an integer from 0 to 9223372036854775807"},
      {"optimizer.weight_decay=1e999", "'1e999' is out of range; allowed: a number from 0 to 1.797"},
      {"tokens={sequence_length: 16, train_steps: 1, micro_batch_size: 1, batch_accumulation_per_replica: 4, "
       "val_check_interval: 2, limit_val_batches: 0}",
       "tokens.limit_val_batches: 0 with a val_check_interval asks for evaluations of nothing; allowed: "
       "null"},
      {"model.model_config={vocab_size: 256, hidden_size: 1_048_576, intermediate_size: 1_048_576, "
       "num_attention_heads: 4, num_hidden_layers: 32768}",
       "model.model_config: the model would have more than 2^50 parameters"},
      {"parallelism.pp=64",
       "parallelism.pp: 64 ranks make 64 stages, more than the 4 layers of the model; allowed: 1 to 4"},
      {"parallelism.pp=0", "parallelism.pp: '0' is out of range"},
      {"parallelism.expert_parallel_size=2", "weft has no expert parallelism"},
      {"parallelism.context_parallel_size=2", "weft has no context parallelism"},
      {"pipeline_parallel.schedule=1f2b",
       "pipeline_parallel.schedule: no schedule is called '1f2b', did you mean '1f1b'?; allowed: afab, 1f1b"},
      {"pipeline_parallel.schedule=missing.csv", "'missing.csv' cannot be opened"},
      {"parallelism.pp_engine=nonsense", "parallelism.pp_engine: no schedule is called 'nonsense'"},
      {"pipeline_parallel.partition=[1, 1, 2]", "pipeline_parallel.partition: names 3 stages, there are 2"},
      {"pipeline_parallel.partition=[1, 1]",
       "pipeline_parallel.partition: [1, 1] does not sum to the model's 4 layers"},
      {"pipeline_parallel.partition=[4, 0]",
       "pipeline_parallel.partition: [4, 0] leaves stage 1 without a layer"},
      {"pipeline_parallel.partition=[9223372036854775807, 5]", "does not sum"},
      {"pipeline_parallel.partition=even",
       "pipeline_parallel.partition: 'even' is no partition; allowed: auto, nanotron"},
      {"pipeline_parallel.threads=0", "pipeline_parallel.threads: '0' is out of range"},
      {"pipeline_parallel.threads=few", "allowed: auto or an integer"},
      {"pipeline_parallel.transport=tcp",
       "pipeline_parallel.transport: 'tcp' is not known; allowed: auto, ucx, inproc"},
      {"model.dtype=float16", "model.dtype: 'float16' is not known, did you mean 'bfloat16'?"},
      {"model.init_method={std: 0.1, path: hf}", "model.init_method: names both std and path"},
      {"model.init_method={path: no-such-folder}", "model.init_method.path: "},
      {"pipeline_parallel.max_in_flight=0", "pipeline_parallel.max_in_flight: '0' is out of range"},
      {"model.init_method={}", "model.init_method: names no way to get the weights"},
      {"model.init_method={use_mup: true}", "weft has no spectral muP"},
      {"model.model_config=null", "model.model_config: is missing"},
      {"model.model_config.num_attention_heads=7",
       "num_attention_heads: hidden_size 64 is not divisible by 7 heads"},
      {"model.model_config.num_key_value_heads=3",
       "num_key_value_heads: num_attention_heads 4 is not divisible by"},
      {"model.model_config.head_dim=3", "head_dim: the head size 3 is odd"},
      {"model.model_config.vocab_size=0", "vocab_size: '0' is out of range"},
      {"model.make_vocab_size_divisible_by=1_000_000_000", "vocab_size: the vocabulary would hold 2^28"},
      {"tokens={sequence_length: 1024, micro_batch_size: 1_000_000, train_steps: 1, "
       "batch_accumulation_per_replica: 1}",
       "tokens.micro_batch_size: a micro-batch would hold 2^28"},
      {"model.model_config.hidden_act=gelu", "weft has no activation but SiLU; allowed: silu"},
      {"model.model_config.moe_config={num_experts: 8}", "weft has no mixture of experts; allowed: null"},
      {"model.model_config.sliding_window_size=4096", "weft has no sliding window attention"},
      {"model.model_config.is_qwen2_config=true", "weft has no Qwen2 models"},
      {"model.model_config.rope_interleaved=True", "weft has no interleaved rotary embedding"},
      {"model.model_config.rms_norm_eps=0", "rms_norm_eps: '0' is out of range; allowed: a number above 0"},
      {"data_stages=[]", "data_stages: holds no stage"},
      {"data_stages=null", "data_stages: is missing"},
      {"data_stages.0.start_training_step=2", "data_stages: no stage starts at step 1"},
      {"data_stages.1={name: random, start_training_step: 2, data: {}}",
       "data_stages.1.name: 'random' names two stages"},
      {"data_stages.1={name: b, start_training_step: 1, data: {}}",
       "data_stages.1.start_training_step: two stages start at step 1"},
      {"data_stages.0.sequence_length=8", "data_stages.0.sequence_length: a stage with its own"},
      {"data_stages.0.data.dataset={hf_dataset_or_datasets: x}",
       "hf_dataset_or_datasets: weft does not read Hugging Face datasets"},
      {"data_stages.0.data.dataset={text_fils: x}",
       "text_fils: is not a known key, did you mean 'text_files'?"},
      {"data_stages.0.data.dataset={text_files: x, token_file: y}", "dataset.token_file: is not a known key"},
      {"data_stages.0.data.dataset={text_files: []}", "text_files: names no file"},
      {"data_stages.0.data.dataset={}", "a block of keys names no data; allowed: null, or a block with"},
      {"data_stages.0.data.dataset=text", "data_stages.0.data.dataset: 'text' names no data"},
      {"data_stages.0.data.dataset={token_file: x, token_size_in_bytes: 3}",
       "token_size_in_bytes: 3 is not known; allowed: 2, 4"},
      {"data_stages.0.data.dataset={dataset_folder: [a, b], dataset_weights: [1]}",
       "dataset_weights: does not hold one weight per folder"},
      {"optimizer.optimizer_factory.name=adamw", "'adamw' is not known, did you mean 'adamW'?"},
      {"optimizer.optimizer_factory.adam_beta1=1", "allowed: a number from 0 and below 1"},
      {"optimizer.learning_rate_scheduler.learning_rate=.nan",
       "learning_rate: '.nan' where a number from 0 is expected"},
      {"optimizer.learning_rate_scheduler.learning_rate=-1e-3", "learning_rate: '-1e-3' is out of range"},
      {"optimizer.learning_rate_scheduler.lr_decay_style=cosin",
       "did you mean 'cosine'?; allowed: linear, cosine, 1-sqrt"},
      {"optimizer.clip_grad=0", "clip_grad: '0' is out of range; allowed: a number above 0"},
      {"optimizer.zero_stage=2", "zero_stage: '2' is out of range"},
      {"optimizer.weight_decay_exclude_named_params=['(']",
       "weight_decay_exclude_named_params.0: '(' is no regular expression"},
      {"nonsense=1", "nonsense: is not a known key"},
      {"tokens.nonsense=3", "tokens.nonsense: is not a known key"},
      {"tokens.train_steps.x=3", "tokens.train_steps: is the number '10' and has no key 'x'"},
      {"data_stages.2.name=x",
       "data_stages: is a list of 1, it has no item '2'; allowed: 0 to 1 (1 appends)"},
      {"data_stages.name=x", "data_stages: is a list of 1, it has no item 'name'"},
      {"tokens..x=1", "tokens..x: is no path of keys"},
      {"tokens.train_steps={a: 1",
       "--set:1:20: a key that is a block of keys, or a bracket that is not closed"},
  };
  for (const Refusal& refusal : refusals) {
    EXPECT_THAT(error_of({refusal.set}), HasSubstr(refusal.message)) << refusal.set;
  }
}

/// The text after "allowed: ".
std::string allowed_in(const std::string& error) {
  const std::size_t at = error.rfind("allowed: ");
  return at == std::string::npos ? std::string() : error.substr(at + 9);
}

TEST(ConfigErrors, ShowBothEndsOfARangeThatAnIntegerIsBeyond) {
  for (const std::string& path : all_paths()) {
    for (const std::string number : {"9223372036854775808", "-9223372036854775809"}) {
      const std::string error =
          error_of({"data_stages.0.data.dataset={text_files: [x]}", path + "=" + number});
      if (error.find("out of range") == std::string::npos || error.find("a number ") != std::string::npos)
        continue;
      EXPECT_THAT(allowed_in(error), ::testing::MatchesRegex("(an integer from [-0-9]+ to [0-9]+|1)"))
          << error;
    }
  }
}

TEST(ConfigErrors, RefuseTextForATooSmallVocabularyOrAnotherTokenizer) {
  const std::string text_files = "data_stages.0.data.dataset={text_files: x}";
  EXPECT_THAT(error_of({text_files, "model.model_config.vocab_size=255"}),
              HasSubstr("vocab_size: 255 is too small for the byte tokenizer"));
  EXPECT_THAT(error_of({text_files, "tokenizer.tokenizer_name_or_path=gpt2"}),
              HasSubstr("tokenizer.tokenizer_name_or_path: 'gpt2' is not supported"));
  EXPECT_EQ(error_of({"model.model_config.vocab_size=100", "tokenizer.tokenizer_name_or_path=gpt2"}), "");
}

TEST(ConfigErrors, RefuseMoreActivationsThanAnyMachineHolds) {
  EXPECT_THAT(
      error_of({"tokens.micro_batch_size=1_048_576", "tokens.sequence_length=255",
                "model.model_config.intermediate_size=1_048_576", "model.model_config.num_hidden_layers=8"}),
      HasSubstr("--set:1:25: tokens.micro_batch_size: a micro-batch's activations would be more than"));
}

TEST(ConfigErrors, NameTheBlockAroundAKeyThatIsADefault) {
  // 32 heads by default, which 24 does not divide
  EXPECT_THAT(error_of({"model.model_config.hidden_size=72"}, with("    num_attention_heads: 4\n", "")),
              StartsWith("c.yaml:9:5: model.model_config.num_attention_heads: hidden_size 72"));
}

TEST(ConfigOverrides, ReplaceWholeValuesAndMakeWhatIsMissing) {
  const NanotronConfig c =
      load_with({"general={run: other}", "pipeline_parallel.threads=2", "data_stages.1.name=late",
                 "data_stages.1.start_training_step=4", "data_stages.1.data.dataset.text_files.0=x",
                 "tokens.train_steps=20", "tokens.train_steps=30"})
          .config;
  EXPECT_EQ(c.general.run, "other");
  EXPECT_EQ(c.general.project, "weft");  // the old block is gone
  EXPECT_EQ(c.pipeline_parallel.threads, 2);
  ASSERT_EQ(c.data_stages.size(), 2U);
  EXPECT_EQ(std::get<TextFilesConfig>(c.data_stages[1].data.dataset).text_files,
            std::vector<std::string>{"x"});
  EXPECT_EQ(c.tokens.train_steps, 30);
}

TEST(ConfigOverrides, CountThePlaceFromTheStartOfTheArgument) {
  EXPECT_THAT(error_of({"tokens.train_steps=many"}), StartsWith("--set:1:20: tokens.train_steps"));
}

TEST(ConfigOverrides, AreWrittenAsPathAndValue) {
  EXPECT_THROW((void)set_override("tokens.train_steps"), ConfigError);
  EXPECT_THROW((void)set_override("=3"), ConfigError);
  EXPECT_EQ(set_override("a.b=c=d").value, "c=d");
}

TEST(ConfigOverrides, FlagsHoldBareText) {
  const auto load_flag = [](const std::string& path, const std::string& value) {
    return parse_config(valid_text, "c.yaml", {flag_override("--flag", path, value)}).config;
  };
  EXPECT_EQ(load_flag("pipeline_parallel.threads", "auto").pipeline_parallel.threads, std::nullopt);
  EXPECT_EQ(load_flag("pipeline_parallel.threads", "3").pipeline_parallel.threads, 3);
  EXPECT_EQ(load_flag("general.run", "a: [b").general.run, "a: [b");
  try {
    (void)load_flag("pipeline_parallel.schedule", "1f2b");
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_THAT(e.what(), StartsWith("--flag:1:1: pipeline_parallel.schedule: no schedule is called '1f2b'"));
  }
}

TEST(ScheduleKey, HasTwoSpellingsThatMustAgreeInsideTheFile) {
  const std::string engine = with("tp: 1", "tp: 1, pp_engine: afab");
  EXPECT_EQ(load_with({}, engine).config.pipeline_parallel.schedule, "afab");
  EXPECT_THAT(
      error_of({}, engine + "pipeline_parallel: {schedule: 1f1b}\n"),
      AllOf(StartsWith("c.yaml:4:47: parallelism.pp_engine: 'afab' disagrees with"), HasSubstr("'1f1b'")));
  EXPECT_EQ(
      load_with({}, engine + "pipeline_parallel: {schedule: GPipe}\n").config.pipeline_parallel.schedule,
      "GPipe");
  EXPECT_EQ(load_with({}, engine + "pipeline_parallel: {threads: 2}\n").config.pipeline_parallel.schedule,
            "afab");
  EXPECT_EQ(load_with({}, with("tp: 1", "tp: 1, pp_engine: null")).config.pipeline_parallel.schedule, "1f1b");
}

TEST(ScheduleKey, IsReplacedInBothSpellingsByAnOverride) {
  const std::string both = with("tp: 1", "tp: 1, pp_engine: afab") + "pipeline_parallel: {schedule: 1f1b}\n";
  EXPECT_EQ(load_with({"pipeline_parallel.schedule=zb_h1"}, both).config.pipeline_parallel.schedule, "zb_h1");
  EXPECT_EQ(load_with({"parallelism.pp_engine=zb_h1"}, both).config.pipeline_parallel.schedule, "zb_h1");
  EXPECT_EQ(load_with({"parallelism.pp_engine=afab", "pipeline_parallel.schedule=1f1b"})
                .config.pipeline_parallel.schedule,
            "1f1b");
  EXPECT_EQ(load_with({"pipeline_parallel.schedule=1f1b", "parallelism.pp_engine=afab"})
                .config.pipeline_parallel.schedule,
            "afab");
}

TEST(ScheduleKey, DecidesTheStagesPerRank) {
  EXPECT_EQ(stages_per_rank(load_with({}).config), 1);
  EXPECT_EQ(stages_per_rank(load_with({"pipeline_parallel.schedule=interleaved_1f1b"}).config), 2);
  EXPECT_THAT(
      error_of({"pipeline_parallel.schedule=interleaved_1f1b", "parallelism.pp=4"}),
      HasSubstr(
          "parallelism.pp: 4 ranks make 8 stages, more than the 4 layers of the model; allowed: 1 to 2"));
}

TEST(ConfigCheck, FindsWhatAProgramSetWrongly) {
  NanotronConfig c = load_with({}).config;
  c.pipeline_parallel.schedule = "afabb";
  try {
    check_config(c);
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_THAT(e.what(), StartsWith("pipeline_parallel.schedule: no schedule is called 'afabb'"));
  }
  c.pipeline_parallel.schedule = "afab";
  c.tokens.micro_batch_size = 0;
  EXPECT_THROW(check_config(c), ConfigError);
  c.tokens.micro_batch_size = 1;
  check_config(c);
}

TEST(ConfigLoad, SaysThatGradientsAreAlwaysSummedInFloat32) {
  const std::string key = "optimizer.accumulate_grad_in_fp32=false";
  EXPECT_THAT(load_with({"model.dtype=bfloat16", key}).notices,
              ElementsAre(HasSubstr("accumulate_grad_in_fp32: false is ignored")));
  EXPECT_THAT(load_with({key}).notices, IsEmpty()) << "in float32 there is no other way";
}

TEST(ConfigLoad, TellsOfPatternsThatChangeNothing) {
  const std::string key = "optimizer.weight_decay_exclude_named_params=";
  EXPECT_THAT(
      load_with({key + "['.*norm.*', '.*token_embeding.*', 'layers']"}).notices,
      ElementsAre(HasSubstr("optimizer.weight_decay_exclude_named_params.1: '.*token_embeding.*' names no "
                            "parameter"),
                  StartsWith("--set:1:80: optimizer.weight_decay_exclude_named_params.2: 'layers'")));
  EXPECT_THAT(load_with({key + "['.*token_embedding.*', 'lm_head.*', '.*decoder.3.*']"}).notices, IsEmpty());
  EXPECT_THAT(load_with({key + "['lm_head.*']", "model.model_config.tie_word_embeddings=true"}).notices,
              ElementsAre(HasSubstr("lm_head.weight alone, which is tied")));
}

TEST(ConfigLoad, MergesStagesOfData) {
  const NanotronConfig c =
      load_with({}, with("- name: random\n  start_training_step: 1\n  data:\n    dataset: null\n",
                         "- &stage {name: stable, start_training_step: 1, data: {seed: 3, dataset: null}}\n"
                         "- {<<: *stage, name: decay, start_training_step: 3}\n"))
          .config;
  ASSERT_EQ(c.data_stages.size(), 2u);
  EXPECT_EQ(c.data_stages[1].name, "decay");
  EXPECT_EQ(c.data_stages[1].start_training_step, 3);
  EXPECT_EQ(c.data_stages[1].data, c.data_stages[0].data);
}

TEST(ConfigLoad, NamesWhatAGivenArchitectureSaysOtherwise) {
  const std::string folder = weft::test::data_dir() + "/llama/head_only";
  const std::string given = "model.init_method={path: " + folder + "}";
  const LoadedConfig loaded = load_with({given, "parallelism.pp=1"});
  EXPECT_EQ(loaded.config.model.model_config.hidden_size, 8u);
  EXPECT_THAT(loaded.notices,
              ElementsAre(AllOf(StartsWith("model.model_config differs from " + folder +
                                           "/config.json and is ignored: vocab_size is 256, there 16; "
                                           "hidden_size is 64, there 8; "),
                                HasSubstr("; tie_word_embeddings is false, there true"))));
  EXPECT_THAT(load_with({given, "parallelism.pp=1", "model.model_config=null"}).notices, IsEmpty());
}

TEST(ConfigFiles, InTheTreeLoad) {
  for (const std::string name : {"config_tiny_llama.yaml", "bench_llama.yaml"}) {
    const std::string path = weft::test::source_dir() + "/configs/" + name;
    const LoadedConfig loaded = load_config(path);
    EXPECT_THAT(loaded.notices, IsEmpty()) << name;
    EXPECT_EQ(NanotronConfig::load_from_yaml(path), loaded.config);
  }
}

TEST(RunName, HoldsDateAndJob) {
  EXPECT_EQ(expand_run_name("a_%date_%jobid%", "20240102_030405", "7"), "a_20240102_030405_7%");
  EXPECT_EQ(expand_run_name("plain", "d", "j"), "plain");
}

TEST(VocabSize, IsPaddedToAMultiple) {
  ModelArgs model;
  model.model_config.vocab_size = 50257;
  model.make_vocab_size_divisible_by = 128;
  EXPECT_EQ(model.padded_vocab_size(), 50304);
  model.make_vocab_size_divisible_by = 1;
  EXPECT_EQ(model.padded_vocab_size(), 50257);
}

}  // namespace
}  // namespace weft
