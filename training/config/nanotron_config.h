#pragma once
// The configuration: plain structs with Nanotron's names and weft's own block. What a key may hold, its
// spelling and its unit stand in schema.cpp, one row per key.
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "weft/base/log.h"
#include "weft/model/llama_config.h"
#include "weft/tensor/dtype.h"

namespace weft {

struct GeneralConfig {
  std::string project = "weft";
  std::string run = "%date_%jobid";  ///< name of the run's folder, see expand_run_name
  std::int64_t seed = 42;
  bool operator==(const GeneralConfig&) const = default;
};

struct ParallelismConfig {
  std::int64_t dp = 1;
  std::int64_t pp = 1;  ///< pipeline ranks
  std::int64_t tp = 1;
  bool recompute_layer = false;
  bool operator==(const ParallelismConfig&) const = default;
};

/// Layers per stage: by weft's rule, by Nanotron's, or as given.
struct PartitionConfig {
  enum class Rule : std::uint8_t { balanced, nanotron, given };
  Rule rule = Rule::balanced;
  std::vector<std::int64_t> layers;  ///< of Rule::given only, one number per stage
  bool operator==(const PartitionConfig&) const = default;
};

enum class TransportChoice : std::uint8_t { automatic, ucx, inproc };

struct PipelineParallelConfig {
  std::string schedule = "1f1b";       ///< a name of scheduling/orders/schedule.h or a .csv file
  std::optional<std::int64_t> chunks;  ///< stages per rank; none = what the schedule needs
  PartitionConfig partition;
  TransportChoice transport = TransportChoice::automatic;
  std::optional<std::int64_t> threads;  ///< per rank; none = usable cores of the host / ranks on it
  std::optional<std::int64_t>
      max_in_flight;  ///< most (stage, micro-batch) pairs a rank holds; none = the schedule's peak
  bool operator==(const PipelineParallelConfig&) const = default;
};

/// How the spread of a residual layer's output weights is scaled: by 1/sqrt(2 layers), or not.
enum class InitScaling : std::uint8_t { num_layers, none };

/// Weights are drawn from N(0, std^2) or loaded from a Hugging Face folder: exactly one of the two is set.
struct InitMethodConfig {
  std::optional<double> std;
  InitScaling scaling_method = InitScaling::num_layers;
  std::optional<std::string> path;
  bool operator==(const InitMethodConfig&) const = default;
};

struct ModelArgs {
  DType dtype = DType::bfloat16;
  InitMethodConfig init_method;
  std::int64_t make_vocab_size_divisible_by = 1;
  LlamaArchitecture model_config;  ///< Nanotron's LlamaConfig
  bool operator==(const ModelArgs&) const = default;

  /// Rows of the embedding: vocab_size rounded up to a multiple of make_vocab_size_divisible_by.
  [[nodiscard]] std::int64_t padded_vocab_size() const noexcept;
  /// model_config with that many rows: the model that is trained.
  [[nodiscard]] LlamaArchitecture architecture() const;
};

struct TokenizerConfig {
  std::string tokenizer_name_or_path = "byte";  ///< consulted for text_files only
  bool operator==(const TokenizerConfig&) const = default;
};

struct TokensConfig {
  std::int64_t sequence_length = 0;
  std::int64_t train_steps = 0;
  std::int64_t micro_batch_size = 0;                ///< samples per micro-batch
  std::int64_t batch_accumulation_per_replica = 0;  ///< micro-batches per step, m
  std::int64_t val_check_interval = -1;             ///< steps between evaluations, -1 or 0 = none
  std::optional<std::int64_t>
      limit_val_batches;  ///< most batches (of a step's size) of an evaluation; none = all held-out data
  bool operator==(const TokensConfig&) const = default;

