#include "weft/model/llama/typed_llama_stage.h"

#include <algorithm>
#include <string>
#include <utility>

#include "weft/base/error.h"
#include "weft/model/llama/decay_exclusion.h"
#include "weft/model/llama/initial_weights.h"
#include "weft/model/llama/tokens.h"
#include "weft/model/ops/poll_while.h"

namespace weft {
namespace {

Poll poll_of(const MicrobatchContext& context) {
  const auto [function, owner] = context.poll_hook();
  return {.function = function, .argument = owner};
}

ComputeSettings compute_settings(const LlamaConfig& config) { return {.threads = config.threads}; }

std::byte* bytes_of(void* values) { return static_cast<std::byte*>(values); }

}  // namespace

template <class T>
TypedLlamaStage<T>::TypedLlamaStage(const LlamaConfig& config, std::uint32_t first_layer,
                                    std::uint32_t layers)
    : config_(config),
      sizes_(make_op_sizes<T>(compute_settings(config))),
      is_first_(first_layer == 0),
      is_last_(first_layer + layers == config.num_hidden_layers),
      largest_{config.micro_batch_size, config.sequence_length} {
  layers_.reserve(layers);
  for (std::uint32_t i = 0; i < layers; ++i) layers_.emplace_back(config, first_layer + i);
  if (is_last_) head_.emplace(config);
  kept_.inputs.resize(layers);
  kept_.layers.resize(layers);
  work_.output_gradients.resize(layers);
  work_.layers.resize(layers);
  make_parameters();
}

template <class T>
void TypedLlamaStage<T>::lay_out_state(StateCarver& carve) {
  if (is_first_) embedding_.lay_out(carve, std::size_t{config_.vocab_size} * config_.hidden_size);
  for (Layer& layer : layers_) layer.lay_out_state(carve, *sizes_);
  if (head_) head_->lay_out_state(carve, *sizes_);
  const std::size_t angles = std::size_t{config_.sequence_length} * (config_.head_size() / 2);
  cosine_ = carve.rest.take<float>(angles);
  sine_ = carve.rest.take<float>(angles);
}

template <class T>
void TypedLlamaStage<T>::lay_out_kept(Carver& carve, Size size) {
  const std::size_t elements = size.rows() * config_.hidden_size;
  if (is_first_) kept_.tokens = carve.take<std::int32_t>(size.rows());
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    kept_.inputs[i] = i == 0 && !is_first_ ? nullptr : carve.take<T>(elements);
    if (!config_.recompute_layer) kept_.layers[i] = layers_[i].lay_out_kept(carve, size.batch, size.sequence);
  }
  if (!is_last_) return;
  kept_.head_input = carve.take<T>(elements);
  kept_.head = head_->lay_out_kept(carve, size.rows());
}

template <class T>
void TypedLlamaStage<T>::lay_out_work(Carver& carve, Size size) {
  const std::size_t elements = size.rows() * config_.hidden_size;
  if (is_first_) {
    work_.tokens = carve.take<std::int32_t>(size.rows());
    work_.embedded_gradient = carve.take<T>(elements);
  }
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    work_.output_gradients[i] = carve.take<T>(elements);
    work_.layers[i] = layers_[i].lay_out_work(carve, size.batch, size.sequence);
  }
  if (is_last_) work_.head = head_->lay_out_work(carve, size.rows());
}

template <class T>
std::size_t TypedLlamaStage<T>::recomputed_bytes() const {
  if (!config_.recompute_layer) return 0;
  Carver count;
  (void)layers_[0].lay_out_kept(count, largest_.batch, largest_.sequence);
  return count.used();
}

template <class T>
std::size_t TypedLlamaStage<T>::target_bytes() const {
  return is_last_ ? aligned(largest_.rows() * sizeof(std::int32_t)) : 0;
}

template <class T>
std::size_t TypedLlamaStage<T>::op_workspace() const {
  const std::size_t layer = layers_[0].workspace(*sizes_, largest_.batch, largest_.sequence);
  return head_ ? std::max(layer, head_->workspace(*sizes_, largest_.rows())) : layer;
}

