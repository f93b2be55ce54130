#include "weft/actors/collectives.h"

namespace weft {

Task<void> Collectives::send(std::uint32_t to, std::span<const std::byte> bytes) {
  MessageHeader header;
  header.kind = MessageKind::collective;
  header.dtype = DType::uint8;
  header.microbatch = tag_;
  header.shape = Shape{static_cast<std::uint32_t>(bytes.size())};
  header.payload_bytes = bytes.size();
  mailbox_.send_direct(to, header, bytes.data());
  co_return;
}

Task<void> Collectives::gather(std::uint32_t root, std::span<const std::byte> mine,
                               std::vector<std::vector<std::byte>>& parts) {
  ++tag_;
  if (rank_ != root) {
    co_await send(root, mine);
    co_await mailbox_.sent_all();
    co_return;
  }
  parts.resize(world_size_);
  for (std::uint32_t from = 0; from < world_size_; ++from) {
    parts[from].clear();
    if (from == root)
      parts[from].insert(parts[from].end(), mine.begin(), mine.end());
    else
      co_await mailbox_.receive_collective(from, tag_, parts[from]);
  }
}

Task<void> Collectives::broadcast(std::uint32_t root, std::vector<std::byte>& bytes) {
  ++tag_;
  if (rank_ == root) {
    for (std::uint32_t to = 0; to < world_size_; ++to)
      if (to != root) co_await send(to, bytes);
    co_await mailbox_.sent_all();
    co_return;
  }
  bytes.clear();
  co_await mailbox_.receive_collective(root, tag_, bytes);
}

}  // namespace weft