  [[nodiscard]] std::int64_t samples_per_step() const noexcept {
    return micro_batch_size * batch_accumulation_per_replica;
  }
};

/// `dataset: null`: tokens drawn at random.
struct RandomTokensConfig {
  bool operator==(const RandomTokensConfig&) const = default;
};

/// Bytes of text files as tokens.
struct TextFilesConfig {
  std::vector<std::string> text_files;        ///< paths or globs
  std::vector<std::string> validation_files;  ///< for evaluation; empty = the last 5 % of text_files
  bool shuffle = true;
  bool operator==(const TextFilesConfig&) const = default;
};

/// One flat file of little-endian token ids.
struct TokenFileConfig {
  std::string token_file;
  std::int64_t token_size_in_bytes = 2;
  bool shuffle = true;
  bool operator==(const TokenFileConfig&) const = default;
};

/// Folders of `.ds` files, as datatrove writes them.
struct NanosetConfig {
  std::vector<std::string> dataset_folder;
  std::vector<double> dataset_weights;              ///< empty = by size
  std::optional<std::int64_t> token_size_in_bytes;  ///< none = as the folder's metadata says
  std::optional<std::int64_t> vocab_size;
  bool operator==(const NanosetConfig&) const = default;
};

using DatasetConfig = std::variant<RandomTokensConfig, TextFilesConfig, TokenFileConfig, NanosetConfig>;

struct DataConfig {
  DatasetConfig dataset;
  std::int64_t seed = 42;
  bool operator==(const DataConfig&) const = default;
};

struct DataStageConfig {
  std::string name;
  std::int64_t start_training_step = 1;
  std::optional<std::int64_t> sequence_length;  ///< none = tokens.sequence_length, the only one allowed
  DataConfig data;
  bool operator==(const DataStageConfig&) const = default;
};

enum class OptimizerKind : std::uint8_t { adamw, sgd };

struct OptimizerFactoryConfig {
  OptimizerKind name = OptimizerKind::adamw;
  double adam_eps = 1e-8;  ///< the three are AdamW's alone
  double adam_beta1 = 0.9;
  double adam_beta2 = 0.95;
  bool operator==(const OptimizerFactoryConfig&) const = default;
};

enum class WarmupStyle : std::uint8_t { linear, constant };
enum class DecayStyle : std::uint8_t { linear, cosine, one_minus_sqrt };

struct LearningRateConfig {
  double learning_rate = 0;
  std::int64_t lr_warmup_steps = 0;
  WarmupStyle lr_warmup_style = WarmupStyle::linear;
  DecayStyle lr_decay_style = DecayStyle::linear;
  std::optional<std::int64_t> lr_decay_steps;          ///< none = all steps after the warm-up
  std::optional<std::int64_t> lr_decay_starting_step;  ///< none = right after the warm-up
  std::optional<double> min_decay_lr;                  ///< none = learning_rate
  bool operator==(const LearningRateConfig&) const = default;
};

struct OptimizerConfig {
  OptimizerFactoryConfig optimizer_factory;
  LearningRateConfig learning_rate_scheduler;
  double weight_decay = 0;
  std::vector<std::string> weight_decay_exclude_named_params;  ///< regular expressions, see DecayExclusion
  std::optional<double> clip_grad;                             ///< largest gradient norm, none = no clipping
  bool accumulate_grad_in_fp32 = true;
  std::int64_t zero_stage = 0;
  bool operator==(const OptimizerConfig&) const = default;
};

struct LoggingConfig {
  log::Level log_level = log::Level::info;
  std::int64_t iteration_step_info_interval = 1;  ///< a console line when (step - 1) is a multiple of it
  bool operator==(const LoggingConfig&) const = default;
};

struct CheckpointsConfig {
  std::string checkpoints_path = "checkpoints";  ///< relative to the run's folder
  std::optional<std::int64_t> checkpoint_interval;
  bool save_initial_state = false;
  bool save_final_state = true;
  std::optional<std::int64_t> keep_last;
  std::optional<std::string> resume_checkpoint_path;
  bool load_lr_scheduler = true;
  bool load_optimizer = true;
  bool operator==(const CheckpointsConfig&) const = default;
};

struct NanotronConfig {
  GeneralConfig general;
  ParallelismConfig parallelism;
  PipelineParallelConfig pipeline_parallel;
  TokenizerConfig tokenizer;
  ModelArgs model;
  TokensConfig tokens;
  std::vector<DataStageConfig> data_stages;  ///< in any order
  OptimizerConfig optimizer;
  LoggingConfig logging;
  CheckpointsConfig checkpoints;
  bool operator==(const NanotronConfig&) const = default;

  /// Reads and checks one file. Throws ConfigError; see load.h for overrides and notices.
  [[nodiscard]] static NanotronConfig load_from_yaml(const std::string& path);
};

/// `run` with %date replaced by `date` (YYYYmmdd_HHMMSS) and %jobid by `job` (Slurm's job, or "local").
[[nodiscard]] std::string expand_run_name(const std::string& run, const std::string& date,
                                          const std::string& job);

}  // namespace weft
