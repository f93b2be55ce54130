#include "weft/actors/group.h"

#include <algorithm>

#include "weft/base/error.h"

namespace weft {

Group::Group(GroupNumber number, std::vector<std::uint32_t> members, std::uint32_t rank, Mailbox& mailbox)
    : number_(static_cast<std::uint16_t>(number)), members_(std::move(members)), mailbox_(mailbox) {
  const auto at = std::find(members_.begin(), members_.end(), rank);
  if (at == members_.end()) throw Error("rank " + std::to_string(rank) + " is no member of its group");
  place_ = static_cast<std::uint32_t>(at - members_.begin());
}

void Group::send(std::uint32_t to, std::span<const std::byte> bytes) {
  MessageHeader header;
  header.kind = MessageKind::collective;
  header.dtype = DType::uint8;
  header.group = number_;
  header.microbatch = tag_;
  header.shape = Shape{static_cast<std::uint32_t>(bytes.size())};
  header.payload_bytes = bytes.size();
  mailbox_.send_direct(members_[to], header, bytes.data());
}

Task<void> Group::gather(std::uint32_t root, std::span<const std::byte> mine,
                         std::vector<std::vector<std::byte>>& parts) {
  ++tag_;
  if (place_ != root) {
    send(root, mine);
    co_await mailbox_.sent_all();
    co_return;
  }
  parts.resize(members_.size());
  for (std::uint32_t from = 0; from < size(); ++from) {
    parts[from].clear();
    if (from == root)
      parts[from].insert(parts[from].end(), mine.begin(), mine.end());
    else
      co_await mailbox_.receive_collective(number_, members_[from], tag_, parts[from]);
  }
}

Task<void> Group::broadcast(std::uint32_t root, std::vector<std::byte>& bytes) {
  ++tag_;
  if (place_ == root) {
    for (std::uint32_t to = 0; to < size(); ++to)
      if (to != root) send(to, bytes);
    co_await mailbox_.sent_all();
    co_return;
  }
  bytes.clear();
  co_await mailbox_.receive_collective(number_, members_[root], tag_, bytes);
}

}  // namespace weft
