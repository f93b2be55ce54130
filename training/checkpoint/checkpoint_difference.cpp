#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <sstream>

#include "weft/base/text/foreign_text.h"
#include "weft/model/weights/load_parameter.h"
#include "weft/training/checkpoint/checkpoint_search.h"
#include "weft/training/checkpoint/checkpoint_text.h"
#include "weft/training/checkpoint/reader.h"

namespace weft {
namespace {

/// Collects lines and counts what is equal.
struct Differences {
  std::string text;
  std::size_t different = 0;
  std::size_t equal = 0;

  void add(const std::string& line) {
    text += line + "\n";
    ++different;
  }
  template <class T>
  void compare(const char* what, const T& left, const T& right) {
    if (left != right) add(fmt::format("{}: {} | {}", what, left, right));
  }
};

std::string tensor_difference(const StoredTensor& left, const StoredTensor& right) {
  const std::size_t size = left.bytes.size() / std::max<std::size_t>(1, dtype_size(left.dtype));
  if (!holds_floats(left)) return fmt::format("{} {}: other bytes", shown_name(left.name), left.describe());
  std::size_t count = 0;
  std::size_t place = 0;
  double largest = -1;
  for (std::size_t i = 0; i < size; ++i) {
    const float a = stored_number(left, i);
    const float b = stored_number(right, i);
    if (std::memcmp(&a, &b, sizeof a) == 0) continue;
    ++count;
    const double difference = std::abs(double{a} - double{b});
    // a NaN counts as the largest of all
    if (std::isnan(largest) || (!std::isnan(difference) && difference <= largest)) continue;
    largest = difference;
    place = i;
  }
  return fmt::format("{} {}: {} of {} elements differ, the largest difference is {} at element {} ({} | {})",
                     shown_name(left.name), left.describe(), count, size, largest, place,
                     stored_number(left, place), stored_number(right, place));
}

void compare_tensors(std::span<const StoredTensor* const> left, std::span<const StoredTensor* const> right,
                     Differences& result) {
  auto a = left.begin();
  auto b = right.begin();
  while (a != left.end() || b != right.end()) {
    if (b == right.end() || (a != left.end() && (*a)->name < (*b)->name)) {
      result.add(fmt::format("{} {}: only on the left", shown_name((*a)->name), (*a)->describe()));
      ++a;
    } else if (a == left.end() || (*b)->name < (*a)->name) {
      result.add(fmt::format("{} {}: only on the right", shown_name((*b)->name), (*b)->describe()));
      ++b;
    } else {
      const StoredTensor& x = **a++;
      const StoredTensor& y = **b++;
      if (x.type != y.type || x.shape != y.shape) {
        result.add(fmt::format("{}: {} | {}", shown_name(x.name), x.describe(), y.describe()));
      } else if (!std::equal(x.bytes.begin(), x.bytes.end(), y.bytes.begin())) {
        result.add(tensor_difference(x, y));
      } else {
        ++result.equal;
      }
    }
  }
}

/// Lines that only one of the texts has, in their order.
void compare_texts(const std::string& left, const std::string& right, Differences& result) {
  const auto only_in = [&](const std::string& one, const std::string& other, char mark) {
    std::multiset<std::string> rest;
    std::istringstream others(other);
    for (std::string line; std::getline(others, line);) rest.insert(line);
    std::istringstream lines(one);
    for (std::string line; std::getline(lines, line);) {
      if (const auto found = rest.find(line); found != rest.end())
        rest.erase(found);
      else
        result.text += fmt::format("  {} {}\n", mark, line);
    }
  };
  if (left == right) return;
  result.add("config:");
  only_in(left, right, '<');
  only_in(right, left, '>');
}

void compare_positions(const TrainingPosition& left, const TrainingPosition& right, Differences& result) {
  result.compare("step", left.step, right.step);
  result.compare("consumed_samples", left.consumed_samples, right.consumed_samples);
  result.compare("consumed_tokens", left.consumed_tokens, right.consumed_tokens);
  result.compare("optimizer", left.optimizer, right.optimizer);
  result.compare("learning_rate", left.learning_rate, right.learning_rate);
  result.compare("seed", left.seed, right.seed);
  if (left.data != right.data) result.add("data: other positions");
  if (left.model != right.model) result.add("model: another config.json");
  compare_texts(left.config, right.config, result);
}

}  // namespace

CheckpointDiff diff_report(const std::filesystem::path& left, const std::filesystem::path& right) {
  CheckpointSearch first = resolve_checkpoint(left);
  const CheckpointSearch second = resolve_checkpoint(right);
  const CheckpointReader a(first.newest->folder);
  const CheckpointReader b(second.newest->folder);
  Differences result;
  compare_positions(a.manifest().position, b.manifest().position, result);
  compare_tensors(a.weights(), b.weights(), result);
  compare_tensors(a.state(), b.state(), result);
  const bool equal = result.different == 0;
  result.text += equal ? fmt::format("equal: all {} tensors\n", result.equal)
                       : fmt::format("{} differences, {} equal tensors\n", result.different, result.equal);
  first.skipped.insert(first.skipped.end(), second.skipped.begin(), second.skipped.end());
  return {{std::move(result.text), std::move(first.skipped)}, equal};
}

}  // namespace weft
