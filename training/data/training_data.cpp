#include "weft/training/data/training_data.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/model/weights/sha256.h"
#include "weft/training/data/nanoset.h"
#include "weft/training/data/random_tokens.h"
#include "weft/training/data/text_files.h"
#include "weft/training/data/token_file.h"

namespace weft {
namespace {

std::string dataset_path(std::size_t stage) { return fmt::format("data_stages.{}.data.dataset", stage); }

/// Opens the dataset of one stage; member functions are one per kind.
class Opener {
 public:
  Opener(const NanotronConfig& config, const DataConfig& data)
      : window_(static_cast<std::uint64_t>(config.tokens.sequence_length) + 1),
        vocab_size_(static_cast<std::uint64_t>(config.model.model_config.vocab_size)),
        seed_(static_cast<std::uint64_t>(data.seed)),
        evaluates_(config.tokens.val_check_interval > 0) {}

  std::unique_ptr<Dataset> operator()(const RandomTokensConfig&) const {
    return std::make_unique<RandomTokens>(seed_, static_cast<std::uint32_t>(vocab_size_));
  }
  std::unique_ptr<Dataset> operator()(const TextFilesConfig& c) const {
    const bool splits = evaluates_ && c.validation_files.empty();
    return std::make_unique<TextFiles>(find_text_files(c.text_files), window_, c.shuffle, seed_,
                                       splits ? TextPart::training : TextPart::all);
  }
  std::unique_ptr<Dataset> operator()(const TokenFileConfig& c) const {
    const auto token_bytes = static_cast<std::uint64_t>(c.token_size_in_bytes);
    return std::make_unique<TokenFile>(c.token_file, token_bytes, window_, vocab_size_, c.shuffle, seed_);
  }
  std::unique_ptr<Dataset> operator()(const NanosetConfig& c) const {
    std::vector<DsFolder> folders;
    for (const std::string& folder : c.dataset_folder) {
      folders.emplace_back(folder, c.token_size_in_bytes, window_, vocab_size_);
    }
    return std::make_unique<Nanoset>(std::move(folders), c.dataset_weights, seed_);
  }

