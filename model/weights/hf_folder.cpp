#include "weft/model/weights/hf_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "weft/base/error.h"
#include "weft/model/weights/json_input.h"
#include "weft/model/weights/load_parameter.h"
#include "weft/model/weights/safetensors_header.h"

namespace weft {
namespace {

constexpr std::size_t config_limit = std::size_t{1} << 20;
constexpr std::size_t index_limit = std::size_t{64} << 20;
constexpr std::size_t shard_limit = 10'000;
constexpr std::string_view embedding_name = "model.embed_tokens.weight";
constexpr std::string_view head_name = "lm_head.weight";

bool is_file_name(const std::string& name) {
  return !name.empty() && name.front() != '.' && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

/// Tensor name -> file, of model.safetensors.index.json.
std::map<std::string, std::string> read_index(const std::filesystem::path& path) {
  const auto tree = read_json_object(path, index_limit);
  const auto map = tree.find("weight_map");
  if (map == tree.end() || !map->is_object()) throw CheckpointError(path.string() + ": has no weight_map");
  std::map<std::string, std::string> files;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string() || !is_file_name(file.get<std::string>()))
      throw CheckpointError(
          fmt::format("{}: tensor {} is not in a file of this folder", path.string(), quoted_name(tensor)));
    files.emplace(tensor, file.get<std::string>());
  }
  return files;
}

/// Old files store the rotary frequencies, which weft computes from the configuration.
bool is_rotary_buffer(const std::string& name) { return name.ends_with(".rotary_emb.inv_freq"); }

}  // namespace

std::vector<LlamaTensor> llama_tensors(const LlamaArchitecture& config) {
  const std::uint64_t hidden = config.hidden_size;
  const std::uint64_t inner = config.intermediate_size;
  const std::uint64_t queries = config.query_columns();
  const std::uint64_t keys = config.key_columns();
  std::vector<LlamaTensor> tensors{{std::string(embedding_name), {config.vocab_size, hidden}}};
  for (std::uint32_t layer = 0; layer < config.num_hidden_layers; ++layer) {
    const std::string prefix = fmt::format("model.layers.{}.", layer);
    const auto add = [&](const char* name, std::vector<std::uint64_t> shape) {
      tensors.push_back({prefix + name, std::move(shape)});
    };
    const auto add_projection = [&](const std::string& name, std::uint64_t out, std::uint64_t in) {
      add(("self_attn." + name + ".weight").c_str(), {out, in});
      if (config.attention_bias) add(("self_attn." + name + ".bias").c_str(), {out});
    };
    add("input_layernorm.weight", {hidden});
    add_projection("q_proj", queries, hidden);
    add_projection("k_proj", keys, hidden);
    add_projection("v_proj", keys, hidden);
    add_projection("o_proj", hidden, queries);
    add("post_attention_layernorm.weight", {hidden});
    add("mlp.gate_proj.weight", {inner, hidden});
    add("mlp.up_proj.weight", {inner, hidden});
    add("mlp.down_proj.weight", {hidden, inner});
  }
  tensors.push_back({"model.norm.weight", {hidden}});
  if (!config.tie_word_embeddings) tensors.push_back({std::string(head_name), {config.vocab_size, hidden}});
  return tensors;
}

HfFolder::HfFolder(std::filesystem::path folder) : folder_(std::move(folder)) {
  const auto path = folder_ / "config.json";
  config_text_ = read_small_file(path, config_limit);
  config_ = parse_hf_config(config_text_, path.string());
  open_files();
  arrange();
}

