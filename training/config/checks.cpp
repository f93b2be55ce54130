#include "weft/training/config/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <regex>
#include <set>

#include "weft/training/config/partition.h"
#include "weft/training/config/schedule_key.h"
#include "weft/training/config/schema.h"

namespace weft {
namespace {

constexpr std::int64_t largest_dimension = 1 << 28;  // of a matrix, as the model checks it too
constexpr double most_numbers = 0x1p50;              // in all, so that sums of their bytes fit 64 bits

/// Complains of keys, with their places. Every check begins with the keys that it compares.
class Checker {
 public:
  Checker(const NanotronConfig& config, const ConfigSources& sources, ConfigUse use, Complaints& complaints)
      : config_(config), sources_(sources), use_(use), complaints_(complaints) {}

  void run_name() const {
    if (!sound({"general.run"})) return;
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
    const std::string chunks = "pipeline_parallel.chunks";
    if (!sound({path})) return;
    complaints_.collect(
        path, [&] { check_schedule_name(config_.pipeline_parallel.schedule, sources_.find(path), path); });
    if (!sound({path, chunks})) return;
    complaints_.collect(chunks, [&] { check_chunks(config_, sources_); });
    if (!sound({chunks, "parallelism.pp"})) return;
    constexpr std::int64_t most_stages = 65535;  // a stage number has 16 bits in messages
    const std::int64_t stages = config_.parallelism.pp * stages_per_rank(config_);
    if (stages > most_stages)
      return fail("parallelism.pp", fmt::format("pp x chunks makes {} stages", stages), "up to 65535");
    if (stages <= 0) return;
    const std::string partition = "pipeline_parallel.partition";
    const bool by_sizes = config_.pipeline_parallel.partition.rule == PartitionConfig::Rule::nanotron;
    if (!sound({partition, by_sizes ? "model" : "model.model_config.num_hidden_layers"})) return;
    const std::vector<std::uint32_t> any_rank(static_cast<std::size_t>(stages));  // changes no refusal
    complaints_.collect(partition, [&] { (void)layers_per_stage(config_, any_rank, sources_); });
  }

  void model() const {
    const LlamaArchitecture& model = config_.model.model_config;
    const std::string block = "model.model_config.";
    const std::string heads = block + "num_attention_heads";
    const std::string key_heads = block + "num_key_value_heads";
    const std::string head_dim = block + "head_dim";
    const bool is_divided = !model.head_dim && sound({heads, head_dim, block + "hidden_size"});
    if (is_divided && model.hidden_size % model.num_attention_heads != 0)
      fail(heads,
           fmt::format("hidden_size {} is not divisible by {} heads", model.hidden_size,
                       model.num_attention_heads),
           "a divisor of hidden_size");
    if (sound({heads, key_heads}) && model.num_attention_heads % model.key_value_heads() != 0)
      fail(model.num_key_value_heads ? key_heads : heads,
           fmt::format("num_attention_heads {} is not divisible by num_key_value_heads {}",
                       model.num_attention_heads, model.key_value_heads()),
           "a divisor of num_attention_heads");
    const bool has_size = sound({heads, head_dim}) && (model.head_dim || sound({block + "hidden_size"}));
    if (has_size && model.head_size() % 2 != 0)
      fail(model.head_dim ? head_dim : heads,
           fmt::format("the head size {} is odd, rotary embedding needs pairs", model.head_size()),
           "an even head size");
    if (has_size && sound({heads, head_dim}) && model.query_columns() >= largest_dimension)
      fail(heads, "the heads together would be 2^28 wide or wider");
    const std::string vocabulary = block + "vocab_size";
    if (sound({vocabulary, "model.make_vocab_size_divisible_by"}) &&
        config_.model.padded_vocab_size() >= largest_dimension)
      fail(vocabulary, "the vocabulary would hold 2^28 tokens or more");
    const RopeScaling& rope = model.rope_scaling;
    if (sound({block + "rope_scaling"}) && rope.type == RopeType::llama3 &&
        rope.high_freq_factor <= rope.low_freq_factor)
      fail(block + "rope_scaling.high_freq_factor", "is not above low_freq_factor");
  }

  void size() const {
    if (!sound({"model.model_config", "model.make_vocab_size_divisible_by"})) return;
    const LlamaArchitecture& model = config_.model.model_config;
    const auto hidden = static_cast<double>(model.hidden_size);
    const auto heads = static_cast<double>(model.query_columns() + model.key_columns());
    const auto wide = static_cast<double>(model.intermediate_size);
    const auto layers = static_cast<double>(model.num_hidden_layers);
    const auto vocabulary = static_cast<double>(config_.model.padded_vocab_size());
    const double weights = hidden * (layers * (2 * heads + 3 * wide) + 2 * vocabulary);
    if (weights > most_numbers) fail("model.model_config", "the model would have more than 2^50 parameters");
    if (!sound({"tokens.micro_batch_size", "tokens.sequence_length", "model.model_config"})) return;
    const auto tokens = static_cast<double>(config_.tokens.micro_batch_size * config_.tokens.sequence_length);
    const double activations = tokens * (layers * (hidden + heads + wide) + vocabulary);
    if (activations > most_numbers)
      fail("tokens.micro_batch_size", "a micro-batch's activations would be more than 2^50 numbers");
  }