 private:
  std::uint64_t window_;
  std::uint64_t vocab_size_;
  std::uint64_t seed_;
  bool evaluates_;
};

/// Opens what is held out for evaluation, and says how many samples that is; random tokens have no end.
std::pair<std::unique_ptr<Dataset>, std::uint64_t> open_validation(const NanotronConfig& config,
                                                                   const DataConfig& data) {
  const auto window = static_cast<std::uint64_t>(config.tokens.sequence_length) + 1;
  const auto seed = static_cast<std::uint64_t>(data.seed);
  if (const auto* text = std::get_if<TextFilesConfig>(&data.dataset)) {
    const bool own = !text->validation_files.empty();
    auto files = std::make_unique<TextFiles>(find_text_files(own ? text->validation_files : text->text_files),
                                             window, false, seed, own ? TextPart::all : TextPart::validation);
    const std::uint64_t count = files->window_count();
    return {std::move(files), count};
  }
  if (std::holds_alternative<RandomTokensConfig>(data.dataset))
    return {std::make_unique<RandomTokens>(~seed,
                                           static_cast<std::uint32_t>(config.model.model_config.vocab_size)),
            static_cast<std::uint64_t>(config.tokens.samples_per_step())};
  throw Error("an evaluation (tokens.val_check_interval) needs text_files or null");
}

/// Steps that the stage serves.
std::int64_t steps_of(const NanotronConfig& config, const DataStageConfig& stage) {
  std::int64_t end = config.tokens.train_steps + 1;
  for (const DataStageConfig& other : config.data_stages) {
    if (other.start_training_step > stage.start_training_step) end = std::min(end, other.start_training_step);
  }
  return std::max<std::int64_t>(0, end - stage.start_training_step);
}

/// Calls `open`, with the key's place in front of what it throws.
template <class Open>
auto with_place(const ConfigSources& sources, std::size_t stage, Open open) {
  try {
    return open();
  } catch (const Error& e) {
    throw config_error(sources.find(dataset_path(stage)), dataset_path(stage), e.what());
  }
}

}  // namespace

TrainingData::TrainingData(const NanotronConfig& config, const ConfigSources& sources)
    : samples_per_step_(static_cast<std::uint64_t>(config.tokens.samples_per_step())),
      window_(static_cast<std::uint64_t>(config.tokens.sequence_length) + 1) {
  for (std::size_t i = 0; i < config.data_stages.size(); ++i) {
    const DataStageConfig& stage = config.data_stages[i];
    auto dataset =
        with_place(sources, i, [&] { return std::visit(Opener(config, stage.data), stage.data.dataset); });
    const auto needed = static_cast<std::uint64_t>(steps_of(config, stage)) * samples_per_step_;
    if (dataset->sample_count() < needed) {
      throw config_error(sources.find(dataset_path(i)), dataset_path(i),
                         fmt::format("holds {} samples of {} tokens, the steps of this stage need {}",
                                     dataset->sample_count(), config.tokens.sequence_length + 1, needed),
                         fmt::format("at most {} steps", dataset->sample_count() / samples_per_step_));
    }
    Stage opened{static_cast<std::uint64_t>(stage.start_training_step), i, std::move(dataset), nullptr, 0};
    if (config.tokens.val_check_interval > 0)
      with_place(sources, i, [&] {
        auto [validation, samples] = open_validation(config, stage.data);
        opened.validation = std::move(validation);
        opened.validation_batches = samples / samples_per_step_;
        if (opened.validation_batches == 0)
          throw Error(fmt::format("{} samples are held out for evaluation, one batch needs {}", samples,
                                  samples_per_step_));
        if (config.tokens.limit_val_batches > 0)
          opened.validation_batches = std::min(opened.validation_batches,
                                               static_cast<std::uint64_t>(config.tokens.limit_val_batches));
      });
    stages_.push_back(std::move(opened));
  }
  std::sort(stages_.begin(), stages_.end(),
            [](const Stage& a, const Stage& b) { return a.first_step < b.first_step; });
}

const TrainingData::Stage& TrainingData::stage_of(std::uint64_t step) const {
  const auto next = std::find_if(stages_.begin(), stages_.end(),
                                 [&](const Stage& stage) { return stage.first_step > step; });
  if (next == stages_.begin()) throw Error(fmt::format("no data stage serves step {}", step));
  return *std::prev(next);
}

std::uint64_t TrainingData::validation_batches(std::uint64_t step) const {
  return stage_of(step).validation_batches;
}

void TrainingData::read_validation(std::uint64_t step, std::uint64_t batch, std::uint64_t i,
                                   std::span<std::int32_t> tokens) const {
  stage_of(step).validation->read(batch * samples_per_step_ + i, tokens);
}

void TrainingData::read(std::uint64_t step, std::uint64_t i, std::span<std::int32_t> tokens) const {
  const Stage& stage = stage_of(step);
  stage.dataset->read((step - stage.first_step) * samples_per_step_ + i, tokens);
}

std::string TrainingData::fingerprint(std::uint64_t step) const {
  Sha256 hash;
  std::vector<std::int32_t> tokens(window_);
  for (std::uint64_t i = 0; i < samples_per_step_; ++i) {
    read(step, i, tokens);
    hash.update(std::as_bytes(std::span(tokens)));
  }
  return hash.hex();
}

void TrainingData::check(const ConfigSources& sources) const {
  for (const Stage& stage : stages_) {
    with_place(sources, stage.number, [&] { stage.dataset->check(); });
  }
}

void check_training_data(const NanotronConfig& config, const ConfigSources& sources) {
  TrainingData(config, sources).check(sources);
}

}  // namespace weft
