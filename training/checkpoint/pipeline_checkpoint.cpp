#include "weft/training/checkpoint/pipeline_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/training/checkpoint/checkpoint_search.h"
#include "weft/training/checkpoint/commit.h"
#include "weft/training/checkpoint/reader.h"
#include "weft/training/checkpoint/snapshot_writer.h"

namespace weft {
namespace {

// What a process has to say: `+` and its words, or `-` and why it could not.
std::string outcome_of(const std::function<std::string()>& work) {
  try {
    return '+' + work();
  } catch (const std::exception& e) {
    return '-' + std::string(e.what());
  }
}

std::string require(const std::string& outcome) {
  if (outcome.front() == '-') throw CheckpointError(outcome.substr(1));
  return outcome.substr(1);
}

// The first process works, all learn the outcome.
std::string first_alone(Pipeline& pipeline, const std::function<std::string()>& work) {
  return require(pipeline.broadcast(pipeline.rank() == 0 ? outcome_of(work) : ""));
}

// Every process works, then the first one goes on with what they said; all learn the outcome.
std::string all_then_first(Pipeline& pipeline, const std::function<std::string()>& work,
                           const std::function<std::string(std::vector<std::string>)>& then) {
  const auto outcomes = pipeline.gather(outcome_of(work));
  return first_alone(pipeline, [&] {
    std::vector<std::string> words;
    for (const std::string& outcome : outcomes) words.push_back(require(outcome));
    return then(std::move(words));
  });
}

std::vector<std::string> stored_names(const PipelinePlan& plan) {
  std::vector<std::string> names;
  for (const auto& of_stage : plan.parameters) names.insert(names.end(), of_stage.begin(), of_stage.end());
  for (const TiedPair& tie : plan.ties) std::erase(names, tie.name);
  return names;
}

}  // namespace

std::filesystem::path save_checkpoint(Pipeline& pipeline, const std::filesystem::path& checkpoints,
                                      TrainingPosition position) {
  position.step = pipeline.steps();
  if (position.optimizer.empty()) position.optimizer = "own";
  const std::filesystem::path temporary = first_alone(pipeline, [&] {
    require_own_or_absent(checkpoints / checkpoint_name(position.step));
    return temporary_folder(checkpoints, position.step, fmt::format("{:x}", now_ns())).string();
  });
  const auto write = [&] {
    const auto parameters = pipeline.parameters();
    const auto states = pipeline.optimizer_state();
    SnapshotWriter writer(pipeline.rank(), parameters, states);
    writer.start(temporary);
    return to_text(writer.finish());
  };
  return all_then_first(pipeline, write, [&](const std::vector<std::string>& texts) {
    std::vector<RankFiles> files;
    for (const std::string& text : texts) files.push_back(rank_files_from_text(text));
    return commit_checkpoint(checkpoints, temporary, position, files).string();
  });
}

TrainingPosition load_checkpoint(Pipeline& pipeline, const std::filesystem::path& path) {
  const std::filesystem::path checkpoint = first_alone(pipeline, [&] {
    const CheckpointSearch search = resolve_checkpoint(path);
    if (!search.newest) throw CheckpointError(path.string() + ": holds no checkpoint");
    return search.newest->folder.string();
  });
  TrainingPosition position;
  const auto read = [&] {
    const CheckpointReader reader(checkpoint);
    reader.require_model(stored_names(pipeline.plan()));
    const auto parameters = pipeline.parameters();
    reader.restore(parameters, pipeline.optimizer_state());
    position = reader.manifest().position;
    return std::string();
  };
  all_then_first(pipeline, read, [](const auto&) { return std::string(); });
  pipeline.parameters_changed();
  pipeline.continue_after(position.step);
  return position;
}

}  // namespace weft
