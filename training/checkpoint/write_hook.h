#pragma once
// A hook at every step of writing a checkpoint, so that tests can stop a process exactly there.
#include <functional>
#include <string_view>

namespace weft {

/// Called with the name of the point that has just been reached; empty in normal runs. What it throws counts
/// as a failure of that step.
using CheckpointProbe = std::function<void(std::string_view point)>;

}  // namespace weft
