#include "weft/model/layers/language_head.h"

#include <algorithm>
#include <type_traits>

namespace weft {

template <class T>
struct LanguageHead<T>::ForwardScratch {
  T* normed;       // [rows, hidden]
  double* losses;  // [rows]
  float* logits;   // [rows, vocabulary]; null for float, where they lie in the gradient's place
};

template <class T>
struct LanguageHead<T>::BackwardScratch {
  T* normed_gradient;  // [rows, hidden]
  float* sums;
};

template <class T>
LanguageHead<T>::LanguageHead(const LlamaConfig& config)
    : hidden_(config.hidden_size),
      vocabulary_(config.vocab_size),
      epsilon_(static_cast<float>(config.rms_norm_eps)),
      tied_(config.tie_word_embeddings),
      projection_(config.vocab_size, config.hidden_size, 0) {}

template <class T>
void LanguageHead<T>::lay_out_state(StateCarver& carve, const OpSizes<T>& sizes) {
  gain_.lay_out(carve, hidden_);
  projection_.lay_out(carve, sizes);
}

template <class T>
void LanguageHead<T>::append_parameters(std::vector<Parameter>& list) const {
  const auto hidden = static_cast<std::uint32_t>(hidden_);
  list.push_back(gain_.parameter("model.norm.weight", Shape{hidden}));
  list.push_back(projection_.weight().parameter("lm_head.weight",
                                                Shape{static_cast<std::uint32_t>(vocabulary_), hidden}));
  if (tied_) list.back().tied_to = "model.embed_tokens.weight";
}

template <class T>
typename LanguageHead<T>::Kept LanguageHead<T>::lay_out_kept(Carver& carve, std::size_t rows) const {
  Kept kept{};
  kept.inverse_rms = carve.take<float>(rows);
  kept.logits_gradient = carve.take<T>(rows * vocabulary_);
  return kept;
}

template <class T>
typename LanguageHead<T>::Work LanguageHead<T>::lay_out_work(Carver& carve, std::size_t rows) const {
  Work work{};
  work.normed = carve.take<T>(rows * hidden_);
  work.logits_gradient = carve.take<T>(rows * vocabulary_);
  work.gain = carve.take<float>(hidden_);
  return work;
}

template <class T>
typename LanguageHead<T>::ForwardScratch LanguageHead<T>::lay_out_forward(Carver& carve,
                                                                          std::size_t rows) const {
  ForwardScratch scratch{};
  scratch.normed = carve.take<T>(rows * hidden_);
  scratch.losses = carve.take<double>(rows);
  if constexpr (!std::is_same_v<T, float>) scratch.logits = carve.take<float>(rows * vocabulary_);
  return scratch;
}

template <class T>
typename LanguageHead<T>::BackwardScratch LanguageHead<T>::lay_out_backward(Carver& carve,
                                                                            const OpSizes<T>& sizes,
                                                                            std::size_t rows) const {
  BackwardScratch scratch{};
  scratch.normed_gradient = carve.take<T>(rows * hidden_);
  scratch.sums = carve.take<float>(sizes.row_sum_workspace(rows, hidden_));
  return scratch;
}

template <class T>
std::size_t LanguageHead<T>::workspace(const OpSizes<T>& sizes, std::size_t rows) const {
  Carver forward;
  Carver backward;
  (void)lay_out_forward(forward, rows);
  (void)lay_out_backward(backward, sizes, rows);
  return std::max({forward.used(), backward.used(), projection_.backward_weight_workspace(sizes, rows)});
}

template <class T>
void LanguageHead<T>::forward(const Ops<T>& ops, std::size_t rows, const T* input,
                              const std::int32_t* targets, double gradient_scale, const Kept& kept,
                              double* loss, std::span<std::byte> workspace,
                              const LogitsObserver& observer) const {
  Carver carve(workspace.data());
  ForwardScratch scratch = lay_out_forward(carve, rows);
  if constexpr (std::is_same_v<T, float>) scratch.logits = kept.logits_gradient;
  ops.rms_norm_forward(input, gain_.value, scratch.normed, kept.inverse_rms, rows, hidden_, epsilon_);
  projection_.forward_float(ops, scratch.normed, scratch.logits, rows);
  if (observer) observer({scratch.logits, rows * vocabulary_});
  const auto scale = static_cast<float>(gradient_scale / static_cast<double>(rows));
  ops.cross_entropy(scratch.logits, targets, scale, kept.logits_gradient, scratch.losses, loss, rows,
                    vocabulary_);
}

template <class T>
void LanguageHead<T>::backward_input(const Ops<T>& ops, std::size_t rows, const T* input, const Kept& kept,
                                     const Work& work, T* input_gradient,
                                     std::span<std::byte> workspace) const {
  Carver carve(workspace.data());
  const BackwardScratch scratch = lay_out_backward(carve, ops.sizes(), rows);
  projection_.backward_input(ops, kept.logits_gradient, scratch.normed_gradient, rows);
  ops.rms_norm_backward(input, kept.inverse_rms, gain_.value, scratch.normed_gradient, nullptr,
                        input_gradient, work.normed, work.gain, rows, hidden_, scratch.sums);
  ops.copy(kept.logits_gradient, work.logits_gradient, rows, vocabulary_);
}

template <class T>
void LanguageHead<T>::backward_weight(const Ops<T>& ops, std::size_t rows, const Work& work,
                                      std::span<std::byte> workspace) const {
  projection_.backward_weight(ops, work.logits_gradient, work.normed, rows, workspace);
  ops.accumulate(work.gain, gain_.gradient, hidden_);
}

template class LanguageHead<float>;
template class LanguageHead<BFloat16>;

}  // namespace weft
