#pragma once
// The angles of the rotary position embedding (Su et al. 2021).
#include <cstddef>
#include <span>

namespace weft {

/// Cosines and sines for all positions, [sequence, head_dim / 2] each; shared by the layers of a stage.
struct RopeTable {
  const float* cosine = nullptr;
  const float* sine = nullptr;
};

/// Cosines and sines of frequency[i] * position, float, as cosine[positions, half] and sine[positions, half]
/// on the host. The angle is rounded to float, as in models trained with Hugging Face's or Nanotron's code.
void fill_rope_table(std::span<const float> frequencies, std::size_t positions, float* cosine, float* sine);

}  // namespace weft