template <class T>
StagePlan TypedLlamaStage<T>::plan(const ShapeList& largest_input) {
  if (largest_input.size() != (is_first_ ? 0u : 1u))
    throw Error("a Llama stage takes one tensor from the stage before it, the first one none");
  if (!is_first_ && (largest_input[0].dtype != config_.dtype || largest_input[0].shape != border(largest_)))
    throw Error("a Llama stage takes " + border(largest_).str() + " of " +
                std::string(dtype_name(config_.dtype)) + ", not " + largest_input[0].shape.str() + " of " +
                std::string(dtype_name(largest_input[0].dtype)));
  Carver activation;
  Carver weight;
  StateCarver state;
  lay_out_kept(activation, largest_);
  lay_out_work(weight, largest_);
  lay_out_state(state);
  StagePlan plan;
  if (!is_last_) plan.outputs.push_back({config_.dtype, border(largest_), true});
  plan.activation_slot = activation.used();
  plan.weight_slot = weight.used();
  plan.workspace = recomputed_bytes() + target_bytes() + op_workspace();
  plan.state = state.used();
  return plan;
}

template <class T>
void TypedLlamaStage<T>::allocate(Arena& state, Queue& queue) {
  ops_ = make_ops<T>(queue, compute_settings(config_));
  StateCarver count;
  lay_out_state(count);
  StateCarver carve(state.take(count.used()), count);
  lay_out_state(carve);
  const std::size_t angles = std::size_t{config_.sequence_length} * (config_.head_size() / 2);
  std::vector<float> table(2 * angles);
  fill_rope_table(rope_frequencies(config_), config_.sequence_length, table.data(), table.data() + angles);
  queue.upload(bytes_of(cosine_), std::as_bytes(std::span(table).first(angles)));
  queue.upload(bytes_of(sine_), std::as_bytes(std::span(table).last(angles)));
  make_parameters();
  for (Parameter& parameter : parameters_) parameter.queue = &queue;
  set_initial_weights(config_, parameters_);
  parameters_changed();
}

template <class T>
void TypedLlamaStage<T>::make_parameters() {
  parameters_.clear();
  if (is_first_)
    parameters_.push_back(
        embedding_.parameter("model.embed_tokens.weight", Shape{config_.vocab_size, config_.hidden_size}));
  for (const Layer& layer : layers_) layer.append_parameters(parameters_);
  if (head_) head_->append_parameters(parameters_);
  const DecayExclusion exclusion(config_.weight_decay_exclude);
  for (Parameter& parameter : parameters_)
    parameter.weight_decay = !exclusion.excludes(parameter.stored_name());
}

template <class T>
void TypedLlamaStage<T>::parameters_changed() {
  for (Layer& layer : layers_) layer.pack(*ops_);
  if (head_) head_->pack(*ops_);
}

template <class T>
typename TypedLlamaStage<T>::Size TypedLlamaStage<T>::note_size(MicrobatchContext& context) const {
  const TensorList* list = is_first_ ? context.inputs : &context.input;
  if (list == nullptr || list->empty()) throw Error("a Llama stage got no input");
  const Shape& shape = (*list)[0].shape();
  const std::size_t dims = is_first_ ? 2 : 3;
  if (shape.rank() != dims || shape[0] == 0 || shape[1] == 0 || shape[0] > largest_.batch ||
      shape[1] > largest_.sequence || (!is_first_ && shape[2] != config_.hidden_size))
    throw Error("a Llama stage takes up to " +
                (is_first_ ? Shape{largest_.batch, largest_.sequence} : border(largest_)).str() +
                " a micro-batch, not " + shape.str());
  if (!is_first_ && (*list)[0].dtype() != config_.dtype)
    throw Error("a Llama stage takes " + std::string(dtype_name(config_.dtype)) + ", not " +
                std::string(dtype_name((*list)[0].dtype())));
  context.note = {shape[0], shape[1]};
  return noted_size(context);
}

template <class T>
std::span<const std::int32_t> TypedLlamaStage<T>::tokens_of(const TensorList* list, Size size,
                                                            const char* what) const {
  const Shape expected{size.batch, size.sequence};
  if (list == nullptr || list->empty() || (*list)[0].shape() != expected ||
      (*list)[0].dtype() != DType::int32)
    throw Error("a Llama takes the " + std::string(what) + "s of a micro-batch as int32 " + expected.str());
  const auto* tokens = (*list)[0].template as<std::int32_t>();
  const std::span<const std::int32_t> rows(tokens, size.rows());
  check_tokens(rows, config_.vocab_size, what);
  return rows;
}

template <class T>
T* TypedLlamaStage<T>::border_tensor(MicrobatchContext& context, Size size, StageOutput& output) const {
  output.tensors.push_back(context.allocate(0, config_.dtype, border(size)));
  return output.tensors[0].template as<T>();
}

template <class T>
typename DecoderLayer<T>::Kept TypedLlamaStage<T>::kept_of(std::size_t layer, std::span<std::byte> workspace,
                                                           Size size) const {
  if (!config_.recompute_layer) return kept_.layers[layer];
  Carver carve(workspace.data());
  return layers_[layer].lay_out_kept(carve, size.batch, size.sequence);
}

