#pragma once
// Gather and broadcast between all ranks, over the same transport as everything else; used between steps.
#include <cstdint>
#include <span>
#include <vector>

#include "weft/actors/mailbox.h"
#include "weft/actors/task.h"

namespace weft {

/// All ranks call the same functions in the same order.
class Collectives {
 public:
  Collectives(std::uint32_t rank, std::uint32_t world_size, Mailbox& mailbox) noexcept
      : rank_(rank), world_size_(world_size), mailbox_(mailbox) {}

  /// Brings every rank's bytes (at most 64 MiB) to `root`: parts[rank] there, untouched elsewhere. Returns
  /// when `mine` may be changed.
  Task<void> gather(std::uint32_t root, std::span<const std::byte> mine,
                    std::vector<std::vector<std::byte>>& parts);
  /// Gives root's bytes to all.
  Task<void> broadcast(std::uint32_t root, std::vector<std::byte>& bytes);

 private:
  Task<void> send(std::uint32_t to, std::span<const std::byte> bytes);
  std::uint32_t rank_;
  std::uint32_t world_size_;
  Mailbox& mailbox_;
  std::uint32_t tag_ = 0;  // number of the collective; 0 marks an unused part in the mailbox
};

}  // namespace weft
