#include "weft/training/config/schema.h"

#include <set>

#include "weft/training/config/schema_parts.h"

namespace weft::schema {
namespace {

constexpr std::int64_t most_ranks = 4096;
constexpr std::int64_t most_chunks = 1024;
constexpr std::int64_t most_threads = 1024;
constexpr std::int64_t most_samples = 1 << 20;

Table general(GeneralConfig& c) {
  return {
      {"project", text(c.project)},
      {"run", text(c.run)},
      {"seed", integer(c.seed, {0, largest_integer})},
      {"step", without_effect(Kind::integer)},
      {"consumed_train_samples", without_effect(Kind::integer)},
      {"ignore_sanity_checks", without_effect(Kind::boolean)},
      {"benchmark_csv_path", tool_not_in_weft()},
  };
}

Table parallelism(ParallelismConfig& c) {
  return {
      {"dp", integer(c.dp, {1, most_ranks})},
      {"pp", integer(c.pp, {1, most_ranks})},
      {"tp", integer(c.tp, {1, most_ranks})},
      {"recompute_layer", boolean(c.recompute_layer)},
      {"recompute_granularity",
       moved("parallelism.recompute_layer", "recompute_layer: true or false", without_effect(Kind::text))},
      {"moe_layer_recompute", not_supported("mixture of experts", {"false"})},
      {"tp_mode", without_effect(Kind::text)},
      {"tp_linear_async_communication", without_effect(Kind::boolean)},
      {"tp_recompute_allgather", without_effect(Kind::boolean)},
      {"expert_parallel_size", not_supported("expert parallelism", {"1"})},
      {"context_parallel_size", not_supported("context parallelism", {"1"})},
  };
}

Value partition(PartitionConfig& c) {
  using Rule = PartitionConfig::Rule;
  return {[&c](const Node& node, const std::string& path, Reading&) {
            c.layers.clear();
            if (node.kind == Node::Kind::scalar && (node.text == "auto" || node.text == "nanotron")) {
              c.rule = node.text == "auto" ? Rule::balanced : Rule::nanotron;
              return;
            }
            if (node.kind != Node::Kind::list || node.children.empty()) {
              throw config_error(node.source, path, node.describe() + " is no partition",
                                 "auto, nanotron, or a list with the layers of every stage");
            }
            c.rule = Rule::given;
            for (std::size_t i = 0; i < node.children.size(); ++i) {
              c.layers.push_back(
                  read_integer(node.children[i], join(path, std::to_string(i)), {0, largest_integer}));
            }
          },
          [&c] {
            if (c.rule != Rule::given) return Node::scalar(c.rule == Rule::balanced ? "auto" : "nanotron");
            Node node = Node::list();
            for (const std::int64_t layers : c.layers)
              node.children.push_back(Node::scalar(std::to_string(layers)));
            return node;
          }};
}

Table pipeline_parallel(PipelineParallelConfig& c) {
  return {
      {"schedule", text(c.schedule)},
      {"chunks", integer_or_auto(c.chunks, {1, most_chunks})},
      {"partition", partition(c.partition)},
      {"transport", choice(c.transport, {{"auto", TransportChoice::automatic},
                                         {"ucx", TransportChoice::ucx},
                                         {"inproc", TransportChoice::inproc}})},
      {"threads", integer_or_auto(c.threads, {1, most_threads})},
      {"max_in_flight", integer_or_auto(c.max_in_flight, {1, most_samples})},
  };
}

Table tokenizer(TokenizerConfig& c) {
  return {
      {"tokenizer_name_or_path", text(c.tokenizer_name_or_path)},
      {"tokenizer_revision", without_effect(Kind::text)},
      {"tokenizer_max_length", without_effect(Kind::integer)},
  };
}

Table tokens(TokensConfig& c) {
  return {
      {"sequence_length", integer(c.sequence_length, {1, most_positions}), required},
      {"train_steps", integer(c.train_steps, {1, most_steps}), for_training},
      {"micro_batch_size", integer(c.micro_batch_size, {1, most_samples}), required},
      {"batch_accumulation_per_replica", integer(c.batch_accumulation_per_replica, {1, most_samples}),
       required},
      {"val_check_interval", integer(c.val_check_interval, {-1, most_steps})},
      {"limit_val_batches", optional_integer(c.limit_val_batches, {0, most_steps})},
      {"limit_test_batches", without_effect(Kind::integer)},
  };
}

Table optimizer_factory(OptimizerFactoryConfig& c) {
  return {
      {"name", choice(c.name, {{"adamW", OptimizerKind::adamw}, {"sgd", OptimizerKind::sgd}}), required},
      {"adam_eps", number(c.adam_eps, {.least = 0, .with_least = false})},
      {"adam_beta1", number(c.adam_beta1, {.most = 1, .with_most = false})},
      {"adam_beta2", number(c.adam_beta2, {.most = 1, .with_most = false})},
      {"torch_adam_is_fused", without_effect(Kind::boolean)},
  };
}

Table learning_rate_scheduler(LearningRateConfig& c) {
  return {
      {"learning_rate", number(c.learning_rate, {}), required},
      {"lr_warmup_steps", integer(c.lr_warmup_steps, {0, most_steps})},
      {"lr_warmup_style",
       choice(c.lr_warmup_style, {{"linear", WarmupStyle::linear}, {"constant", WarmupStyle::constant}})},
      {"lr_decay_style", choice(c.lr_decay_style, {{"linear", DecayStyle::linear},
                                                   {"cosine", DecayStyle::cosine},
                                                   {"1-sqrt", DecayStyle::one_minus_sqrt}})},
      {"lr_decay_steps", optional_integer(c.lr_decay_steps, {0, most_steps})},
      {"lr_decay_starting_step", optional_integer(c.lr_decay_starting_step, {0, most_steps})},
      {"min_decay_lr", optional_number(c.min_decay_lr, {})},
  };
}

Table optimizer(OptimizerConfig& c) {
  return {
      {"optimizer_factory", block(optimizer_factory(c.optimizer_factory)), required},
      {"learning_rate_scheduler", block(learning_rate_scheduler(c.learning_rate_scheduler)), required},
      {"weight_decay", number(c.weight_decay, {})},
      {"weight_decay_exclude_named_params", texts(c.weight_decay_exclude_named_params)},
      {"clip_grad", optional_number(c.clip_grad, {.least = 0, .with_least = false})},
      {"accumulate_grad_in_fp32", boolean(c.accumulate_grad_in_fp32)},
      {"zero_stage", integer(c.zero_stage, {0, 1})},
  };
}

Table logging(LoggingConfig& c) {
  return {
      {"log_level", choice(c.log_level, {{"debug", log::Level::debug},
                                         {"info", log::Level::info},
                                         {"warning", log::Level::warning},
                                         {"error", log::Level::error},
                                         {"critical", log::Level::error}})},
      {"log_level_replica", without_effect(Kind::text)},
      {"iteration_step_info_interval", integer(c.iteration_step_info_interval, {1, most_steps})},
  };
}

Table checkpoints(CheckpointsConfig& c) {
  return {
      {"checkpoints_path", path(c.checkpoints_path)},
      {"checkpoint_interval", optional_integer(c.checkpoint_interval, {1, most_steps})},
      {"save_initial_state", boolean(c.save_initial_state)},
      {"save_final_state", boolean(c.save_final_state)},
      {"keep_last", optional_integer(c.keep_last, {1, most_steps})},
      {"resume_checkpoint_path", optional_path(c.resume_checkpoint_path)},
      {"load_lr_scheduler", boolean(c.load_lr_scheduler)},
      {"load_optimizer", boolean(c.load_optimizer)},
      {"checkpoints_path_is_shared_file_system", without_effect(Kind::boolean)},
  };
}

}  // namespace

Table table_of(NanotronConfig& c) {
  return {
      {"general", block(general(c.general))},
      {"parallelism", block(parallelism(c.parallelism))},
      {"pipeline_parallel", block(pipeline_parallel(c.pipeline_parallel))},
      {"tokenizer", block(tokenizer(c.tokenizer))},
      {"model", model_value(c.model), required},
      {"tokens", block(tokens(c.tokens)), required},
      {"data", older_data()},
      {"data_stages", blocks(c.data_stages, data_stage_table), for_training},
      {"optimizer", block(optimizer(c.optimizer)), for_training},
      {"logging", block(logging(c.logging))},
      {"checkpoints", block(checkpoints(c.checkpoints))},
      {"metrics_logging", tool_not_in_weft()},
      {"profiler", tool_not_in_weft()},
      {"lighteval", tool_not_in_weft()},
      {"s3_upload", tool_not_in_weft()},
      {"doremi", not_supported("DoReMi, only data_stages")},
  };
}

void read_all(const Node& tree, NanotronConfig& config, Reading& reading) {
  const Table table = table_of(config);
  std::set<std::string> twice;
  for (const std::string& path : paths_inside(table)) {
    const std::string key = path.substr(path.rfind('.') + 1);
    if (!reading.homes.emplace(key, path).second) twice.insert(key);
  }
  for (const std::string& key : twice) reading.homes.erase(key);
  read_table(tree, "", table, reading);
}

}  // namespace weft::schema
