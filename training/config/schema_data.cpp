// The `data_stages` list: which data from which step on. The kind of a dataset is chosen by its key.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "weft/base/text/spelling.h"
#include "weft/training/config/schema_parts.h"

namespace weft::schema {
namespace {

// Each alternative's first key names it.
Table alternative(TextFilesConfig& c) {
  return {
      {"text_files", paths(c.text_files), required},
      {"validation_files", paths(c.validation_files)},
      {"shuffle", boolean(c.shuffle)},
  };
}

Table alternative(TokenFileConfig& c) {
  return {
      {"token_file", path(c.token_file), required},
      {"token_size_in_bytes", integer(c.token_size_in_bytes, {2, 4})},
      {"shuffle", boolean(c.shuffle)},
  };
}

/// The older form of a blend is a block, folder: weight; what it says is complained of in today's form.
Value dataset_folder(std::vector<std::string>& folders) {
  Value value = paths(folders);
  value.read = [read = value.read](const Node& node, const std::string& path, Reading& reading) {
    if (node.kind != Node::Kind::block) return read(node, path, reading);
    std::string names;
    std::string weights;
    for (std::size_t i = 0; i < node.keys.size(); ++i) {
      names += (i == 0 ? "" : ", ") + node.keys[i];
      weights += (i == 0 ? "" : ", ") + node.children[i].text;
    }
    throw config_error(node.source, path, "a block of folders and weights is the older form of a blend",
                       fmt::format("dataset_folder: [{}] with dataset_weights: [{}]", names, weights));
  };
  return value;
}

Table alternative(NanosetConfig& c) {
  return {
      {"dataset_folder", dataset_folder(c.dataset_folder), required},
      {"dataset_weights", numbers(c.dataset_weights, {.least = 0, .with_least = false})},
      {"token_size_in_bytes", optional_integer(c.token_size_in_bytes, {2, 4})},
      {"vocab_size", optional_integer(c.vocab_size, {1, most_tokens})},
      {"tokenizer_name", without_effect(Kind::text)},
      {"dataset_read_path", not_supported("copies of datasets")},
      {"dataset_max_tokens", not_supported("limit on the tokens of a dataset")},
      {"return_positions", without_effect(Kind::boolean)},
      {"skip_in_stream", without_effect(Kind::boolean)},
      {"pad_samples_to_global_batch_size", not_supported("padding of samples", {"false"})},
      {"shuffle_files", not_supported("shuffling of files", {"false"})},
      {"use_old_brrr_dataloader", not_supported("other loader", {"false"})},
  };
}

template <class Config>
bool read_if_named(DatasetConfig& dataset, const Node& node, const std::string& path, Reading& reading) {
  Config config;
  const Table table = alternative(config);
  if (node.find(table.front().key) == nullptr) return false;
  read_table(node, path, table, reading);
  dataset = std::move(config);
  return true;
}

[[noreturn]] void no_dataset(const Node& node, const std::string& path) {
  constexpr std::string_view kinds = "null, or a block with one of text_files, token_file, dataset_folder";
  for (std::size_t i = 0; i < node.keys.size(); ++i) {
    const std::string key_path = join(path, node.keys[i]);
    if (node.keys[i].starts_with("hf_")) {
      throw config_error(node.key_sources[i], key_path, "weft does not read Hugging Face datasets", kinds);
    }
    constexpr std::array<std::string_view, 3> names = {"text_files", "token_file", "dataset_folder"};
    const std::string_view nearest = nearest_spelling(node.keys[i], names);
    if (!nearest.empty()) {
      throw config_error(node.key_sources[i], key_path,
                         "is not a known key, did you mean " + in_quotes(nearest) + "?", kinds);
    }
  }
  throw config_error(node.source, path, node.describe() + " names no data", kinds);
}

std::vector<std::string> paths_inside_datasets() {
  TextFilesConfig text;
  TokenFileConfig tokens;
  NanosetConfig nanoset;
  std::set<std::string> paths;
  for (const Table& table : {alternative(text), alternative(tokens), alternative(nanoset)})
    for (std::string& path : paths_inside(table)) paths.insert(std::move(path));
  return {paths.begin(), paths.end()};
}

Value dataset(DatasetConfig& c) {
  return {[&c](const Node& node, const std::string& path, Reading& reading) {
            const bool found =
                node.kind == Node::Kind::block && (read_if_named<TextFilesConfig>(c, node, path, reading) ||
                                                   read_if_named<TokenFileConfig>(c, node, path, reading) ||
                                                   read_if_named<NanosetConfig>(c, node, path, reading));
            if (!found) no_dataset(node, path);
          },
          [&c] {
            return std::visit(
                [](auto& config) {
                  using Config = std::remove_reference_t<decltype(config)>;
                  if constexpr (std::is_same_v<Config, RandomTokensConfig>) {
                    return Node::scalar("null");
                  } else {
                    return write_table(alternative(config));
                  }
                },
                c);
          },
          paths_inside_datasets()};
}

Table data(DataConfig& c) {
  return {
      {"dataset", dataset(c.dataset)},
      {"seed", integer(c.seed, {0, largest_integer})},
      {"num_loading_workers", without_effect(Kind::integer)},
  };
}

}  // namespace

Table data_stage_table(DataStageConfig& c) {
  return {
      {"name", text(c.name), required},
      {"start_training_step", integer(c.start_training_step, {1, most_steps}), required},
      {"sequence_length", optional_integer(c.sequence_length, {1, most_positions})},
      {"data", block(data(c.data)), required},
  };
}

Value older_data() {
  return moved("data_stages", "data_stages: [{name: ..., start_training_step: 1, data: ...}]",
               {[](const Node& node, const std::string& path, Reading& reading) {
                  DataConfig ignored;
                  read_table(node, path, data(ignored), reading);
                },
                nullptr});
}

}  // namespace weft::schema
