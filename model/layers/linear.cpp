#include "weft/model/layers/linear.h"

#include <type_traits>

#include "weft/model/ops/cpu/elementwise.h"

namespace weft {

template <class T>
void Linear<T>::lay_out(Carver& carve) {
  weight_.lay_out(carve, out_ * in_);
  if (has_bias()) bias_.lay_out(carve, out_);
  const std::size_t bytes = cpu::PackedWeight<T>::bytes(out_, in_);
  std::byte* memory = carve.take<std::byte>(bytes);
  if (memory != nullptr) packed_ = cpu::PackedWeight<T>(out_, in_, {memory, bytes});
}

template <class T>
void Linear<T>::pack(cpu::ThreadTeam& team) {
  packed_.pack(team, cpu::Matrix<const T>(weight_.value, out_, in_));
}

template <class T>
void Linear<T>::forward(cpu::ThreadTeam& team, const T* x, T* y, std::size_t rows) const {
  cpu::linear_forward(team, cpu::Matrix<const T>(x, rows, in_), packed_, cpu::Matrix<T>(y, rows, out_));
  if (has_bias()) cpu::add_bias(team, y, static_cast<const T*>(bias_.value), rows, out_);
}

template <class T>
void Linear<T>::forward_float(cpu::ThreadTeam& team, const T* x, float* y, std::size_t rows) const {
  cpu::linear_forward(team, cpu::Matrix<const T>(x, rows, in_), packed_, cpu::Matrix<float>(y, rows, out_));
}

template <class T>
void Linear<T>::backward_input(cpu::ThreadTeam& team, const T* dy, T* dx, std::size_t rows) const {
  const cpu::InputGradientTerm<T> term{cpu::Matrix<const T>(dy, rows, out_), &packed_};
  cpu::linear_backward_input(team, std::span(&term, 1), cpu::Matrix<T>(dx, rows, in_));
}

template <class T>
void Linear<T>::backward_weight(cpu::ThreadTeam& team, const T* dy, const T* x, std::size_t rows,
                                std::span<std::byte> workspace) const {
  cpu::linear_backward_weight(team, cpu::Matrix<const T>(dy, rows, out_), cpu::Matrix<const T>(x, rows, in_),
                              cpu::Matrix<float>(weight_.gradient, out_, in_), workspace);
}

template class Linear<float>;
template class Linear<BFloat16>;

}  // namespace weft
