#pragma once
// One decoder layer of a Llama: attention and feed-forward part, each after a norm and with a residual.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "weft/model/layers/linear.h"
#include "weft/model/layers/rope_table.h"
#include "weft/model/llama_config.h"
#include "weft/model/ops/ops.h"

namespace weft {

/// A decoder layer owns no memory: parameters lie in the stage's state, everything else in the slots and
/// workspace of an op. All matrices are [rows, columns], rows = batch * sequence.
template <class T>
class DecoderLayer {
 public:
  /// What forward leaves for backward_input, beside the layer's input.
  struct Kept {
    float* inverse_rms_of_input;   // [rows]
    T* qkv;                        // [rows, (heads + 2 kv_heads) head_dim], rotated
    T* attended;                   // [rows, heads head_dim]
    float* statistics;             // of the attention, [batch, heads, 2, sequence]
    T* middle;                     // [rows, hidden]: after the attention's residual
    float* inverse_rms_of_middle;  // [rows]
    T* gate_up;                    // [rows, 2 intermediate]
  };
  /// What backward_input leaves for backward_weight, beside the gradient of the layer's output.
  struct Work {
    T* normed_input;       // [rows, hidden]
    T* qkv_gradient;       // [rows, (heads + 2 kv_heads) head_dim]
    T* attended;           // [rows, heads head_dim]
    T* middle_gradient;    // [rows, hidden]
    T* normed_middle;      // [rows, hidden]
    T* gate_up_gradient;   // [rows, 2 intermediate]
    T* activated;          // [rows, intermediate]
    float* input_gain;     // [hidden]: this micro-batch's gradient
    float* middle_gain;    // [hidden]
    float* qkv_bias;       // [columns of qkv], where there are biases
    float* attended_bias;  // [hidden]
  };

  DecoderLayer(const LlamaConfig& config, std::uint32_t number);

  void lay_out_state(StateCarver& carve, const OpSizes<T>& sizes);
  void append_parameters(std::vector<Parameter>& list) const;
  void pack(const Ops<T>& ops) const;

  [[nodiscard]] Kept lay_out_kept(Carver& carve, std::size_t batch, std::size_t sequence) const;
  [[nodiscard]] Work lay_out_work(Carver& carve, std::size_t batch, std::size_t sequence) const;
  /// Bytes of workspace of any of the functions below, for this size or smaller ones.
  [[nodiscard]] std::size_t workspace(const OpSizes<T>& sizes, std::size_t batch, std::size_t sequence) const;

  /// All of the forward but the last product and sum: what `kept` holds. Also how a layer is recomputed.
  void compute_kept(const Ops<T>& ops, std::size_t batch, std::size_t sequence, const RopeTable& rope,
                    const T* input, const Kept& kept, std::span<std::byte> workspace) const;
  /// The layer's output, from `kept`.
  void compute_output(const Ops<T>& ops, std::size_t rows, const Kept& kept, T* output,
                      std::span<std::byte> workspace) const;
  void backward_input(const Ops<T>& ops, std::size_t batch, std::size_t sequence, const RopeTable& rope,
                      const T* input, const Kept& kept, const T* output_gradient, const Work& work,
                      T* input_gradient, std::span<std::byte> workspace) const;
  /// Adds to the gradients.
  void backward_weight(const Ops<T>& ops, std::size_t rows, const T* output_gradient, const Work& work,
                       std::span<std::byte> workspace) const;

 private:
  struct ForwardScratch;
  struct BackwardScratch;
  [[nodiscard]] AttentionShape shape(std::size_t batch, std::size_t sequence) const;
  ForwardScratch lay_out_forward(Carver& carve, const OpSizes<T>& sizes, const AttentionShape& shape) const;
  BackwardScratch lay_out_backward(Carver& carve, const OpSizes<T>& sizes, const AttentionShape& shape) const;

  std::size_t hidden_;
  std::size_t intermediate_;
  std::size_t heads_;
  std::size_t kv_heads_;
  std::size_t head_dim_;
  float epsilon_;
  std::string prefix_;  // of the parameters' names
  Trained<T> input_gain_;
  Trained<T> middle_gain_;
  Linear<T> qkv_;
  Linear<T> attention_output_;
  Linear<T> gate_up_;
  Linear<T> down_;
};

}  // namespace weft
