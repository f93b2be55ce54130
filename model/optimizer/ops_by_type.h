#pragma once
#include <memory>

#include "weft/actors/stage.h"
#include "weft/base/error.h"
#include "weft/model/ops/ops.h"
#include "weft/tensor/bfloat16.h"

namespace weft {

/// The ops of an optimizer, whose parameters may be float32 and bfloat16.
class OpsByType {
 public:
  OpsByType(Queue& queue, const ComputeSettings& settings)
      : float32_(make_ops<float>(queue, settings)), bfloat16_(make_ops<BFloat16>(queue, settings)) {}

  /// function(ops, value) with the ops of the parameter's type and its value as float* or BFloat16*. Throws
  /// Error for other types.
  template <class Function>
  void with(const Parameter& parameter, Function&& function) const {
    if (parameter.dtype == DType::float32)
      function(*float32_, reinterpret_cast<float*>(parameter.value));
    else if (parameter.dtype == DType::bfloat16)
      function(*bfloat16_, reinterpret_cast<BFloat16*>(parameter.value));
    else
      throw Error("parameter " + parameter.name + " is neither float32 nor bfloat16");
  }

 private:
  std::unique_ptr<Ops<float>> float32_;
  std::unique_ptr<Ops<BFloat16>> bfloat16_;
};

}  // namespace weft
