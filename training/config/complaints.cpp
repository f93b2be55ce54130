#include "weft/training/config/complaints.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

namespace weft {
namespace {

constexpr std::size_t most_lines = 20;

/// Whether `part` is `whole` or lies in it.
bool is_within(std::string_view part, std::string_view whole) {
  return part.starts_with(whole) &&
         (part.size() == whole.size() || whole.empty() || part[whole.size()] == '.');
}

}  // namespace

void Complaints::add(const ValueError& complaint) { take({false, complaint}); }
void Complaints::add_first(const ValueError& complaint) { take({true, complaint}); }

void Complaints::take(Complaint complaint) {
  if (is_given_up(complaint.error.path())) return;
  const std::string_view text = complaint.error.what();
  const bool known = std::any_of(all_.begin(), all_.end(),
                                 [&](const Complaint& other) { return other.error.what() == text; });
  if (!known) all_.push_back(std::move(complaint));
}

bool Complaints::is_given_up(std::string_view path) const {
  return std::any_of(given_up_.begin(), given_up_.end(),
                     [&](const std::string& block) { return is_within(path, block); });
}

bool Complaints::is_sound(std::string_view path) const {
  const auto touches = [&](const std::string& other) {
    return is_within(path, other) || is_within(other, path);
  };
  return std::none_of(given_up_.begin(), given_up_.end(), touches) &&
         std::none_of(excused_.begin(), excused_.end(), touches);
}

void Complaints::collect(const std::string& path, const std::function<void()>& read) {
  try {
    read();
  } catch (const ValueError& complaint) {
    add(complaint);
    give_up(path);
  }
}

void Complaints::throw_if_any() const {
  if (all_.empty()) return;
  std::vector<const Complaint*> order;
  for (const Complaint& complaint : all_) order.push_back(&complaint);
  std::stable_sort(order.begin(), order.end(), [](const Complaint* a, const Complaint* b) {
    const auto place = [](const Complaint* c) {
      const Source& source = c->error.source();
      return std::tuple(!c->first, source.layer, source.line, source.column);
    };
    return place(a) < place(b);
  });
  std::string text;
  for (std::size_t i = 0; i < std::min(order.size(), most_lines); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : "\n", order[i]->error.what());
  if (order.size() > most_lines) text += fmt::format("\nand {} more", order.size() - most_lines);
  throw ConfigError(text);
}

}  // namespace weft
