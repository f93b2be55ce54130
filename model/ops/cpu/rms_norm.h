#pragma once
// Root-mean-square normalisation (Zhang and Sennrich 2019): y = x / sqrt(mean(x^2) + epsilon) * gain.
#include <cstddef>
#include <cstdint>

#include "weft/model/ops/cpu/thread_team.h"

namespace weft::cpu {

/// x[rows, n], gain[n] -> y[rows, n], inverse_rms[rows]. T is float or BFloat16, the arithmetic float.
template <class T>
void rms_norm_forward(ThreadTeam& team, const T* x, const T* gain, T* y, float* inverse_rms, std::size_t rows,
                      std::size_t n, float epsilon);

/// a[rows, n] + b[rows, n] -> sum[rows, n], then as rms_norm_forward of the (stored) sum.
template <class T>
void add_rms_norm_forward(ThreadTeam& team, const T* a, const T* b, const T* gain, T* sum, T* y,
                          float* inverse_rms, std::size_t rows, std::size_t n, float epsilon);

/// Number of floats of workspace that rms_norm_backward needs.
[[nodiscard]] std::size_t rms_norm_backward_workspace(std::size_t rows, std::size_t n);

/// dy[rows, n], and `residual`[rows, n] unless null -> dx[rows, n] = residual + the norm's gradient,
/// y[rows, n] (the forward's result once more), gain_gradient[n] (set, not added to). dx may be dy or
/// residual.
template <class T>
void rms_norm_backward(ThreadTeam& team, const T* x, const float* inverse_rms, const T* gain, const T* dy,
                       const T* residual, T* dx, T* y, float* gain_gradient, std::size_t rows, std::size_t n,
                       float* workspace);

}  // namespace weft::cpu
