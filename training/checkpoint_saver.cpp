#include "weft/training/checkpoint_saver.h"

#include <fmt/core.h>

#include <utility>

#include "weft/base/log.h"
#include "weft/training/checkpoint/checkpoint_search.h"
#include "weft/training/checkpoint/commit.h"
#include "weft/training/training_position.h"

namespace weft {

CheckpointSaver::CheckpointSaver(Rank& rank, const NanotronConfig& config, const TrainingData* data,
                                 CheckpointPlace place, std::function<void(bool)> tell_saving)
    : rank_(rank),
      config_(config),
      data_(data),
      place_(std::move(place)),
      tell_saving_(std::move(tell_saving)) {}

void CheckpointSaver::set_saving(bool saving) {
  saving_ = saving;
  if (tell_saving_) tell_saving_(saving);
}

void CheckpointSaver::begin(std::uint64_t step) {
  end();  // the next save waits for the last
  set_saving(true);
  if (!writer_) {
    states_ = rank_.optimizer().state();
    writer_ = std::make_unique<SnapshotWriter>(rank_.rank(), rank_.parameters(), states_);
  }
  if (rank_.rank() == 0) require_own_or_absent(place_.folder / checkpoint_name(step));
  writer_->start(temporary_folder(place_.folder, step, place_.attempt));
  step_ = step;
}

void CheckpointSaver::end() {
  if (!saving_) return;
  const auto texts = rank_.gather_text(to_text(writer_->finish()));
  if (rank_.rank() == 0) commit(texts);
  set_saving(false);
}

void CheckpointSaver::commit(const std::vector<std::string>& texts) const {
  std::vector<RankFiles> files;
  for (const std::string& text : texts) files.push_back(rank_files_from_text(text));
  const auto saved = commit_checkpoint(place_.folder, temporary_folder(place_.folder, step_, place_.attempt),
                                       training_position(config_, *data_, step_, place_.model_base), files);
  if (config_.checkpoints.keep_last)
    keep_last(place_.folder, static_cast<std::uint64_t>(*config_.checkpoints.keep_last));
  log::info(fmt::format("saved step {} in {}", step_, saved.string()));
}

}  // namespace weft
