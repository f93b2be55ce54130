#include "weft/training/checkpoint/reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/text/foreign_text.h"
#include "weft/model/weights/load_parameter.h"
#include "weft/model/weights/weights_hash.h"
#include "weft/training/checkpoint/state_names.h"

namespace weft {
namespace {

using Tensors = std::vector<const StoredTensor*>;

const StoredTensor* find(const Tensors& tensors, std::string_view name) {
  const auto found = std::lower_bound(tensors.begin(), tensors.end(), name,
                                      [](const StoredTensor* t, std::string_view n) { return t->name < n; });
  return found != tensors.end() && (*found)->name == name ? *found : nullptr;
}

void sort_unique(Tensors& tensors, const std::string& where) {
  std::sort(tensors.begin(), tensors.end(), [](const auto* a, const auto* b) { return a->name < b->name; });
  const auto twice = std::adjacent_find(tensors.begin(), tensors.end(),
                                        [](const auto* a, const auto* b) { return a->name == b->name; });
  if (twice != tensors.end())
    throw CheckpointError(fmt::format("{}: two files hold {}", where, quoted_name((*twice)->name)));
}

/// Looks up all tensors first, so that one message names everything that is missing.
class Wanted {
 public:
  explicit Wanted(const std::filesystem::path& where) : where_(where.string()) {}
  const StoredTensor* find_in(const Tensors& tensors, const std::string& name) {
    const auto* found = find(tensors, name);
    if (!found) missing_.push_back(name);
    return found;
  }
  void require_all() const {
    if (!missing_.empty()) throw CheckpointError(where_ + ": missing: " + name_list(missing_));
  }

 private:
  std::string where_;
  std::vector<std::string> missing_;
};

}  // namespace

CheckpointReader::CheckpointReader(std::filesystem::path checkpoint)
    : path_(std::move(checkpoint)), manifest_(read_manifest(path_)) {
  files_.reserve(manifest_.files.size());  // the tensors' addresses must stay
  for (const auto& file : manifest_.files) {
    const auto path = path_ / file.record.name;
    std::error_code error;
    const auto size = std::filesystem::file_size(path, error);
    if (!error && size != file.record.bytes)
      throw CheckpointError(
          fmt::format("{}: has {} bytes, the manifest says {}", path.string(), size, file.record.bytes));
    files_.emplace_back(path);
    auto& tensors = file.kind == FileKind::weights ? weights_ : state_;
    for (const auto& tensor : files_.back().tensors()) tensors.push_back(&tensor);
  }
  sort_unique(weights_, path_.string());
  sort_unique(state_, path_.string());
}

const StoredTensor& CheckpointReader::weight(const std::string& name) const {
  Wanted wanted(path_);
  const auto* found = wanted.find_in(weights_, name);
  wanted.require_all();
  return *found;
}

void CheckpointReader::require_model(const std::vector<std::string>& parameter_names) const {
  std::vector<std::string> present;
  for (const auto* tensor : weights_) present.push_back(tensor->name);
  require_same_names(parameter_names, std::move(present), path_.string() + ": holds another model's weights");
}

void CheckpointReader::restore(std::span<Parameter* const> parameters,
                               std::span<const OptimizerState> states) const {
  Wanted wanted(path_);
  Tensors values;
  Tensors masters;
  Tensors moments;
  for (const Parameter* parameter : parameters) {
    const std::string& name = parameter->stored_name();
    values.push_back(wanted.find_in(weights_, name));
    masters.push_back(parameter->master ? wanted.find_in(state_, name + std::string(master_suffix))
                                        : nullptr);
  }
  for (const auto& state : states)
    moments.push_back(wanted.find_in(state_, stored_name(state, owner_of(state, parameters))));
  wanted.require_all();

  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = *parameters[i];
    load_exactly(parameter.dtype, parameter.shape, parameter.queue, parameter.value_bytes(), *values[i],
                 path_.string());
    if (masters[i])
      load_exactly(DType::float32, parameter.shape, parameter.queue, parameter.master_bytes(), *masters[i],
                   path_.string());
  }
  for (std::size_t i = 0; i < states.size(); ++i)
    load_exactly(DType::float32, states[i].shape, states[i].queue, states[i].value_bytes(), *moments[i],
                 path_.string());
}

void CheckpointReader::load_weights(std::span<Parameter* const> parameters) const {
  Wanted wanted(path_);
  Tensors values;
  for (const Parameter* parameter : parameters)
    values.push_back(wanted.find_in(weights_, parameter->stored_name()));
  wanted.require_all();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& parameter = *parameters[i];
    load_parameter(parameter, *values[i], path_.string());
    const auto* master = find(state_, parameter.stored_name() + std::string(master_suffix));
    if (parameter.master && master)
      load_exactly(DType::float32, parameter.shape, parameter.queue, parameter.master_bytes(), *master,
                   path_.string());
  }
}

StoredWeightsHash hash_weights(const CheckpointReader& reader) {
  StoredWeightsHash hash;
  for (const auto* tensor : reader.weights())
    hash.lines.push_back(weights_hash_line(tensor->name, tensor->dtype, tensor->shape, tensor->bytes));
  std::sort(hash.lines.begin(), hash.lines.end());
  hash.sha256 = weights_sha256(hash.lines);
  return hash;
}

}  // namespace weft
