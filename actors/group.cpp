#include "weft/actors/group.h"

#include <algorithm>

#include "weft/base/error.h"

namespace weft {

Group::Group(GroupNumber number, std::vector<std::uint32_t> members, std::uint32_t rank, SideChannel& channel)
    : number_(static_cast<std::uint16_t>(number)), members_(std::move(members)), channel_(channel) {
  const auto at = std::find(members_.begin(), members_.end(), rank);
  if (at == members_.end()) throw Error("rank " + std::to_string(rank) + " is no member of its group");
  place_ = static_cast<std::uint32_t>(at - members_.begin());
}

void Group::send(std::uint32_t to, std::span<const std::byte> bytes) {
  channel_.send_part(members_[to], number_, tag_, bytes);
}

Task<void> Group::gather(std::uint32_t root, std::span<const std::byte> mine,
                         std::vector<std::vector<std::byte>>& parts) {
  ++tag_;
  if (place_ != root) {
    send(root, mine);
    co_return;
  }
  parts.resize(members_.size());
  for (std::uint32_t from = 0; from < size(); ++from) {
    parts[from].clear();
    if (from == root)
      parts[from].insert(parts[from].end(), mine.begin(), mine.end());
    else
      co_await channel_.receive_part(number_, members_[from], tag_, parts[from]);
  }
}

Task<void> Group::broadcast(std::uint32_t root, std::vector<std::byte>& bytes) {
  ++tag_;
  if (place_ == root) {
    for (std::uint32_t to = 0; to < size(); ++to)
      if (to != root) send(to, bytes);
    co_return;
  }
  bytes.clear();
  co_await channel_.receive_part(number_, members_[root], tag_, bytes);
}

}  // namespace weft
