#pragma once
// How a checkpoint becomes visible: everything is written into a hidden folder, then one rename.
//
// A save, from the trainer's view (every rank unless said otherwise):
//   1. writer.start(temporary_folder(...))            copies the state; training goes on
//   2. writer.finish()                                the rank's files are on the medium and read back
//   3. gather to_text(RankFiles) on rank 0
//   4. rank 0: commit_checkpoint(...)                 manifest, flush, rename, `latest`
//   5. rank 0: keep_last(...)
// A process that dies at any moment leaves the checkpoints before it whole, and at most a hidden folder that
// remove_unfinished() takes away at the next start.
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>

#include "weft/training/checkpoint/manifest.h"
#include "weft/training/checkpoint/snapshot_writer.h"
#include "weft/training/checkpoint/write_hook.h"

namespace weft {

/// The file beside the checkpoints that names the last one saved. It is for people and scripts: weft itself
/// goes by the manifests, so a stale, empty or wrong one does no harm.
inline constexpr std::string_view latest_name = "latest";

/// The hidden folder into which all ranks write one checkpoint. `attempt` (letters, digits, '-') is the same
/// on all ranks and different at every start of the run, so that leftovers are never written into.
[[nodiscard]] std::filesystem::path temporary_folder(const std::filesystem::path& checkpoints,
                                                     std::uint64_t step, std::string_view attempt);

/// Throws CheckpointError when something that weft did not write, a folder without a manifest, has the name
/// of this checkpoint: it is never replaced.
void require_own_or_absent(const std::filesystem::path& checkpoint);

/// Makes a folder that holds these files a checkpoint: checks that they are all there, writes the manifest
/// and flushes the folder. The first half of commit_checkpoint. Throws CheckpointError.
void seal_checkpoint(const std::filesystem::path& folder, const TrainingPosition& position,
                     std::span<const RankFiles> ranks, std::uint64_t save_number,
                     const CheckpointProbe& probe = {});

/// Rank 0, once all ranks' files are durable: seals the checkpoint, makes it visible and moves `latest`. One
/// of the same step is replaced in one step. Returns the checkpoint's folder. Throws CheckpointError;
/// whatever was valid before still is.
std::filesystem::path commit_checkpoint(const std::filesystem::path& checkpoints,
                                        const std::filesystem::path& temporary,
                                        const TrainingPosition& position, std::span<const RankFiles> ranks,
                                        const CheckpointProbe& probe = {});

/// Removes all but the `count` newest checkpoints (1 or more; those whose manifest is damaged are left for
/// the user to look at). Throws CheckpointError.
void keep_last(const std::filesystem::path& checkpoints, std::uint64_t count,
               const CheckpointProbe& probe = {});

/// Removes what unfinished saves left in the folder. Only for the run that holds its lock.
void remove_unfinished(const std::filesystem::path& checkpoints);

}  // namespace weft
