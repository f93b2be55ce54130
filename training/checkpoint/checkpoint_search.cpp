#include "weft/training/checkpoint/checkpoint_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "weft/base/error.h"
#include "weft/model/weights/safetensors.h"
#include "weft/training/config/yaml_reader.h"

namespace weft {
namespace {

constexpr std::string_view prefix = "step-";

/// The step of a folder's name; none for other names.
std::optional<std::uint64_t> named_step(const std::string& name) {
  if (!name.starts_with(prefix)) return std::nullopt;
  std::uint64_t step = 0;
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + prefix.size(), end, step);
  return error == std::errc() && stop == end ? std::optional(step) : std::nullopt;
}

std::filesystem::path without_slash(const std::filesystem::path& folder) {
  return folder.has_filename() ? folder : folder.parent_path();
}

/// Reads the manifest of `folder` and compares its step with the folder's name.
Manifest read_matching_manifest(const std::filesystem::path& folder) {
  Manifest manifest = read_manifest(folder);
  const auto step = named_step(without_slash(folder).filename().string());
  if (step && *step != manifest.position.step)
    throw CheckpointError(
        fmt::format("{}: the manifest is that of step {}", folder.string(), manifest.position.step));
  return manifest;
}

void check_size(const std::filesystem::path& folder, const FileRecord& expected) {
  const auto path = folder / expected.name;
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (error) throw CheckpointError(fmt::format("{}: cannot be read: {}", path.string(), error.message()));
  if (size != expected.bytes)
    throw CheckpointError(
        fmt::format("{}: has {} bytes, the manifest says {}", path.string(), size, expected.bytes));
}

void check_content(const std::filesystem::path& folder, const FileRecord& expected) {
  const auto path = folder / expected.name;
  if (hash_file(path) != expected)
    throw CheckpointError(
        fmt::format("{}: its SHA-256 is not the manifest's: the file is damaged", path.string()));
  const SafetensorsFile readable(path);
}

using Check = Manifest(const std::filesystem::path&);

CheckpointSearch find_newest(const std::filesystem::path& folder, Check& check) {
  CheckpointList list = list_checkpoints(folder);
  CheckpointSearch search{std::nullopt, std::move(list.damaged)};
  for (auto& candidate : list.found) try {
      check(candidate.folder);
      search.newest = std::move(candidate);
      return search;
    } catch (const CheckpointError& problem) {
      search.skipped.emplace_back(problem.what());
    }
  if (search.skipped.empty()) return search;
  std::string text = folder.string() + ": no checkpoint is valid";
  for (const auto& line : search.skipped) text += "\n  " + line;
  throw CheckpointError(text);
}

CheckpointSearch resolve(const std::filesystem::path& path, Check& check) {
  if (is_checkpoint(path)) return {FoundCheckpoint{path, check(path)}, {}};
  const auto folder = folder_of_checkpoints(path);
  CheckpointSearch search = find_newest(folder, check);
  if (!search.newest) throw CheckpointError(folder.string() + ": holds no checkpoint");
  return search;
}

/// checkpoints.checkpoints_path of a run's config.yaml.
std::filesystem::path configured_path(const std::filesystem::path& config) {
  const std::filesystem::path usual = "checkpoints";
  try {
    const Node tree = parse_yaml(read_config_file(config.string()), Source{config.string(), 1, 1, 0});
    const Node* block = tree.find("checkpoints");
    const Node* path = block != nullptr ? block->find("checkpoints_path") : nullptr;
    return path != nullptr && !path->text.empty() ? std::filesystem::path(path->text) : usual;
  } catch (const ConfigError&) {
    return usual;
  }
}

}  // namespace

std::string checkpoint_name(std::uint64_t step) { return fmt::format("{}{:08}", prefix, step); }

bool is_checkpoint(const std::filesystem::path& folder) {
  std::error_code error;
  return std::filesystem::exists(folder / Manifest::file_name, error);
}

std::vector<NamedStep> named_steps(const std::filesystem::path& folder) {
  std::vector<NamedStep> steps;
  std::error_code error;
  if (!std::filesystem::exists(folder, error)) return steps;
  for (auto entry = std::filesystem::directory_iterator(folder, error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
    if (const auto step = named_step(entry->path().filename().string()))
      steps.push_back({*step, entry->path()});
  if (error) throw CheckpointError(fmt::format("{}: cannot be read: {}", folder.string(), error.message()));
  return steps;
}

CheckpointList list_checkpoints(const std::filesystem::path& folder) {
  CheckpointList list;
  std::vector<std::filesystem::path> candidates;
  for (const NamedStep& step : named_steps(folder)) candidates.push_back(step.path);
  std::sort(candidates.begin(), candidates.end());
  for (const auto& candidate : candidates) try {
      list.found.push_back({candidate, read_matching_manifest(candidate)});
    } catch (const CheckpointError& problem) {
      list.damaged.emplace_back(problem.what());
    }
  std::stable_sort(list.found.begin(), list.found.end(),
                   [](const FoundCheckpoint& a, const FoundCheckpoint& b) {
                     return a.manifest.save_number > b.manifest.save_number;
                   });
  return list;
}

Manifest check_presence(const std::filesystem::path& checkpoint) {
  Manifest manifest = read_matching_manifest(checkpoint);
  for (const auto& file : manifest.files) check_size(checkpoint, file.record);
  return manifest;
}

Manifest verify_checkpoint(const std::filesystem::path& checkpoint) {
  Manifest manifest = read_matching_manifest(checkpoint);
  for (const auto& file : manifest.files) {
    check_size(checkpoint, file.record);
    check_content(checkpoint, file.record);
  }
  return manifest;
}

CheckpointSearch find_newest_valid(const std::filesystem::path& folder) {
  return find_newest(folder, verify_checkpoint);
}

CheckpointSearch find_newest_present(const std::filesystem::path& folder) {
  return find_newest(folder, check_presence);
}

CheckpointSearch resolve_checkpoint(const std::filesystem::path& path) {
  return resolve(path, verify_checkpoint);
}

CheckpointSearch resolve_present_checkpoint(const std::filesystem::path& path) {
  return resolve(path, check_presence);
}

std::filesystem::path folder_of_checkpoints(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error))
    throw CheckpointError(path.string() + ": " + (error ? error.message() : "does not exist"));
  if (!std::filesystem::is_directory(path, error))
    throw CheckpointError(path.string() + ": is neither a checkpoint nor a folder of them");
  const auto config = path / "config.yaml";
  if (!named_steps(path).empty() || !std::filesystem::exists(config, error)) return path;
  return path / configured_path(config);
}

}  // namespace weft