template <class T>
Task<StageOutput> TypedLlamaStage<T>::forward(MicrobatchContext& context) {
  const Ops<T>& ops = *ops_;
  const PollWhile poll(ops, poll_of(context));
  const Size size = note_size(context);
  Carver carve(context.activation.data());
  lay_out_kept(carve, size);
  if (is_first_) {
    const std::span<const std::int32_t> tokens = tokens_of(context.inputs, size, "token");
    context.queue->upload(bytes_of(kept_.tokens), std::as_bytes(tokens));
    ops.embedding_forward(kept_.tokens, embedding_.value, kept_.inputs[0], size.rows(), config_.hidden_size);
  }

  StageOutput output;
  T* leaves = is_last_ ? kept_.head_input : border_tensor(context, size, output);
  const auto workspace = op_workspace_of(context);
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const T* input = i == 0 && !is_first_ ? context.input[0].template as<T>() : kept_.inputs[i];
    const auto kept = kept_of(i, context.workspace, size);
    layers_[i].compute_kept(ops, size.batch, size.sequence, rope(), input, kept, workspace);
    layers_[i].compute_output(ops, size.rows(), kept, i + 1 < layers_.size() ? kept_.inputs[i + 1] : leaves,
                              workspace);
  }
  if (is_last_) {
    const std::span<const std::int32_t> targets = tokens_of(context.targets, size, "target");
    std::byte* uploaded = context.workspace.data() + recomputed_bytes();
    context.queue->upload(uploaded, std::as_bytes(targets));
    head_->forward(ops, size.rows(), leaves, reinterpret_cast<const std::int32_t*>(uploaded),
                   1.0 / context.microbatches, kept_.head, context.loss, workspace, observer_);
  }
  co_return output;
}

template <class T>
Task<StageOutput> TypedLlamaStage<T>::backward_input(MicrobatchContext& context, TensorList output_gradient) {
  const Ops<T>& ops = *ops_;
  const PollWhile poll(ops, poll_of(context));
  const Size size = noted_size(context);
  Carver carve_kept(context.activation.data());
  Carver carve_work(context.weight.data());
  lay_out_kept(carve_kept, size);
  lay_out_work(carve_work, size);
  const auto workspace = op_workspace_of(context);
  if (is_first_)
    context.queue->copy(bytes_of(work_.tokens), bytes_of(kept_.tokens), size.rows() * sizeof(std::int32_t));
  if (is_last_) {
    head_->backward_input(ops, size.rows(), kept_.head_input, kept_.head, work_.head,
                          work_.output_gradients.back(), workspace);
  } else {
    if (output_gradient.size() != 1 || output_gradient[0].shape() != border(size) ||
        output_gradient[0].dtype() != config_.dtype)
      throw Error("a Llama stage got a gradient that has not the shape of its output");
    ops.copy(output_gradient[0].template as<T>(), work_.output_gradients.back(), size.rows(),
             config_.hidden_size);
    output_gradient.clear();
  }

  StageOutput output;
  T* leaves = is_first_ ? work_.embedded_gradient : border_tensor(context, size, output);
  for (std::size_t i = layers_.size(); i-- > 0;) {
    const T* input = i == 0 && !is_first_ ? context.input[0].template as<T>() : kept_.inputs[i];
    const auto kept = kept_of(i, context.workspace, size);
    if (config_.recompute_layer)
      layers_[i].compute_kept(ops, size.batch, size.sequence, rope(), input, kept, workspace);
    layers_[i].backward_input(ops, size.batch, size.sequence, rope(), input, kept, work_.output_gradients[i],
                              work_.layers[i], i > 0 ? work_.output_gradients[i - 1] : leaves, workspace);
  }
  co_return output;
}

template <class T>
Task<void> TypedLlamaStage<T>::backward_weight(MicrobatchContext& context) {
  const Ops<T>& ops = *ops_;
  const PollWhile poll(ops, poll_of(context));
  const Size size = noted_size(context);
  Carver carve(context.weight.data());
  lay_out_work(carve, size);
  if (is_last_) head_->backward_weight(ops, size.rows(), work_.head, context.workspace);
  for (std::size_t i = layers_.size(); i-- > 0;)
    layers_[i].backward_weight(ops, size.rows(), work_.output_gradients[i], work_.layers[i],
                               context.workspace);
  if (is_first_)
    ops.embedding_backward(work_.tokens, work_.embedded_gradient, embedding_.gradient, size.rows(),
                           config_.hidden_size);
  co_return;
}

template class TypedLlamaStage<float>;
template class TypedLlamaStage<BFloat16>;

}  // namespace weft
