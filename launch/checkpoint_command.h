#pragma once
// `weft checkpoint` and `weft convert`: looking at checkpoints, and weights between weft and Hugging Face.
#include <string>
#include <vector>

namespace weft {

struct CheckpointArguments {
  std::string action;              ///< list, verify, hash or diff
  std::vector<std::string> paths;  ///< a checkpoint, a folder of them or a run's; two for diff
};

/// Prints the report to stdout, and what was passed over to stderr. Returns the exit status: diff of
/// checkpoints that differ is 1, and so is a list with damaged ones. Throws UsageError, CheckpointError.
[[nodiscard]] int examine_checkpoint(const CheckpointArguments& arguments);

struct ConvertArguments {
  std::string direction;  ///< hf-to-weft or weft-to-hf
  std::string source;
  std::string target;
};

/// Prints what was made. Throws CheckpointError.
void convert_weights(const ConvertArguments& arguments);

}  // namespace weft