  void tokens() const {
    const TokensConfig& tokens = config_.tokens;
    if (sound({"tokens.micro_batch_size", "tokens.sequence_length"}) &&
        tokens.micro_batch_size * tokens.sequence_length >= largest_dimension)
      fail("tokens.micro_batch_size", "a micro-batch would hold 2^28 tokens or more");
    if (sound({"tokens.val_check_interval", "tokens.limit_val_batches"}) && tokens.val_check_interval > 0 &&
        tokens.limit_val_batches == 0) {
      fail("tokens.limit_val_batches", "0 with a val_check_interval asks for evaluations of nothing",
           "null for all held-out data, 1 or more; or val_check_interval -1");
    }
  }

  void data_stages() const {
    const std::string all = "data_stages";
    if (config_.data_stages.empty()) {
      const bool may_be_absent = use_ == ConfigUse::plan && !sources_.contains(all);
      if (sound({all}) && !may_be_absent)
        fail(all, "holds no stage", "at least one, with start_training_step: 1");
      return;
    }
    std::set<std::string> names;
    std::set<std::int64_t> starts;
    bool are_starts_known = true;
    for (std::size_t i = 0; i < config_.data_stages.size(); ++i) {
      const DataStageConfig& stage = config_.data_stages[i];
      const std::string path = all + "." + std::to_string(i);
      const std::string start = path + ".start_training_step";
      if (sound({path + ".name"}) && !names.insert(stage.name).second)
        fail(path + ".name", in_quotes(stage.name) + " names two stages", "a name of its own for each");
      if (!sound({start})) {
        are_starts_known = false;
      } else if (!starts.insert(stage.start_training_step).second) {
        fail(start, fmt::format("two stages start at step {}", stage.start_training_step),
             "a step of its own for each");
      }
      const std::string length = path + ".sequence_length";
      if (sound({length, "tokens.sequence_length"}) &&
          stage.sequence_length.value_or(config_.tokens.sequence_length) != config_.tokens.sequence_length) {
        fail(length, "a stage with its own sequence length is not supported",
             fmt::format("null, {}", config_.tokens.sequence_length));
      }
      if (sound({path + ".data.dataset"})) dataset(stage.data.dataset, path + ".data.dataset");
    }
    if (are_starts_known && !starts.contains(1))
      fail(all, "no stage starts at step 1", "one with start_training_step: 1");
  }

  void optimizer() const {
    const std::vector<std::string>& patterns = config_.optimizer.weight_decay_exclude_named_params;
    constexpr std::size_t longest = 256;  // std::regex descends one call per character
    for (std::size_t i = 0; i < patterns.size(); ++i) {
      const std::string path = "optimizer.weight_decay_exclude_named_params." + std::to_string(i);
      if (!sound({path})) continue;
      if (patterns[i].size() > longest) fail(path, "is longer than 256 bytes");
      try {
        const std::regex pattern(patterns[i]);
      } catch (const std::regex_error&) {
        fail(path, in_quotes(patterns[i]) + " is no regular expression");
      }
    }
  }

 private:
  [[nodiscard]] bool sound(std::initializer_list<std::string_view> paths) const {
    return std::all_of(paths.begin(), paths.end(),
                       [&](std::string_view path) { return complaints_.is_sound(path); });
  }

  void fail(const std::string& path, const std::string& problem, const std::string& allowed = {}) const {
    complaints_.add(config_error(sources_.find(path), path, problem, allowed));
    complaints_.give_up(path);
  }

  void only_one(const std::string& path, std::int64_t value, const std::string& feature) const {
    if (sound({path}) && value != 1)
      fail(path, fmt::format("{} is not supported: weft has no {} yet", value, feature), "1");
  }

  void dataset(const DatasetConfig& dataset, const std::string& path) const {
    constexpr std::int64_t bytes = 256;
    if (const auto* text = std::get_if<TextFilesConfig>(&dataset)) {
      if (text->text_files.empty()) fail(path + ".text_files", "names no file");
      const std::string tokenizer = "tokenizer.tokenizer_name_or_path";
      const std::string vocabulary = "model.model_config.vocab_size";
      if (sound({tokenizer}) && config_.tokenizer.tokenizer_name_or_path != "byte") {
        fail(tokenizer,
             in_quotes(config_.tokenizer.tokenizer_name_or_path) +
                 " is not supported: text_files are read byte by byte",
             "byte");
      }
      if (sound({vocabulary}) && config_.model.model_config.vocab_size < bytes) {
        fail(vocabulary,
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
    if (nanoset != nullptr && sound({"model.model_config.vocab_size"}) &&
        nanoset->vocab_size.value_or(vocab_size) != vocab_size) {
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
  ConfigUse use_;
  Complaints& complaints_;
};

}  // namespace

void check_together(const NanotronConfig& config, const ConfigSources& sources, ConfigUse use,
                    Complaints& complaints) {
  const Checker check(config, sources, use, complaints);
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
  Complaints complaints;
  schema::Reading reading{places, notices, complaints};
  schema::read_all(tree, checked, reading);
  check_together(config, sources, ConfigUse::training, complaints);
  complaints.throw_if_any();
}

}  // namespace weft
