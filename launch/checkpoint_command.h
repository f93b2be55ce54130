#pragma once
// `weft checkpoint` and `weft convert`: looking at checkpoints, and weights between weft and Hugging Face.
#include <string>
#include <vector>

namespace weft {

struct CheckpointArguments {
  std::string action;              ///< list, verify, hash or diff
  std::vector<std::string> paths;  ///< a checkpoint or a folder of them; two for diff
};

/// Prints the report to stdout, and what was passed over to stderr. Returns the exit status: diff of
/// checkpoints that differ is 1. Throws UsageError, CheckpointError.
[[nodiscard]] int examine_checkpoint(const CheckpointArguments& arguments);

struct ConvertArguments {
  std::string direction;  ///< hf-to-weft or weft-to-hf
  std::string source;
  std::string target;
};

/// Prints what was made. Throws CheckpointError.
void convert_weights(const ConvertArguments& arguments);

}  // namespace weft
