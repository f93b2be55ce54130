#include "weft/training/config/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <regex>
#include <set>

#include "weft/training/config/partition.h"
#include "weft/training/config/schedule_key.h"
#include "weft/training/config/schema.h"

namespace weft {
namespace {

constexpr std::int64_t largest_dimension = 1 << 28;  // of a matrix, as the model checks it too
constexpr double most_numbers = 0x1p50;              // in all, so that sums of their bytes fit 64 bits

/// Throws errors that name a key and its place.
class Checker {
 public:
  Checker(const NanotronConfig& config, const ConfigSources& sources) : config_(config), sources_(sources) {}

  void run_name() const {
    const std::string& run = config_.general.run;
    const bool has_control = std::any_of(run.begin(), run.end(), [](unsigned char c) { return c < 0x20; });
    constexpr std::size_t longest = 200;
    if (run.empty() || run == "." || run == ".." || run.size() > longest || has_control ||
        run.find('/') != std::string::npos) {
      fail("general.run", in_quotes(run) + " cannot name a folder", "up to 200 bytes without a slash");
    }
  }

  void parallelism() const {
    only_one("parallelism.dp", config_.parallelism.dp, "data parallelism");
    only_one("parallelism.tp", config_.parallelism.tp, "tensor parallelism");
  }

  void schedule() const {
    const std::string path = "pipeline_parallel.schedule";
    check_schedule_name(config_.pipeline_parallel.schedule, sources_.find(path), path);
    check_chunks(config_, sources_);
    constexpr std::int64_t most_stages = 65535;  // a stage number has 16 bits in messages
    const std::int64_t stages = config_.parallelism.pp * stages_per_rank(config_);
    if (stages > most_stages) {
      fail("parallelism.pp", fmt::format("pp x chunks makes {} stages", stages), "up to 65535");
    }
    if (stages <= 0) return;
    const std::vector<std::uint32_t> any_rank(static_cast<std::size_t>(stages));  // changes no refusal
    (void)layers_per_stage(config_, any_rank, sources_);
  }

  void model() const {
    const LlamaArchitecture& model = config_.model.model_config;
    const std::string block = "model.model_config.";
    if (!model.head_dim && model.hidden_size % model.num_attention_heads != 0) {
      fail(block + "num_attention_heads",
           fmt::format("hidden_size {} is not divisible by {} heads", model.hidden_size,
                       model.num_attention_heads),
           "a divisor of hidden_size");
    }
    if (model.num_attention_heads % model.key_value_heads() != 0) {
      const std::string key = model.num_key_value_heads ? "num_key_value_heads" : "num_attention_heads";
      fail(block + key,
           fmt::format("num_attention_heads {} is not divisible by num_key_value_heads {}",
                       model.num_attention_heads, model.key_value_heads()),
           "a divisor of num_attention_heads");
    }
    if (model.head_size() % 2 != 0) {
      fail(block + (model.head_dim ? "head_dim" : "num_attention_heads"),
           fmt::format("the head size {} is odd, rotary embedding needs pairs", model.head_size()),
           "an even head size");
    }
    if (model.query_columns() >= largest_dimension) {
      fail(block + "num_attention_heads", "the heads together would be 2^28 wide or wider");
    }
    if (config_.model.padded_vocab_size() >= largest_dimension) {
      fail(block + "vocab_size", "the vocabulary would hold 2^28 tokens or more");
    }
    const RopeScaling& rope = model.rope_scaling;
    if (rope.type == RopeType::llama3 && rope.high_freq_factor <= rope.low_freq_factor) {
      fail(block + "rope_scaling.high_freq_factor", "is not above low_freq_factor");
    }
  }

  void size() const {
    const LlamaArchitecture& model = config_.model.model_config;
    const auto hidden = static_cast<double>(model.hidden_size);
    const auto heads = static_cast<double>(model.query_columns() + model.key_columns());
    const auto wide = static_cast<double>(model.intermediate_size);
    const auto layers = static_cast<double>(model.num_hidden_layers);
    const auto vocabulary = static_cast<double>(config_.model.padded_vocab_size());
    const double weights = hidden * (layers * (2 * heads + 3 * wide) + 2 * vocabulary);
    if (weights > most_numbers) fail("model.model_config", "the model would have more than 2^50 parameters");
    const auto tokens = static_cast<double>(config_.tokens.micro_batch_size * config_.tokens.sequence_length);
    const double activations = tokens * (layers * (hidden + heads + wide) + vocabulary);
    if (activations > most_numbers)
      fail("tokens.micro_batch_size", "a micro-batch's activations would be more than 2^50 numbers");
  }

  void tokens() const {
    const TokensConfig& tokens = config_.tokens;
    if (tokens.micro_batch_size * tokens.sequence_length >= largest_dimension) {
      fail("tokens.micro_batch_size", "a micro-batch would hold 2^28 tokens or more");
    }
    if (tokens.val_check_interval > 0 && tokens.limit_val_batches == 0) {
      fail("tokens.limit_val_batches", "0 with a val_check_interval asks for evaluations of nothing",
           "null for all held-out data, 1 or more; or val_check_interval -1");
    }
  }

