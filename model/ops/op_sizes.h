#pragma once
// Memory that ops need: known before there is a device.
#include <cstddef>
#include <memory>

#include "weft/model/ops/attention_shape.h"
#include "weft/tensor/device.h"

namespace weft {

/// How a rank computes.
struct ComputeSettings {
  DeviceKind device = DeviceKind::cpu;
  int threads = 1;  ///< of the CPU
};

/// Sizes of the workspaces and packed weights of Ops<T>. A smaller shape never needs more.
template <class T>
class OpSizes {
 public:
  virtual ~OpSizes() = default;
  /// Bytes of the packed form of a weight [out, in].
  [[nodiscard]] virtual std::size_t packed_bytes(std::size_t out, std::size_t in) const = 0;
  /// Bytes of workspace of linear_backward_weight.
  [[nodiscard]] virtual std::size_t backward_weight_workspace(std::size_t rows, std::size_t out,
                                                              std::size_t in) const = 0;
  /// Bytes of workspace of attention_forward and attention_backward.
  [[nodiscard]] virtual std::size_t attention_workspace(const AttentionShape& shape) const = 0;
  /// Floats of workspace of rms_norm_backward and column_sum.
  [[nodiscard]] virtual std::size_t row_sum_workspace(std::size_t rows, std::size_t n) const = 0;
};

/// For T = float and BFloat16. Throws DeviceError when this build lacks the device.
template <class T>
[[nodiscard]] std::unique_ptr<OpSizes<T>> make_op_sizes(const ComputeSettings& settings);

}  // namespace weft
