#include "weft/training/data/training_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "weft/base/sha256.h"
#include "weft/training/data/nanoset.h"
#include "weft/training/data/random_tokens.h"
#include "weft/training/data/text_files.h"
#include "weft/training/data/token_file.h"

namespace weft {
namespace {

/// The key that names the data of a stage; the block itself where there is none.
std::string data_key(const NanotronConfig& config, std::size_t stage) {
  constexpr const char* names[] = {"", ".text_files", ".token_file", ".dataset_folder"};
  static_assert(std::size(names) == std::variant_size_v<DatasetConfig>);
  return fmt::format("data_stages.{}.data.dataset{}", stage,
                     names[config.data_stages[stage].data.dataset.index()]);
}

/// The key that names what is held out for evaluation.
std::string validation_key(const NanotronConfig& config, std::size_t stage) {
  const auto* text = std::get_if<TextFilesConfig>(&config.data_stages[stage].data.dataset);
  if (text == nullptr || text->validation_files.empty()) return data_key(config, stage);
  return fmt::format("data_stages.{}.data.dataset.validation_files", stage);
}

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
    for (std::size_t i = 0; i < c.dataset_folder.size(); ++i) {
      try {
        folders.emplace_back(c.dataset_folder[i], c.token_size_in_bytes, window_, vocab_size_);
      } catch (const Error& e) {
        throw DatasetItemError(i, e.what());
      }
    }
    return std::make_unique<Nanoset>(std::move(folders), c.dataset_weights, seed_);
  }

 private:
  std::uint64_t window_;
  std::uint64_t vocab_size_;
  std::uint64_t seed_;
  bool evaluates_;
};

/// Opens what is held out for evaluation, and says how many samples that is; random tokens have no end. Null
/// for data of which nothing can be held out.
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
  return {nullptr, 0};
}

/// Steps that the stage serves.
std::int64_t steps_of(const NanotronConfig& config, const DataStageConfig& stage) {
  std::int64_t end = config.tokens.train_steps + 1;
  for (const DataStageConfig& other : config.data_stages) {
    if (other.start_training_step > stage.start_training_step) end = std::min(end, other.start_training_step);
  }
  return std::max<std::int64_t>(0, end - stage.start_training_step);
}

/// Calls `open`, with the place of the key, or of the item of its list, in front of what it throws.
template <class Open>
auto with_place(const ConfigSources& sources, const std::string& key, Open open) {
  try {
    return open();
  } catch (const DatasetItemError& e) {
    const std::string item = fmt::format("{}.{}", key, e.item());
    throw config_error(sources.find(item), item, e.what(), "files that can be read and are not empty");
  } catch (const Error& e) {
    throw config_error(sources.find(key), key, e.what(),
                       "data with at least one sample of sequence_length + 1 tokens of the vocabulary");
  }
}

}  // namespace

TrainingData::TrainingData(const NanotronConfig& config, const ConfigSources& sources)
    : samples_per_step_(static_cast<std::uint64_t>(config.tokens.samples_per_step())),
      window_(static_cast<std::uint64_t>(config.tokens.sequence_length) + 1) {
  for (std::size_t i = 0; i < config.data_stages.size(); ++i) {
    const DataStageConfig& stage = config.data_stages[i];
    const std::string key = data_key(config, i);
    auto dataset =
        with_place(sources, key, [&] { return std::visit(Opener(config, stage.data), stage.data.dataset); });
    const auto needed = static_cast<std::uint64_t>(steps_of(config, stage)) * samples_per_step_;
    if (dataset->sample_count() < needed) {
      throw config_error(sources.find(key), key,
                         fmt::format("holds {} samples of {} tokens, the steps of this stage need {}",
                                     dataset->sample_count(), config.tokens.sequence_length + 1, needed),
                         fmt::format("at most {} steps", dataset->sample_count() / samples_per_step_));
    }
    Stage opened{static_cast<std::uint64_t>(stage.start_training_step), key, std::move(dataset), nullptr, 0};
    if (config.tokens.val_check_interval > 0) hold_out(opened, config, i, sources);
    stages_.push_back(std::move(opened));
  }
  std::sort(stages_.begin(), stages_.end(),
            [](const Stage& a, const Stage& b) { return a.first_step < b.first_step; });
}

void TrainingData::hold_out(Stage& opened, const NanotronConfig& config, std::size_t stage,
                            const ConfigSources& sources) const {
  const std::string key = validation_key(config, stage);
  auto [validation, samples] =
      with_place(sources, key, [&] { return open_validation(config, config.data_stages[stage].data); });
  if (!validation) {
    const std::string interval = "tokens.val_check_interval";
    throw config_error(sources.find(interval), interval,
                       fmt::format("nothing can be held out for evaluation from data stage {}", stage),
                       "-1, or a dataset that is text_files or null");
  }
  opened.validation = std::move(validation);
  opened.validation_batches = samples / samples_per_step_;
  if (opened.validation_batches == 0) {
    throw config_error(sources.find(key), key,
                       fmt::format("{} samples are held out for evaluation, one batch needs {}", samples,
                                   samples_per_step_));
  }
  if (const auto limit = config.tokens.limit_val_batches)
    opened.validation_batches = std::min(opened.validation_batches, static_cast<std::uint64_t>(*limit));
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
    with_place(sources, stage.key, [&] { stage.dataset->check(); });
  }
}

void check_training_data(const NanotronConfig& config, const ConfigSources& sources) {
  TrainingData(config, sources).check(sources);
}

}  // namespace weft
