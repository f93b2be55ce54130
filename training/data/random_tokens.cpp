#include "weft/training/data/random_tokens.h"

#include "weft/base/random.h"

namespace weft {

void RandomTokens::read(std::uint64_t n, std::span<std::int32_t> tokens) const {
  const CounterRandom random(seed_, RandomPurpose::random_tokens, n);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    tokens[i] = static_cast<std::int32_t>(random.below(vocab_size_, i));
  }
}

}  // namespace weft
