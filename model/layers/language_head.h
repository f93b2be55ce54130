#pragma once
// The end of a language model: final norm, projection to the vocabulary, cross-entropy loss.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "weft/model/layers/linear.h"
#include "weft/model/llama_config.h"
#include "weft/model/ops/ops.h"

namespace weft {

/// Like DecoderLayer it owns no memory. Matrices are [rows, columns].
template <class T>
class LanguageHead {
 public:
  /// What forward leaves for backward_input, beside its input.
  struct Kept {
    float* inverse_rms;  // [rows]
    T* logits_gradient;  // [rows, vocabulary]
  };
  /// What backward_input leaves for backward_weight.
  struct Work {
    T* normed;           // [rows, hidden]
    T* logits_gradient;  // [rows, vocabulary]
    float* gain;         // [hidden]
  };
  /// Sees logits[rows, vocabulary] before they are used up.
  using LogitsObserver = std::function<void(std::span<const float> logits)>;

  explicit LanguageHead(const LlamaConfig& config);

  void lay_out_state(StateCarver& carve, const OpSizes<T>& sizes);
  void append_parameters(std::vector<Parameter>& list) const;
  void pack(const Ops<T>& ops) const { projection_.pack(ops); }

  [[nodiscard]] Kept lay_out_kept(Carver& carve, std::size_t rows) const;
  [[nodiscard]] Work lay_out_work(Carver& carve, std::size_t rows) const;
  /// Bytes of workspace of any of the functions below.
  [[nodiscard]] std::size_t workspace(const OpSizes<T>& sizes, std::size_t rows) const;

  /// input[rows, hidden], targets[rows] (checked) -> the mean of the rows' losses at `loss`, on the host.
  /// Their gradient, times `gradient_scale`, is computed at once: the logits are needed only once.
  void forward(const Ops<T>& ops, std::size_t rows, const T* input, const std::int32_t* targets,
               double gradient_scale, const Kept& kept, double* loss, std::span<std::byte> workspace,
               const LogitsObserver& observer) const;
  void backward_input(const Ops<T>& ops, std::size_t rows, const T* input, const Kept& kept, const Work& work,
                      T* input_gradient, std::span<std::byte> workspace) const;
  /// Adds to the gradients.
  void backward_weight(const Ops<T>& ops, std::size_t rows, const Work& work,
                       std::span<std::byte> workspace) const;

 private:
  struct ForwardScratch;
  struct BackwardScratch;
  ForwardScratch lay_out_forward(Carver& carve, std::size_t rows) const;
  BackwardScratch lay_out_backward(Carver& carve, const OpSizes<T>& sizes, std::size_t rows) const;

  std::size_t hidden_;
  std::size_t vocabulary_;
  float epsilon_;
  bool tied_;
  Trained<T> gain_;
  Linear<T> projection_;
};

}  // namespace weft
