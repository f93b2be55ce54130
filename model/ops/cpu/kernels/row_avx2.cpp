#include "weft/model/ops/cpu/kernels/row_functions.h"
#include "weft/model/ops/cpu/kernels/row_kernels.h"

namespace weft::cpu {

constexpr RowLevel row_level_avx2{row_kernels_of_level<float>, row_kernels_of_level<BFloat16>,
                                  softmax_kernels_of_level};

}  // namespace weft::cpu
