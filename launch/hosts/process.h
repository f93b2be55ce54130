#pragma once
// Starting one program as the leader of its own process group.
#include <sys/types.h>

#include <string>
#include <vector>

#include "weft/base/files/descriptor.h"

namespace weft {

struct Program {
  std::string path;
  std::vector<std::string> arguments;    ///< the first is the program's name
  std::vector<std::string> environment;  ///< NAME=VALUE, the whole of it
  std::vector<int> inherited;            ///< descriptors that stay open besides 0, 1 and 2
  std::vector<int> ignored;              ///< signals it ignores from its first instruction on
};

/// A started program, with the reading ends of its output, none where it shares this process's.
struct Process {
  pid_t pid = -1;  ///< its process group as well
  Descriptor output;
  Descriptor errors;
};

enum class Output { piped, shared };

/// Starts `program` with no input. It is killed when this thread ends for whatever reason. Throws Error when
/// it cannot be started, a missing or non-executable file included.
[[nodiscard]] Process start_process(const Program& program, Output output);

/// The file that a shell would run for `name`: itself when it holds a slash, else the first match in PATH.
/// Throws Error when there is none.
[[nodiscard]] std::string find_program(const std::string& name);

}  // namespace weft
