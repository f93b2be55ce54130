#pragma once
// Samples by number.
#include <cstdint>
#include <limits>
#include <span>
#include <string>

#include "weft/base/error.h"

namespace weft {

/// What is wrong with the files that one item of a dataset's list names.
class DatasetItemError : public Error {
 public:
  DatasetItemError(std::size_t item, const std::string& what) : Error(what), item_(item) {}
  [[nodiscard]] std::size_t item() const noexcept { return item_; }

 private:
  std::size_t item_;
};

/// A source of samples. Sample n is a pure function of the dataset, its seed and n. Const use from one
/// thread.
class Dataset {
 public:
  static constexpr std::uint64_t endless = std::numeric_limits<std::uint64_t>::max();

  virtual ~Dataset() = default;
  /// How many different n there are; `endless` where samples are drawn or repeat in new order.
  [[nodiscard]] virtual std::uint64_t sample_count() const = 0;
  /// Writes sample n, sequence_length + 1 token ids. Throws Error for a token outside the vocabulary.
  virtual void read(std::uint64_t n, std::span<std::int32_t> tokens) const = 0;
  /// Reads everything once where tokens can be wrong. Throws as read() does, DatasetItemError where the
  /// dataset is made of a list.
  virtual void check() const {}
};

}  // namespace weft
