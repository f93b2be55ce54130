#include "weft/model/layers/linear.h"

namespace weft {

template <class T>
void Linear<T>::lay_out(StateCarver& carve, const OpSizes<T>& sizes) {
  weight_.lay_out(carve, out_ * in_);
  if (has_bias()) bias_.lay_out(carve, out_);
  packed_ = {.value = weight_.value,
             .packed = carve.rest.take<std::byte>(sizes.packed_bytes(out_, in_)),
             .out = out_,
             .in = in_};
}

template <class T>
void Linear<T>::forward(const Ops<T>& ops, const T* x, T* y, std::size_t rows) const {
  ops.linear_forward(x, packed_, y, rows);
  if (has_bias()) ops.add_bias(y, bias_.value, rows, out_);
}

template <class T>
void Linear<T>::forward_float(const Ops<T>& ops, const T* x, float* y, std::size_t rows) const {
  ops.linear_forward_float(x, packed_, y, rows);
}

template <class T>
void Linear<T>::backward_input(const Ops<T>& ops, const T* dy, T* dx, std::size_t rows) const {
  ops.linear_backward_input(dy, packed_, dx, rows);
}

template <class T>
void Linear<T>::backward_weight(const Ops<T>& ops, const T* dy, const T* x, std::size_t rows,
                                std::span<std::byte> workspace) const {
  ops.linear_backward_weight(dy, x, weight_.gradient, rows, out_, in_, workspace);
}

template class Linear<float>;
template class Linear<BFloat16>;

}  // namespace weft