void HfFolder::open_files() {
  const auto single = folder_ / "model.safetensors";
  const auto index = folder_ / "model.safetensors.index.json";
  if (std::filesystem::exists(single)) {
    files_.emplace_back(single);
  } else if (std::filesystem::exists(index)) {
    open_shards(index);
  } else {
    throw CheckpointError(fmt::format(
        "{}: holds neither model.safetensors nor model.safetensors.index.json{}", folder_.string(),
        std::filesystem::exists(folder_ / "pytorch_model.bin")
            ? "; save pytorch_model.bin as safetensors first, weft does not read pickles"
            : ""));
  }
  for (const auto& file : files_)
    for (const auto& tensor : file.tensors())
      if (!is_rotary_buffer(tensor.name)) by_name_.push_back(&tensor);
  std::sort(by_name_.begin(), by_name_.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
}

void HfFolder::open_shards(const std::filesystem::path& index) {
  const auto map = read_index(index);
  std::set<std::string> names;
  for (const auto& [tensor, file] : map) names.insert(file);
  if (names.size() > shard_limit) throw CheckpointError(index.string() + ": names more than 10000 files");
  files_.reserve(names.size());  // the tensors' addresses must stay
  std::size_t found = 0;
  for (const auto& name : names) {
    files_.emplace_back(folder_ / name);
    for (const auto& tensor : files_.back().tensors()) {
      const auto entry = map.find(tensor.name);
      if (entry == map.end() && is_rotary_buffer(tensor.name)) continue;
      if (entry == map.end() || entry->second != name)
        throw CheckpointError(
            fmt::format("{}: {} holds tensor {}, which the index {}", index.string(), shown_name(name),
                        quoted_name(tensor.name),
                        entry == map.end() ? "does not list" : "puts into " + shown_name(entry->second)));
      ++found;
    }
  }
  if (found == map.size()) return;
  for (const auto& [tensor, file] : map)
    if (std::none_of(files_.begin(), files_.end(),
                     [&wanted = tensor](const auto& f) { return f.find(wanted) != nullptr; }))
      throw CheckpointError(fmt::format("{}: {} does not hold tensor {}", index.string(), shown_name(file),
                                        quoted_name(tensor)));
}

const StoredTensor* HfFolder::find(std::string_view name) const noexcept {
  const auto found = std::lower_bound(by_name_.begin(), by_name_.end(), name,
                                      [](const StoredTensor* t, std::string_view n) { return t->name < n; });
  return found != by_name_.end() && (*found)->name == name ? *found : nullptr;
}

void HfFolder::arrange() {
  const auto& llama = config_.llama;
  // before a list of that length is made
  if (llama.num_hidden_layers > by_name_.size())
    throw CheckpointError(fmt::format("{}: config.json has {} layers, the files hold {} tensors",
                                      folder_.string(), llama.num_hidden_layers, by_name_.size()));
  const auto* head = find(head_name);
  const auto* embedding = find(embedding_name);
  if (llama.tie_word_embeddings && head && embedding) {
    if (head->type != embedding->type ||
        !std::equal(head->bytes.begin(), head->bytes.end(), embedding->bytes.begin(), embedding->bytes.end()))
      throw CheckpointError(
          folder_.string() +
          ": tie_word_embeddings is true, but lm_head.weight differs from model.embed_tokens.weight");
    std::erase(by_name_, head);
  }
  const auto wanted = llama_tensors(llama);
  std::vector<std::string> wanted_names;
  std::vector<std::string> present;
  for (const auto& tensor : wanted) wanted_names.push_back(tensor.name);
  for (const auto* tensor : by_name_) present.push_back(tensor->name);
  require_same_names(std::move(wanted_names), std::move(present),
                     folder_.string() + ": the tensors are not those of config.json");
  for (const auto& tensor : wanted) {
    const auto* stored = find(tensor.name);
    if (stored->shape != tensor.shape)
      throw CheckpointError(fmt::format(
          "{}: tensor {} is {}, config.json makes it {}", folder_.string(), tensor.name, stored->describe(),
          StoredTensor{"", stored->type, stored->dtype, tensor.shape, {}}.describe()));
    if (!holds_floats(*stored))
      throw CheckpointError(fmt::format("{}: tensor {} is {}; weft reads F32, BF16 and F16", folder_.string(),
                                        tensor.name, stored->describe()));
    tensors_.push_back(stored);
  }
}

void HfFolder::load(std::span<Parameter* const> parameters) const {
  for (const Parameter* parameter : parameters) {
    const std::string& name = parameter->tied_to.empty() ? parameter->name : parameter->tied_to;
    const auto* stored = find(name);
    if (!stored) throw CheckpointError(fmt::format("{}: missing: {}", folder_.string(), quoted_name(name)));
    load_parameter(*parameter, *stored, folder_.string());
  }
}

}  // namespace weft
