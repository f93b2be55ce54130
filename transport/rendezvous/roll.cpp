#include "weft/transport/rendezvous/roll.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "weft/base/error.h"

namespace weft::control {

std::string spell(std::chrono::milliseconds span) {
  if (span.count() % 1000 == 0) return fmt::format("{} s", span.count() / 1000);
  return fmt::format("{} ms", span.count());
}

namespace {

/// The first lines that two texts do not share, each cut to what fits a message.
std::pair<std::string, std::string> first_difference(std::string_view a, std::string_view b) {
  constexpr std::size_t longest = 120;
  const auto differ = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
  const std::size_t before = a.substr(0, static_cast<std::size_t>(differ)).rfind('\n');
  const std::size_t start = before == std::string_view::npos ? 0 : before + 1;
  const auto line = [&](std::string_view text) {
    text.remove_prefix(std::min(start, text.size()));
    text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
    return std::string(text.substr(0, std::min(text.find('\n'), longest)));
  };
  return {line(a), line(b)};
}

}  // namespace

std::optional<std::string> Roll::objection(std::uint32_t rank, std::uint32_t world_size,
                                           const std::vector<CommonFact>& facts) const {
  if (rank >= ranks_.size() || world_size != ranks_.size()) {
    return fmt::format("it calls itself rank {} of {}, this run has {} ranks", rank, world_size,
                       ranks_.size());
  }
  if (ranks_[rank].state == State::joined) return fmt::format("rank {} has joined already", rank);
  for (std::uint32_t other = 0; other < ranks_.size(); ++other) {
    if (other == rank || ranks_[other].state == State::absent) continue;
    const auto& theirs = ranks_[other].facts;
    if (theirs.size() != facts.size()) return fmt::format("it is another program than rank {}'s", other);
    for (std::size_t i = 0; i < facts.size(); ++i) {
      if (facts[i].name == theirs[i].name && facts[i].value == theirs[i].value) continue;
      const auto [own, other_own] = first_difference(facts[i].value, theirs[i].value);
      return fmt::format("its {} is '{}', rank {}'s {} is '{}'; all ranks must have the same", facts[i].name,
                         own, other, theirs[i].name, other_own);
    }
    break;  // all others agree with this one
  }
  return std::nullopt;
}

void Roll::join(std::uint32_t rank, const std::vector<CommonFact>& facts, Time now) {
  Rank& it = ranks_[rank];
  it = Rank{};
  it.state = State::joined;
  it.connected = true;
  it.facts = facts;
  it.heard = it.ticked = it.moved = now;
  if (!first_arrival_) first_arrival_ = now;
}

void Roll::beat(std::uint32_t rank, const Heartbeat& heartbeat, Time now) {
  Rank& it = ranks_[rank];
  it.heard = now;
  if (heartbeat.ticks != it.last.ticks) it.ticked = now;
  if (heartbeat.count != it.last.count || heartbeat.activity != it.last.activity) it.moved = now;
  it.last = heartbeat;
}

void Roll::give(std::uint32_t rank, std::uint64_t round, Bytes part, Time now) {
  Rank& it = ranks_[rank];
  if (it.part) throw TransportError("a second part for one exchange");
  it.part = Part{round, std::move(part)};
  it.moved = now;
}

bool Roll::exchange_complete() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const Rank& it) { return it.part.has_value(); });
}

std::vector<Roll::Part> Roll::take_exchange() {
  std::vector<Part> parts;
  for (Rank& it : ranks_) parts.push_back(*std::exchange(it.part, std::nullopt));
  return parts;
}

std::string Roll::position(std::uint32_t rank) const {
  const Rank& it = ranks_[rank];
  if (it.part) return "waits for the other ranks at a rendezvous";
  std::string text = fmt::format("{} ops done", it.last.count);
  if (it.last.doing.empty()) return text;
  text += it.last.activity == Activity::waiting ? ", waits for " : ", at ";
  return text + it.last.doing;
}

std::optional<Failure> Roll::missing(Time now, std::chrono::milliseconds join_limit) const {
  if (!first_arrival_ || now - *first_arrival_ <= join_limit) return std::nullopt;
  std::string names;
  std::uint32_t first = launcher_rank;
  for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank].state != State::absent) continue;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", rank);
    first = std::min(first, rank);
  }
  if (names.empty()) return std::nullopt;
  return Failure{first, fmt::format("of {} ranks these have not joined within {}: {}", ranks_.size(),
                                    spell(join_limit), names)};
}

std::optional<Failure> Roll::deadlock(Time now, std::chrono::milliseconds limit) const {
  std::string positions;
  std::uint32_t first = launcher_rank;
  for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    const Rank& it = ranks_[rank];
    if (it.state == State::done) continue;
    const bool waits = it.part.has_value() || it.last.activity == Activity::waiting;
    if (it.state == State::absent || !waits || now - it.moved <= limit) return std::nullopt;
    positions += fmt::format("\n  rank {}: {}", rank, position(rank));
    first = std::min(first, rank);
  }
  if (first == launcher_rank) return std::nullopt;
  return Failure{first,
                 fmt::format("nothing has moved for {}, every rank waits:{}", spell(limit), positions)};
}

std::optional<Failure> Roll::judge(Time now, std::chrono::milliseconds limit,
                                   std::chrono::milliseconds join_limit) const {
  for (std::uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    const Rank& it = ranks_[rank];
    if (it.state != State::joined || !it.connected) continue;
    if (now - it.heard > limit) {
      return Failure{rank, fmt::format("rank {} has not answered for {} (stopped or stuck); last heard: {}",
                                       rank, spell(limit), position(rank))};
    }
    if (it.last.activity != Activity::outside && now - it.ticked > limit) {
      return Failure{
          rank, fmt::format("rank {} has been stuck for {}: its actor gives no sign of life; last heard: {}",
                            rank, spell(limit), position(rank))};
    }
  }
  if (auto found = missing(now, join_limit)) return found;
  return deadlock(now, limit);
}

void Roll::forgive(Time now) {
  for (Rank& it : ranks_) it.heard = it.ticked = it.moved = now;
  if (first_arrival_) first_arrival_ = now;
}

}  // namespace weft::control
