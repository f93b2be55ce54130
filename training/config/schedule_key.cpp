#include "weft/training/config/schedule_key.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>

#include "weft/scheduling/orders/schedule.h"

namespace weft {
namespace {

constexpr const char* engine_path = "parallelism.pp_engine";

Node* find_value(Node* block, std::string_view key) {
  if (block == nullptr || block->kind != Node::Kind::block) return nullptr;
  Node* value = block->find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

bool same_schedule(const std::string& a, const std::string& b) {
  const ScheduleInfo* known = find_schedule(a);
  return a == b || (known != nullptr && known == find_schedule(b));
}

void unite(Node& root, Node* engine) {
  if (engine->kind != Node::Kind::scalar) {
    throw config_error(engine->source, engine_path,
                       engine->describe() + " where a schedule's name is expected");
  }
  Node* pipeline = find_value(&root, "pipeline_parallel");
  Node* schedule = find_value(pipeline, "schedule");
  const bool engine_wins = schedule == nullptr || schedule->source.layer < engine->source.layer;
  if (engine_wins || schedule->source.layer == engine->source.layer) {
    check_schedule_name(engine->text, engine->source, engine_path);
  }
  if (!engine_wins && schedule->source.layer == engine->source.layer &&
      !same_schedule(schedule->text, engine->text)) {
    throw config_error(
        engine->source, engine_path,
        in_quotes(engine->text) + " disagrees with pipeline_parallel.schedule " + in_quotes(schedule->text),
        "one of the two keys, or the same schedule in both");
  }
  if (engine_wins) {
    Node moved = *engine;
    if (pipeline == nullptr) {
      root.erase("pipeline_parallel");
      pipeline = &root.add("pipeline_parallel", Node::block());
      pipeline->source = moved.source;
    }
    if (pipeline->kind == Node::Kind::block) {
      pipeline->erase("schedule");
      pipeline->add("schedule", std::move(moved));
    }
  }
}

}  // namespace

void resolve_schedule_spellings(Node& root, Complaints& complaints) {
  Node* parallelism = find_value(&root, "parallelism");
  if (Node* engine = find_value(parallelism, "pp_engine"))
    complaints.collect("pipeline_parallel.schedule", [&] { unite(root, engine); });
  parallelism = find_value(&root, "parallelism");  // unite may have moved it
  if (parallelism != nullptr && parallelism->kind == Node::Kind::block) parallelism->erase("pp_engine");
}

bool is_schedule_file(const std::string& schedule) { return schedule.ends_with(".csv"); }

void check_schedule_name(const std::string& schedule, const Source& source, const std::string& path) {
  if (is_schedule_file(schedule)) {
    if (!std::ifstream(schedule)) throw config_error(source, path, in_quotes(schedule) + " cannot be opened");
    return;
  }
  try {
    (void)schedule_info(schedule);
  } catch (const ScheduleError& e) {  // already in the form "what is wrong; allowed: ..."
    throw config_error(source, path, e.what());
  }
}

std::int64_t stages_per_rank(const NanotronConfig& config) {
  if (config.pipeline_parallel.chunks) return *config.pipeline_parallel.chunks;
  const ScheduleInfo* info = find_schedule(config.pipeline_parallel.schedule);
  return info == nullptr ? 0 : info->default_chunks;
}

void check_chunks(const NanotronConfig& config, const ConfigSources& sources) {
  const ScheduleInfo* info = find_schedule(config.pipeline_parallel.schedule);
  const auto chunks = stages_per_rank(config);
  if (info == nullptr || (chunks >= info->min_chunks && chunks <= info->max_chunks)) return;
  const std::string key = "pipeline_parallel.chunks";
  const bool one = info->min_chunks == info->max_chunks;
  throw config_error(
      sources.find(key), key,
      fmt::format("{} needs {} {} stage{} per rank, not {}", info->name, one ? "exactly" : "at least",
                  info->min_chunks, info->min_chunks == 1 ? "" : "s", chunks),
      fmt::format("auto, {}{}", info->min_chunks, one ? "" : " or more"));
}

}  // namespace weft
