#include "weft/model/layers/decoder_layer.h"

#include <algorithm>

namespace weft {
namespace {

std::size_t qkv_columns(const LlamaConfig& config) {
  return config.query_columns() + 2 * config.key_columns();
}
std::size_t attended_columns(const LlamaConfig& config) { return config.query_columns(); }

Shape matrix_shape(std::size_t rows, std::size_t columns) {
  return {static_cast<std::uint32_t>(rows), static_cast<std::uint32_t>(columns)};
}
Shape vector_shape(std::size_t n) { return {static_cast<std::uint32_t>(n)}; }

}  // namespace

template <class T>
struct DecoderLayer<T>::ForwardScratch {
  T* normed;     // [rows, hidden]
  T* attention;  // [rows, hidden]: what the residual adds
  std::span<std::byte> attention_workspace;
};

template <class T>
struct DecoderLayer<T>::BackwardScratch {
  T* normed_gradient;    // [rows, hidden]
  T* attended_gradient;  // [rows, heads head_dim]
  float* sums;
  std::span<std::byte> attention_workspace;
};

template <class T>
DecoderLayer<T>::DecoderLayer(const LlamaConfig& config, std::uint32_t number)
    : hidden_(config.hidden_size),
      intermediate_(config.intermediate_size),
      heads_(config.num_attention_heads),
      kv_heads_(config.key_value_heads()),
      head_dim_(config.head_size()),
      epsilon_(static_cast<float>(config.rms_norm_eps)),
      prefix_("model.layers." + std::to_string(number) + "."),
      qkv_(qkv_columns(config), config.hidden_size, config.attention_bias ? qkv_columns(config) : 0),
      attention_output_(config.hidden_size, attended_columns(config),
                        config.attention_bias ? config.hidden_size : 0),
      gate_up_(2 * std::size_t{config.intermediate_size}, config.hidden_size, 0),
      down_(config.hidden_size, config.intermediate_size, 0) {}

template <class T>
void DecoderLayer<T>::lay_out_state(StateCarver& carve, const OpSizes<T>& sizes) {
  for (Linear<T>* linear : {&qkv_, &attention_output_, &gate_up_, &down_}) linear->lay_out(carve, sizes);
  input_gain_.lay_out(carve, hidden_);
  middle_gain_.lay_out(carve, hidden_);
}

template <class T>
void DecoderLayer<T>::append_parameters(std::vector<Parameter>& list) const {
  const std::size_t queries = heads_ * head_dim_;
  const std::size_t keys = kv_heads_ * head_dim_;
  const auto append = [&](const char* name, const Linear<T>& linear, std::size_t first, std::size_t out) {
    list.push_back(linear.weight().parameter(prefix_ + name + ".weight", matrix_shape(out, linear.in()),
                                             first * linear.in()));
    if (linear.has_bias())
      list.push_back(linear.bias().parameter(prefix_ + name + ".bias", vector_shape(out), first));
  };
  append("self_attn.q_proj", qkv_, 0, queries);
  append("self_attn.k_proj", qkv_, queries, keys);
  append("self_attn.v_proj", qkv_, queries + keys, keys);
  append("self_attn.o_proj", attention_output_, 0, hidden_);
  append("mlp.gate_proj", gate_up_, 0, intermediate_);
  append("mlp.up_proj", gate_up_, intermediate_, intermediate_);
  append("mlp.down_proj", down_, 0, hidden_);
  list.push_back(input_gain_.parameter(prefix_ + "input_layernorm.weight", vector_shape(hidden_)));
  list.push_back(middle_gain_.parameter(prefix_ + "post_attention_layernorm.weight", vector_shape(hidden_)));
}

template <class T>
void DecoderLayer<T>::pack(const Ops<T>& ops) const {
  for (const Linear<T>* linear : {&qkv_, &attention_output_, &gate_up_, &down_}) linear->pack(ops);
}

template <class T>
AttentionShape DecoderLayer<T>::shape(std::size_t batch, std::size_t sequence) const {
  return {
      .batch = batch, .sequence = sequence, .heads = heads_, .kv_heads = kv_heads_, .head_dim = head_dim_};
}

template <class T>
typename DecoderLayer<T>::Kept DecoderLayer<T>::lay_out_kept(Carver& carve, std::size_t batch,
                                                             std::size_t sequence) const {
  const std::size_t rows = batch * sequence;
  Kept kept{};
  kept.inverse_rms_of_input = carve.take<float>(rows);
  kept.qkv = carve.take<T>(rows * qkv_.out());
  kept.attended = carve.take<T>(rows * attention_output_.in());
  kept.statistics = carve.take<float>(shape(batch, sequence).statistics());
  kept.middle = carve.take<T>(rows * hidden_);
  kept.inverse_rms_of_middle = carve.take<float>(rows);
  kept.gate_up = carve.take<T>(rows * gate_up_.out());
  return kept;
}

template <class T>
typename DecoderLayer<T>::Work DecoderLayer<T>::lay_out_work(Carver& carve, std::size_t batch,
                                                             std::size_t sequence) const {
  const std::size_t rows = batch * sequence;
  Work work{};
  work.normed_input = carve.take<T>(rows * hidden_);
  work.qkv_gradient = carve.take<T>(rows * qkv_.out());
  work.attended = carve.take<T>(rows * attention_output_.in());
  work.middle_gradient = carve.take<T>(rows * hidden_);
  work.normed_middle = carve.take<T>(rows * hidden_);
  work.gate_up_gradient = carve.take<T>(rows * gate_up_.out());
  work.activated = carve.take<T>(rows * intermediate_);
  work.input_gain = carve.take<float>(hidden_);
  work.middle_gain = carve.take<float>(hidden_);
  work.qkv_bias = carve.take<float>(qkv_.bias_count());
  work.attended_bias = carve.take<float>(attention_output_.bias_count());
  return work;
}

template <class T>
typename DecoderLayer<T>::ForwardScratch DecoderLayer<T>::lay_out_forward(Carver& carve,
                                                                          const OpSizes<T>& sizes,
                                                                          const AttentionShape& shape) const {
  ForwardScratch scratch{};
  scratch.normed = carve.take<T>(shape.rows() * hidden_);
  scratch.attention = carve.take<T>(shape.rows() * hidden_);
  const std::size_t bytes = sizes.attention_workspace(shape);
  scratch.attention_workspace = {carve.take<std::byte>(bytes), bytes};
  return scratch;
}

template <class T>
typename DecoderLayer<T>::BackwardScratch DecoderLayer<T>::lay_out_backward(
    Carver& carve, const OpSizes<T>& sizes, const AttentionShape& shape) const {
  BackwardScratch scratch{};
  scratch.normed_gradient = carve.take<T>(shape.rows() * hidden_);
  scratch.attended_gradient = carve.take<T>(shape.rows() * shape.out_columns());
  scratch.sums = carve.take<float>(sizes.row_sum_workspace(
      shape.rows(), std::max({hidden_, qkv_.bias_count(), attention_output_.bias_count()})));
  const std::size_t bytes = sizes.attention_workspace(shape);
  scratch.attention_workspace = {carve.take<std::byte>(bytes), bytes};
  return scratch;
}

template <class T>
std::size_t DecoderLayer<T>::workspace(const OpSizes<T>& sizes, std::size_t batch,
                                       std::size_t sequence) const {
  const AttentionShape largest = shape(batch, sequence);
  Carver forward;
  Carver backward;
  (void)lay_out_forward(forward, sizes, largest);
  (void)lay_out_backward(backward, sizes, largest);
  Carver output;
  (void)output.take<T>(largest.rows() * intermediate_);
  std::size_t bytes = std::max({forward.used(), backward.used(), output.used()});
  for (const Linear<T>* linear : {&qkv_, &attention_output_, &gate_up_, &down_})
    bytes = std::max(bytes, linear->backward_weight_workspace(sizes, largest.rows()));
  return bytes;
}

template <class T>
void DecoderLayer<T>::compute_kept(const Ops<T>& ops, std::size_t batch, std::size_t sequence,
                                   const RopeTable& rope, const T* input, const Kept& kept,
                                   std::span<std::byte> workspace) const {
  const AttentionShape attention = shape(batch, sequence);
  const std::size_t rows = attention.rows();
  Carver carve(workspace.data());
  const ForwardScratch scratch = lay_out_forward(carve, ops.sizes(), attention);

  ops.rms_norm_forward(input, input_gain_.value, scratch.normed, kept.inverse_rms_of_input, rows, hidden_,
                       epsilon_);
  qkv_.forward(ops, scratch.normed, kept.qkv, rows);
  ops.rope_forward(kept.qkv, rope.cosine, rope.sine, rows, sequence, heads_ + kv_heads_, head_dim_,
                   qkv_.out());
  ops.attention_forward(attention, kept.qkv, kept.attended, kept.statistics, scratch.attention_workspace);
  attention_output_.forward(ops, kept.attended, scratch.attention, rows);
  ops.add_rms_norm_forward(input, scratch.attention, middle_gain_.value, kept.middle, scratch.normed,
                           kept.inverse_rms_of_middle, rows, hidden_, epsilon_);
  gate_up_.forward(ops, scratch.normed, kept.gate_up, rows);
}

template <class T>
void DecoderLayer<T>::compute_output(const Ops<T>& ops, std::size_t rows, const Kept& kept, T* output,
                                     std::span<std::byte> workspace) const {
  Carver carve(workspace.data());
  T* activated = carve.take<T>(rows * intermediate_);
  ops.swiglu_forward(kept.gate_up, activated, rows, intermediate_);
  down_.forward(ops, activated, output, rows);
  ops.add(kept.middle, output, output, rows, hidden_);
}

template <class T>
void DecoderLayer<T>::backward_input(const Ops<T>& ops, std::size_t batch, std::size_t sequence,
                                     const RopeTable& rope, const T* input, const Kept& kept,
                                     const T* output_gradient, const Work& work, T* input_gradient,
                                     std::span<std::byte> workspace) const {
  const AttentionShape attention = shape(batch, sequence);
  const std::size_t rows = attention.rows();
  Carver carve(workspace.data());
  const BackwardScratch scratch = lay_out_backward(carve, ops.sizes(), attention);

  down_.backward_input(ops, output_gradient, work.activated, rows);  // the gradient, for one line
  ops.swiglu_backward(kept.gate_up, work.activated, work.gate_up_gradient, work.activated, rows,
                      intermediate_);
  gate_up_.backward_input(ops, work.gate_up_gradient, scratch.normed_gradient, rows);
  ops.rms_norm_backward(kept.middle, kept.inverse_rms_of_middle, middle_gain_.value, scratch.normed_gradient,
                        output_gradient, work.middle_gradient, work.normed_middle, work.middle_gain, rows,
                        hidden_, scratch.sums);

  attention_output_.backward_input(ops, work.middle_gradient, scratch.attended_gradient, rows);
  ops.attention_backward(attention, kept.qkv, kept.statistics, scratch.attended_gradient, rope.cosine,
                         rope.sine, work.qkv_gradient, scratch.attention_workspace);
  ops.copy(kept.attended, work.attended, rows, attention_output_.in());
  if (qkv_.has_bias()) {
    ops.column_sum(work.qkv_gradient, work.qkv_bias, rows, qkv_.out(), scratch.sums);
    ops.column_sum(work.middle_gradient, work.attended_bias, rows, hidden_, scratch.sums);
  }
  qkv_.backward_input(ops, work.qkv_gradient, scratch.normed_gradient, rows);
  ops.rms_norm_backward(input, kept.inverse_rms_of_input, input_gain_.value, scratch.normed_gradient,
                        work.middle_gradient, input_gradient, work.normed_input, work.input_gain, rows,
                        hidden_, scratch.sums);
}

template <class T>
void DecoderLayer<T>::backward_weight(const Ops<T>& ops, std::size_t rows, const T* output_gradient,
                                      const Work& work, std::span<std::byte> workspace) const {
  down_.backward_weight(ops, output_gradient, work.activated, rows, workspace);
  gate_up_.backward_weight(ops, work.gate_up_gradient, work.normed_middle, rows, workspace);
  attention_output_.backward_weight(ops, work.middle_gradient, work.attended, rows, workspace);
  qkv_.backward_weight(ops, work.qkv_gradient, work.normed_input, rows, workspace);
  ops.accumulate(work.middle_gain, middle_gain_.gradient, hidden_);
  ops.accumulate(work.input_gain, input_gain_.gradient, hidden_);
  if (qkv_.has_bias()) {
    ops.accumulate(work.qkv_bias, qkv_.bias().gradient, qkv_.out());
    ops.accumulate(work.attended_bias, attention_output_.bias().gradient, hidden_);
  }
}

template class DecoderLayer<float>;
template class DecoderLayer<BFloat16>;

}  // namespace weft
