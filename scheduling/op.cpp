#include "weft/scheduling/op.h"

namespace weft {

std::string to_string(const Op& op) {
  static constexpr char letters[] = {'F', 'B', 'I', 'W'};
  std::string text = std::to_string(op.stage);
  text += letters[static_cast<std::size_t>(op.kind)];
  text += std::to_string(op.microbatch);
  return text;
}

}  // namespace weft
