#pragma once
// `weights_sha256`: one number for all weights of a model, whatever files or ranks they are spread over.
//
// Every parameter gives one line of text,
//
//     NAME DTYPE [D0,D1,...] HEX
//
// where NAME is the parameter's name (Hugging Face's for the Llama), DTYPE the safetensors word for its type
// (F32, BF16), [D0,D1,...] its shape without spaces ([] for a scalar), and HEX the SHA-256 of its values as
// little-endian row-major bytes, in lower case. The lines are sorted as bytes, each is ended by one newline,
// and weights_sha256 is the SHA-256 of that text. A tied parameter counts once, under the name of its first
// use. So `weft checkpoint hash CHECKPOINT | head -n -1 | sha256sum` gives the same number again.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/actors/stage.h"
#include "weft/tensor/dtype.h"

namespace weft {

/// The line of one tensor, without newline. Throws Error when the bytes are not the shape's.
[[nodiscard]] std::string weights_hash_line(std::string_view name, DType dtype,
                                            std::span<const std::uint64_t> shape,
                                            std::span<const std::byte> bytes);

/// The lines of a rank's parameters, in their order; second uses of tied weights are left out.
[[nodiscard]] std::vector<std::string> weights_hash_lines(std::span<Parameter* const> parameters);

/// weights_sha256 from the lines of all ranks, in any order, as 64 hexadecimal digits. Throws Error when a
/// parameter has two lines.
[[nodiscard]] std::string weights_sha256(std::vector<std::string> lines);

}  // namespace weft
