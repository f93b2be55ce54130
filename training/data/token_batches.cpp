#include "weft/training/data/token_batches.h"

#include <algorithm>

namespace weft {

TokenBatches::TokenBatches(const NanotronConfig& config, const TrainingData& data)
    : data_(data),
      micro_batch_size_(static_cast<std::uint32_t>(config.tokens.micro_batch_size)),
      sequence_length_(static_cast<std::uint32_t>(config.tokens.sequence_length)),
      microbatches_(static_cast<std::uint32_t>(config.tokens.batch_accumulation_per_replica)),
      sample_(std::size_t{sequence_length_} + 1),
      inputs_(make_side(0)),
      targets_(make_side(1)) {}

TokenBatches::Side TokenBatches::make_side(std::size_t first_token) const {
  const std::size_t tokens = std::size_t{micro_batch_size_} * sequence_length_;
  Side side{std::make_unique_for_overwrite<std::int32_t[]>(tokens * microbatches_), {}, {}, first_token};
  side.tensors.reserve(microbatches_);
  for (std::size_t k = 0; k < microbatches_; ++k) {
    auto* start = reinterpret_cast<std::byte*>(side.tokens.get() + k * tokens);
    side.tensors.emplace_back(Tensor(Buffer::borrowed(start, tokens * sizeof(std::int32_t)), DType::int32,
                                     Shape{micro_batch_size_, sequence_length_}));
  }
  side.holds.assign(microbatches_, 0);
  return side;
}

const TensorList& TokenBatches::inputs(std::uint32_t microbatch) { return fill(inputs_, microbatch); }
const TensorList& TokenBatches::targets(std::uint32_t microbatch) { return fill(targets_, microbatch); }

const TensorList& TokenBatches::fill(Side& side, std::uint32_t microbatch) {
  if (side.holds[microbatch] == begun_) return side.tensors[microbatch];
  auto* out = side.tensors[microbatch][0].as<std::int32_t>();
  for (std::uint32_t i = 0; i < micro_batch_size_; ++i) {
    const std::uint64_t sample = std::uint64_t{microbatch} * micro_batch_size_ + i;
    if (validation_)
      data_.read_validation(step_, batch_, sample, sample_);
    else
      data_.read(step_, sample, sample_);
    out = std::copy_n(sample_.begin() + static_cast<std::ptrdiff_t>(side.first_token), sequence_length_, out);
  }
  side.holds[microbatch] = begun_;
  return side.tensors[microbatch];
}

}  // namespace weft
