#include "weft/training/checkpoint/checkpoint_text.h"

#include <fmt/format.h>

#include <numeric>

#include "weft/base/error.h"
#include "weft/base/text/foreign_text.h"
#include "weft/training/checkpoint/checkpoint_search.h"
#include "weft/training/checkpoint/reader.h"

namespace weft {
namespace {

std::uint64_t total_bytes(const Manifest& manifest) {
  return std::accumulate(
      manifest.files.begin(), manifest.files.end(), std::uint64_t{0},
      [](std::uint64_t sum, const CheckpointFile& file) { return sum + file.record.bytes; });
}

std::string position_text(const Manifest& manifest) {
  const auto& position = manifest.position;
  std::string text =
      fmt::format("step {}, {} samples, {} tokens, seed {}\noptimizer {}, learning rate {}\n", position.step,
                  position.consumed_samples, position.consumed_tokens, position.seed,
                  position.optimizer.empty() ? "none" : position.optimizer, position.learning_rate);
  for (const auto& stage : position.data)
    text += fmt::format("data {}: {} samples used\n", quoted_name(stage.stage), stage.consumed_samples);
  return text;
}

std::string summary(const Manifest& manifest) {
  return fmt::format("step {:>8}  {:>3} files  {:>14} bytes  {}  weights {}", manifest.position.step,
                     manifest.files.size(), total_bytes(manifest),
                     manifest.position.optimizer.empty() ? "weights only" : manifest.position.optimizer,
                     manifest.weights_sha256.substr(0, 12));
}

}  // namespace

CheckpointListing list_report(const std::filesystem::path& path) {
  if (is_checkpoint(path)) {
    const CheckpointReader reader(path);
    std::string text = position_text(reader.manifest());
    for (const auto* tensor : reader.weights())
      text += fmt::format("{} {}\n", shown_name(tensor->name), tensor->describe());
    for (const auto* tensor : reader.state())
      text += fmt::format("{} {}\n", shown_name(tensor->name), tensor->describe());
    return {text, false};
  }
  const auto folder = folder_of_checkpoints(path);
  CheckpointList list = list_checkpoints(folder);
  if (list.found.empty() && list.damaged.empty())
    throw CheckpointError(folder.string() + ": holds no checkpoint");
  CheckpointListing listing;
  for (const auto& checkpoint : list.found) try {
      check_presence(checkpoint.folder);
      listing.text +=
          fmt::format("{}  {}\n", checkpoint.folder.filename().string(), summary(checkpoint.manifest));
    } catch (const CheckpointError& problem) {
      list.damaged.emplace_back(problem.what());
    }
  for (const std::string& reason : list.damaged) listing.text += "damaged: " + reason + "\n";
  listing.damaged = !list.damaged.empty();
  return listing;
}

CheckpointReport verify_report(const std::filesystem::path& path) {
  const CheckpointSearch search = resolve_checkpoint(path);  // hashes every file
  const CheckpointReader reader(search.newest->folder);
  const auto& manifest = reader.manifest();
  std::string text;
  for (const auto& file : manifest.files)
    text += fmt::format("{}  {}  {} bytes\n", file.record.sha256, file.record.name, file.record.bytes);
  if (const auto hash = hash_weights(reader); hash.sha256 != manifest.weights_sha256)
    throw CheckpointError(fmt::format("{}: the weights' hash is {}, the manifest says {}",
                                      reader.path().string(), hash.sha256, manifest.weights_sha256));
  text += fmt::format(
      "{}: valid: step {}, {} files, {} bytes, {} weights, {} other tensors, weights_sha256 {}\n",
      reader.path().string(), manifest.position.step, manifest.files.size(), total_bytes(manifest),
      reader.weights().size(), reader.state().size(), manifest.weights_sha256);
  return {text, search.skipped};
}

CheckpointReport hash_report(const std::filesystem::path& path) {
  const CheckpointSearch search = resolve_checkpoint(path);
  const auto hash = hash_weights(CheckpointReader(search.newest->folder));
  std::string text;
  for (const auto& line : hash.lines) text += line + "\n";
  return {text + hash.sha256 + "\n", search.skipped};
}

}  // namespace weft