  void data_stages() const {
    if (config_.data_stages.empty())
      fail("data_stages", "holds no stage", "at least one, with start_training_step: 1");
    std::set<std::string> names;
    std::set<std::int64_t> starts;
    for (std::size_t i = 0; i < config_.data_stages.size(); ++i) {
      const DataStageConfig& stage = config_.data_stages[i];
      const std::string path = "data_stages." + std::to_string(i);
      if (!names.insert(stage.name).second)
        fail(path + ".name", in_quotes(stage.name) + " names two stages", "a name of its own for each");
      if (!starts.insert(stage.start_training_step).second) {
        fail(path + ".start_training_step",
             fmt::format("two stages start at step {}", stage.start_training_step),
             "a step of its own for each");
      }
      if (stage.sequence_length.value_or(config_.tokens.sequence_length) != config_.tokens.sequence_length) {
        fail(path + ".sequence_length", "a stage with its own sequence length is not supported",
             fmt::format("null, {}", config_.tokens.sequence_length));
      }
      dataset(stage.data.dataset, path + ".data.dataset");
    }
    if (!starts.contains(1))
      fail("data_stages", "no stage starts at step 1", "one with start_training_step: 1");
  }

  void optimizer() const {
    const std::vector<std::string>& patterns = config_.optimizer.weight_decay_exclude_named_params;
    constexpr std::size_t longest = 256;  // std::regex descends one call per character
    for (std::size_t i = 0; i < patterns.size(); ++i) {
      const std::string path = "optimizer.weight_decay_exclude_named_params." + std::to_string(i);
      if (patterns[i].size() > longest) fail(path, "is longer than 256 bytes");
      try {
        const std::regex pattern(patterns[i]);
      } catch (const std::regex_error&) {
        fail(path, in_quotes(patterns[i]) + " is no regular expression");
      }
    }
  }

 private:
  [[noreturn]] void fail(const std::string& path, const std::string& problem,
                         const std::string& allowed = {}) const {
    throw config_error(sources_.find(path), path, problem, allowed);
  }

  void only_one(const std::string& path, std::int64_t value, const std::string& feature) const {
    if (value != 1) fail(path, fmt::format("{} is not supported: weft has no {} yet", value, feature), "1");
  }

  void dataset(const DatasetConfig& dataset, const std::string& path) const {
    constexpr std::int64_t bytes = 256;
    if (const auto* text = std::get_if<TextFilesConfig>(&dataset)) {
      if (text->text_files.empty()) fail(path + ".text_files", "names no file");
      if (config_.tokenizer.tokenizer_name_or_path != "byte") {
        fail("tokenizer.tokenizer_name_or_path",
             in_quotes(config_.tokenizer.tokenizer_name_or_path) +
                 " is not supported: text_files are read byte by byte",
             "byte");
      }
      if (config_.model.model_config.vocab_size < bytes) {
        fail("model.model_config.vocab_size",
             fmt::format("{} is too small for the byte tokenizer of text_files",
                         config_.model.model_config.vocab_size),
             "256 or more");
      }
    }
    const auto* file = std::get_if<TokenFileConfig>(&dataset);
    const auto* nanoset = std::get_if<NanosetConfig>(&dataset);
    const std::int64_t size = file != nullptr      ? file->token_size_in_bytes
                              : nanoset != nullptr ? nanoset->token_size_in_bytes.value_or(2)
                                                   : 2;
    if (size != 2 && size != 4)
      fail(path + ".token_size_in_bytes", fmt::format("{} is not known", size), "2, 4");
    if (nanoset != nullptr && nanoset->dataset_folder.empty())
      fail(path + ".dataset_folder", "names no folder");
    const std::int64_t vocab_size = config_.model.model_config.vocab_size;
    if (nanoset != nullptr && nanoset->vocab_size.value_or(vocab_size) != vocab_size) {
      fail(path + ".vocab_size",
           fmt::format("{} differs from model.model_config.vocab_size {}", *nanoset->vocab_size, vocab_size),
           fmt::format("null, {}", vocab_size));
    }
    if (nanoset != nullptr && !nanoset->dataset_weights.empty() &&
        nanoset->dataset_weights.size() != nanoset->dataset_folder.size()) {
      fail(path + ".dataset_weights", "does not hold one weight per folder",
           fmt::format("{} numbers", nanoset->dataset_folder.size()));
    }
  }

  const NanotronConfig& config_;
  const ConfigSources& sources_;
};

}  // namespace

void check_together(const NanotronConfig& config, const ConfigSources& sources) {
  const Checker check(config, sources);
  check.run_name();
  check.parallelism();
  check.model();
  check.schedule();
  check.tokens();
  check.size();
  check.data_stages();
  check.optimizer();
}

void check_config(const NanotronConfig& config, const ConfigSources& sources) {
  NanotronConfig copy = config;
  const Node tree = schema::write_table(schema::table_of(copy));
  NanotronConfig checked;
  ConfigSources places;
  std::vector<std::string> notices;
  schema::Reading reading{places, notices};
  schema::read_table(tree, "", schema::table_of(checked), reading);
  check_together(config, sources);
}

}  // namespace weft
