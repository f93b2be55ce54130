#include "weft/training/checkpoint/commit.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>  // renameat2

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "weft/base/error.h"
#include "weft/model/weights/weights_hash.h"
#include "weft/training/checkpoint/checkpoint_search.h"

namespace weft {
namespace {

constexpr std::string_view temporary_prefix = ".tmp-";
constexpr std::string_view replaced_prefix = ".old-";

void reached(const CheckpointProbe& probe, std::string_view point) {
  if (probe) probe(point);
}

void remove_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  if (error)
    throw CheckpointError(fmt::format("{}: cannot be removed: {}", folder.string(), error.message()));
}

/// Hidden first, so that a half-removed checkpoint is never seen.
void remove_checkpoint(const std::filesystem::path& checkpoint) {
  const auto hidden =
      checkpoint.parent_path() / fmt::format("{}{}", replaced_prefix, checkpoint.filename().string());
  remove_folder(hidden);
  rename_durably(checkpoint, hidden);
  remove_folder(hidden);
}

Manifest make_manifest(const TrainingPosition& position, std::span<const RankFiles> ranks,
                       std::uint64_t save_number) {
  Manifest manifest{position, save_number, {}, {}};
  std::vector<std::string> lines;
  for (const auto& rank : ranks) {
    manifest.files.insert(manifest.files.end(), rank.files.begin(), rank.files.end());
    lines.insert(lines.end(), rank.hash_lines.begin(), rank.hash_lines.end());
  }
  std::sort(manifest.files.begin(), manifest.files.end(),
            [](const CheckpointFile& a, const CheckpointFile& b) { return a.record.name < b.record.name; });
  manifest.weights_sha256 = weights_sha256(std::move(lines));
  return manifest;
}

std::uint64_t next_save_number(const std::filesystem::path& checkpoints) {
  std::uint64_t next = 1;
  for (const auto& other : list_checkpoints(checkpoints).found)
    next = std::max(next, other.manifest.save_number + 1);
  return next;
}

void check_complete(const std::filesystem::path& folder, const Manifest& manifest) {
  for (const auto& file : manifest.files) {
    const auto path = folder / file.record.name;
    std::error_code error;
    const auto size = std::filesystem::file_size(path, error);
    if (error || size != file.record.bytes)
      throw CheckpointError(fmt::format("{}: is not as its rank wrote it ({})", path.string(),
                                        error ? error.message() : std::to_string(size) + " bytes"));
  }
}

/// Gives `temporary` the name `target`. What had that name afterwards has the name `temporary`, or is gone.
void swap_in(const std::filesystem::path& temporary, const std::filesystem::path& target) {
  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::symlink_status(target, error)))
    return rename_durably(temporary, target);
  if (::renameat2(AT_FDCWD, temporary.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0)
    return sync_folder(target.parent_path());
  if (errno != EINVAL && errno != ENOSYS)
    throw CheckpointError(fmt::format("{}: cannot be replaced: {}", target.string(), std::strerror(errno)));
  // file systems that cannot swap: between the two renames the older checkpoints are the newest
  remove_checkpoint(target);
  rename_durably(temporary, target);
}

}  // namespace

std::filesystem::path temporary_folder(const std::filesystem::path& checkpoints, std::uint64_t step,
                                       std::string_view attempt) {
  return checkpoints / fmt::format("{}{}-{}", temporary_prefix, checkpoint_name(step), attempt);
}

void require_own_or_absent(const std::filesystem::path& checkpoint) {
  std::error_code error;
  const auto status = std::filesystem::symlink_status(checkpoint, error);
  if (!std::filesystem::exists(status)) return;
  if (std::filesystem::is_directory(status) && is_checkpoint(checkpoint)) return;
  throw CheckpointError(
      fmt::format("{}: stands where a checkpoint belongs and is none (it has no {}); move it away",
                  checkpoint.string(), Manifest::file_name));
}

void seal_checkpoint(const std::filesystem::path& folder, const TrainingPosition& position,
                     std::span<const RankFiles> ranks, std::uint64_t save_number,
                     const CheckpointProbe& probe) {
  const Manifest manifest = make_manifest(position, ranks, save_number);
  check_complete(folder, manifest);
  DurableFile file(folder / Manifest::file_name);
  file.write(to_json(manifest));
  file.finish();
  reached(probe, "manifest written");
  if (to_json(read_manifest(folder)) != to_json(manifest))
    throw CheckpointError((folder / Manifest::file_name).string() +
                          ": reads back another text than was written");
  sync_folder(folder);
  reached(probe, "folder flushed");
}

std::filesystem::path commit_checkpoint(const std::filesystem::path& checkpoints,
                                        const std::filesystem::path& temporary,
                                        const TrainingPosition& position, std::span<const RankFiles> ranks,
                                        const CheckpointProbe& probe) {
  auto target = checkpoints / checkpoint_name(position.step);
  require_own_or_absent(target);
  seal_checkpoint(temporary, position, ranks, next_save_number(checkpoints), probe);
  swap_in(temporary, target);
  sync_folder(checkpoints.parent_path());  // the folder of checkpoints itself may be new
  reached(probe, "renamed");
  replace_file(checkpoints / latest_name, target.filename().string() + "\n");
  reached(probe, "latest moved");
  remove_folder(temporary);  // holds the replaced checkpoint, if there was one
  return target;
}

void keep_last(const std::filesystem::path& checkpoints, std::uint64_t count, const CheckpointProbe& probe) {
  if (count == 0) throw CheckpointError("keep_last must be 1 or more");
  const auto all = list_checkpoints(checkpoints).found;
  for (std::size_t i = count; i < all.size(); ++i) {
    remove_checkpoint(all[i].folder);
    reached(probe, "old one removed");
  }
}

void remove_unfinished(const std::filesystem::path& checkpoints) {
  std::error_code error;
  std::vector<std::filesystem::path> leftovers;
  const auto latest_temporary = fmt::format(".{}.tmp-", latest_name);
  for (auto entry = std::filesystem::directory_iterator(checkpoints, error);
       !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with(temporary_prefix) || name.starts_with(replaced_prefix) ||
        name.starts_with(latest_temporary))
      leftovers.push_back(entry->path());
  }
  for (const auto& leftover : leftovers) remove_folder(leftover);
}

}  // namespace weft
