#include "weft/training/checkpoint/state_names.h"

#include <algorithm>

#include "weft/base/error.h"

namespace weft {

const Parameter& owner_of(const OptimizerState& state, std::span<Parameter* const> parameters) {
  const std::string_view name = std::string_view(state.name).substr(0, state.name.rfind('.'));
  const auto owner =
      std::find_if(parameters.begin(), parameters.end(), [&](const Parameter* p) { return p->name == name; });
  if (owner == parameters.end())
    throw CheckpointError("the optimizer state " + state.name + " belongs to no parameter of its rank");
  return **owner;
}

std::string stored_name(const OptimizerState& state, const Parameter& owner) {
  return owner.stored_name() + state.name.substr(owner.name.size());
}

}  // namespace weft
