#include "weft/training/checkpoint/find.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "weft/base/error.h"
#include "weft/model/weights/safetensors.h"

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

void check_file(const std::filesystem::path& folder, const FileRecord& expected) {
  const auto path = folder / expected.name;
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (error) throw CheckpointError(fmt::format("{}: cannot be read: {}", path.string(), error.message()));
  if (size != expected.bytes)
    throw CheckpointError(
        fmt::format("{}: has {} bytes, the manifest says {}", path.string(), size, expected.bytes));
  if (hash_file(path) != expected)
    throw CheckpointError(
        fmt::format("{}: its SHA-256 is not the manifest's: the file is damaged", path.string()));
  const SafetensorsFile readable(path);
}

}  // namespace

std::string checkpoint_name(std::uint64_t step) { return fmt::format("{}{:08}", prefix, step); }

bool is_checkpoint(const std::filesystem::path& folder) {
  std::error_code error;
  return std::filesystem::exists(folder / Manifest::file_name, error);
}

CheckpointList list_checkpoints(const std::filesystem::path& folder) {
  CheckpointList list;
  std::error_code error;
  if (!std::filesystem::exists(folder, error)) return list;
  std::vector<std::filesystem::path> candidates;
  for (auto entry = std::filesystem::directory_iterator(folder, error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error))
    if (named_step(entry->path().filename().string())) candidates.push_back(entry->path());
  if (error) throw CheckpointError(fmt::format("{}: cannot be read: {}", folder.string(), error.message()));
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

Manifest verify_checkpoint(const std::filesystem::path& checkpoint) {
  Manifest manifest = read_matching_manifest(checkpoint);
  for (const auto& file : manifest.files) check_file(checkpoint, file.record);
  return manifest;
}

CheckpointSearch find_newest_valid(const std::filesystem::path& folder) {
  CheckpointList list = list_checkpoints(folder);
  CheckpointSearch search{std::nullopt, std::move(list.damaged)};
  for (auto& candidate : list.found) try {
      verify_checkpoint(candidate.folder);
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

CheckpointSearch resolve_checkpoint(const std::filesystem::path& path) {
  if (is_checkpoint(path)) return {FoundCheckpoint{path, verify_checkpoint(path)}, {}};
  std::error_code error;
  if (!std::filesystem::exists(path, error)) throw CheckpointError(path.string() + ": does not exist");
  CheckpointSearch search = find_newest_valid(path);
  if (!search.newest) throw CheckpointError(path.string() + ": holds no checkpoint");
  return search;
}

}  // namespace weft
