#include "weft/model/llama/tokens.h"

#include <string>

#include "weft/base/error.h"

namespace weft {

void check_tokens(std::span<const std::int32_t> tokens, std::size_t vocabulary, const char* what) {
  for (std::size_t i = 0; i < tokens.size(); ++i)
    if (tokens[i] < 0 || static_cast<std::size_t>(tokens[i]) >= vocabulary)
      throw Error(std::string(what) + " " + std::to_string(tokens[i]) + " at position " + std::to_string(i) +
                  " of the micro-batch is outside the vocabulary of " + std::to_string(vocabulary));
}

}  // namespace weft
