#pragma once
// The loss of language models: minus the logarithm of the softmax at the target.
#include <cstddef>
#include <cstdint>

#include "weft/model/ops/cpu/thread_team.h"

namespace weft::cpu {

/// logits[rows, vocabulary], targets[rows] (checked) -> losses[rows] and the gradient
/// (softmax - one hot) * scale as gradient[rows, vocabulary]. Overwrites the logits; with T = float
/// `gradient` may be the logits. Returns the sum of the losses, rows in turn.
template <class T>
double cross_entropy(ThreadTeam& team, float* logits, const std::int32_t* targets, float scale, T* gradient,
                     double* losses, std::size_t rows, std::size_t vocabulary);

}  // namespace weft::cpu
