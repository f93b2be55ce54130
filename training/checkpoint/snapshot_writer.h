#pragma once
// One rank's part of a checkpoint: a copy of its state, taken between two steps, written in the background.
#include <cstdint>
#include <filesystem>
#include <future>
#include <span>
#include <string>
#include <vector>

#include "weft/actors/optimizer.h"
#include "weft/actors/stage.h"
#include "weft/model/weights/safetensors.h"
#include "weft/tensor/arena.h"
#include "weft/training/checkpoint/manifest.h"
#include "weft/training/checkpoint/write_hook.h"

namespace weft {

/// What a rank has made durable: its files, and its lines of weights_sha256 (model/weights/weights_hash.h).
struct RankFiles {
  std::vector<CheckpointFile> files;
  std::vector<std::string> hash_lines;

  friend bool operator==(const RankFiles&, const RankFiles&) = default;
};

/// RankFiles as text, to be sent to rank 0, and back. Throws CheckpointError for a text that is no RankFiles.
[[nodiscard]] std::string to_text(const RankFiles& files);
[[nodiscard]] RankFiles rank_files_from_text(std::string_view text);

/// Copies and writes the parameters and the optimizer state of one rank. It sends no messages: the trainer
/// gathers what finish() returns on rank 0, which calls commit_checkpoint (commit.h).
///
/// Weights go to `weights-NNNN.safetensors` under the parameters' names, optimizer state and the float32
/// masters of bfloat16 parameters (NAME.master) to `state-NNNN.safetensors`; NNNN is the rank. Second uses of
/// tied weights are left out.
class SnapshotWriter {
 public:
  /// Takes the memory for the copy, once. The parameters and states must stay where they are. Throws Error
  /// when there is not enough memory, CheckpointError when a state belongs to no parameter.
  SnapshotWriter(std::uint32_t rank, std::span<Parameter* const> parameters,
                 std::span<const OptimizerState> states, CheckpointProbe probe = {});
  /// Waits for a write that is under way.
  ~SnapshotWriter();
  SnapshotWriter(const SnapshotWriter&) = delete;
  SnapshotWriter& operator=(const SnapshotWriter&) = delete;

  /// Bytes that the copy takes, for the plan.
  [[nodiscard]] static std::size_t snapshot_bytes(std::span<Parameter* const> parameters,
                                                  std::span<const OptimizerState> states);

  /// Copies the state and begins to write it into `folder` (made if it is missing). Afterwards the state may
  /// change. The last write must have been finished.
  void start(const std::filesystem::path& folder);
  /// True between start() and finish().
  [[nodiscard]] bool started() const noexcept { return written_.valid(); }
  /// True once finish() would not wait.
  [[nodiscard]] bool ready() const;
  /// Waits until the files are on the medium, read back and found right. Throws CheckpointError when
  /// something could not be written; that checkpoint must then not be committed.
  [[nodiscard]] RankFiles finish();

 private:
  struct Piece {
    StoredTensor tensor;      // refers to the copy
    Queue* queue;             // of the device where the source lies; null: the host
    const std::byte* source;  // what is copied
  };
  void add(std::vector<Piece>& pieces, std::string name, DType dtype, const Shape& shape, Queue* queue,
           const void* source);
  [[nodiscard]] RankFiles write(const std::filesystem::path& folder) const;
  void write_file(const std::filesystem::path& folder, const char* prefix, FileKind kind,
                  std::span<const Piece> pieces, RankFiles& result) const;
  void reached(std::string_view point) const {
    if (probe_) probe_(point);
  }

  std::uint32_t rank_;
  CheckpointProbe probe_;
  Arena copy_;
  std::vector<Piece> weights_;
  std::vector<Piece> state_;
  std::future<RankFiles> written_;  // last: its destructor waits for the thread that reads the others
};

}  // namespace weft
