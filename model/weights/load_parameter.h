#pragma once
// From a stored tensor into a parameter.
#include <span>
#include <string>
#include <vector>

#include "weft/actors/stage.h"
#include "weft/model/weights/safetensors.h"

namespace weft {

/// Fills `value`, rounded to nearest even where its type is narrower than the stored one, and `master`, where
/// there is one, with the stored number itself. `file` is for messages. Throws CheckpointError when the
/// shapes differ or the tensor is neither F32, BF16 nor F16.
void load_parameter(const Parameter& parameter, const StoredTensor& stored, const std::string& file);

/// True for the types that weights come in: F32, BF16 and F16.
[[nodiscard]] bool holds_floats(const StoredTensor& stored) noexcept;

/// Element `i` of a tensor that holds_floats, exact.
[[nodiscard]] float stored_number(const StoredTensor& stored, std::size_t i);

/// Copies a stored tensor without any conversion to memory of the queue's device (null: the host's). Throws
/// CheckpointError when type or shape differ.
void load_exactly(DType dtype, const Shape& shape, Queue* queue, std::span<std::byte> to,
                  const StoredTensor& stored, const std::string& file);

/// Throws CheckpointError that lists, with `where` in front, the names of `wanted` that `present` lacks and
/// those that it has too many. The order does not matter.
void require_same_names(std::vector<std::string> wanted, std::vector<std::string> present,
                        const std::string& where);

/// Some names for a message: all of up to eight, then how many more there are.
[[nodiscard]] std::string name_list(std::span<const std::string> names);

}  // namespace weft
