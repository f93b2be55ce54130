#include "weft/model/weights/hf_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "weft/base/error.h"
#include "weft/base/files/durable_file.h"
#include "weft/base/text/foreign_text.h"
#include "weft/model/weights/json_input.h"
#include "weft/model/weights/load_parameter.h"

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
    add_file(files_.emplace_back(single));
  } else if (std::filesystem::exists(index)) {
    open_shards(index);
  } else {
    throw CheckpointError(
        fmt::format("{}: holds neither model.safetensors nor model.safetensors.index.json{}",
                    folder_.string(), hint_about_files()));
  }
  sort_names();
}

std::string HfFolder::hint_about_files() const {
  std::string pickle;
  std::string shard;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error)) {
    const std::string name = entry.path().filename().string();
    const std::string extension = entry.path().extension().string();
    if (name == "adapter_model.safetensors" || name == "adapter_model.bin")
      return "; it holds an adapter, merge that into its model first";
    if (extension == ".gguf") return "; save " + shown_name(name) + " as safetensors first";
    if (extension == ".bin" || extension == ".pt" || extension == ".pth")
      pickle = pickle.empty() ? name : std::min(pickle, name);
    if (extension == ".safetensors") shard = shard.empty() ? name : std::min(shard, name);
  }
  if (!shard.empty())
    return "; " + shown_name(shard) +
           " is there: if it is one of several, their index is missing, else rename it";
  if (!pickle.empty())
    return "; save " + shown_name(pickle) + " as safetensors first, weft does not read pickles";
  return {};
}

void HfFolder::add_file(const SafetensorsFile& file) {
  for (const auto& tensor : file.tensors())
    if (!is_rotary_buffer(tensor.name)) by_name_.push_back(&tensor);
  for (const auto& [name, stored] : file.metadata())
    if (const auto* tensor = file.find(stored)) other_names_.try_emplace(name, tensor);
}

void HfFolder::sort_names() {
  std::stable_sort(by_name_.begin(), by_name_.end(),
                   [](const auto* a, const auto* b) { return a->name < b->name; });
}

void HfFolder::open_shards(const std::filesystem::path& index) {
  const auto map = read_index(index);
  std::set<std::string> names;
  for (const auto& [tensor, file] : map) names.insert(file);
  if (names.size() > shard_limit) throw CheckpointError(index.string() + ": names more than 10000 files");
  files_.reserve(names.size());               // the tensors' addresses must stay
  std::map<std::string, std::string> chosen;  // tensor -> file
  for (const auto& name : names) {
    if (!std::filesystem::exists(folder_ / name)) {
      absent_files_.push_back(name);
      continue;
    }
    const auto& file = files_.emplace_back(folder_ / name);
    std::size_t kept = by_name_.size();
    add_file(file);
    for (std::size_t i = kept; i < by_name_.size(); ++i) {
      const auto* tensor = by_name_[i];
      const auto [other, is_first] = chosen.try_emplace(tensor->name, name);
      if (is_first) {
        by_name_[kept++] = tensor;
        continue;
      }
      const auto wanted = map.find(tensor->name);
      if (wanted == map.end() || (wanted->second != name && wanted->second != other->second))
        throw CheckpointError(fmt::format("{}: {} and {} both hold tensor {}, and the index names neither",
                                          index.string(), shown_name(other->second), shown_name(name),
                                          quoted_name(tensor->name)));
      if (wanted->second != name) continue;
      other->second = name;
      *std::find_if(by_name_.begin(), by_name_.begin() + static_cast<std::ptrdiff_t>(kept),
                    [&](const auto* t) { return t->name == tensor->name; }) = tensor;
    }
    by_name_.resize(kept);
  }
}

void HfFolder::find_under_other_names(const std::vector<LlamaTensor>& wanted) {
  for (const LlamaTensor& tensor : wanted) {
    if (find(tensor.name)) continue;
    const auto other = other_names_.find(tensor.name);
    const StoredTensor* same = other != other_names_.end() ? other->second : nullptr;
    if (!same && config_.llama.tie_word_embeddings && tensor.name == embedding_name) same = find(head_name);
    if (!same) continue;
    StoredTensor& alias = aliases_.emplace_back(*same);
    alias.name = tensor.name;
    const bool has_own_use = std::any_of(
        wanted.begin(), wanted.end(), [&](const LlamaTensor& needed) { return needed.name == same->name; });
    if (!has_own_use) std::erase(by_name_, same);
  }
  for (const StoredTensor& alias : aliases_) by_name_.push_back(&alias);
  sort_names();
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
  const auto wanted = llama_tensors(llama);
  find_under_other_names(wanted);
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
  std::string where = folder_.string() + ": the tensors are not those of config.json";
  if (!absent_files_.empty())
    where = fmt::format("{}: {}, which model.safetensors.index.json names, is not there", folder_.string(),
                        name_list(absent_files_));
  std::vector<std::string> wanted_names;
  std::vector<std::string> present;
  for (const auto& tensor : wanted) wanted_names.push_back(tensor.name);
  for (const auto* tensor : by_name_) present.push_back(tensor->name);
  require_same_names(std::move(wanted_names), std::move(present), where);
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
    const std::string& name = parameter->stored_name();
    const auto* stored = find(name);
    if (!stored) throw CheckpointError(fmt::format("{}: missing: {}", folder_.string(), quoted_name(name)));
    load_parameter(*parameter, *stored, folder_.string());
  }
}

}  // namespace weft
