#include "weft/model/layers/rope_table.h"

#include <cmath>

namespace weft {

void fill_rope_table(std::span<const float> frequencies, std::size_t positions, float* cosine, float* sine) {
  const std::size_t half = frequencies.size();
  for (std::size_t position = 0; position < positions; ++position)
    for (std::size_t i = 0; i < half; ++i) {
      const float angle = static_cast<float>(position) * frequencies[i];
      cosine[position * half + i] = static_cast<float>(std::cos(static_cast<double>(angle)));
      sine[position * half + i] = static_cast<float>(std::sin(static_cast<double>(angle)));
    }
}

}  // namespace weft
