#pragma once
// What one update of the optimizers needs beside the tensors.

namespace weft {

struct AdamWFactors {
  float gradient_scale = 1;  ///< clipping
  float keep = 1;            ///< 1 - learning rate * weight decay
  float beta1_rest = 0;      ///< 1 - beta1
  float beta2 = 0;
  float beta2_rest = 0;                ///< 1 - beta2
  float step_size = 0;                 ///< learning rate / (1 - beta1^t)
  float second_moment_correction = 1;  ///< sqrt(1 - beta2^t)
  float epsilon = 0;
};

struct SgdFactors {
  float gradient_scale = 1;  ///< clipping
  float learning_rate = 0;
  float weight_decay = 0;
};

}  // namespace weft
