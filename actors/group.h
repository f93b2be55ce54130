#pragma once
// Gather and broadcast among some ranks of a run, over the same transport as everything else; used between
// steps.
#include <cstdint>
#include <span>
#include <vector>

#include "weft/actors/side_channel.h"
#include "weft/actors/task.h"

namespace weft {

/// Tells the messages of a rank's groups apart.
enum class GroupNumber : std::uint16_t {
  pipeline = 0,  ///< the ranks of a replica
  replicas = 1,  ///< the ranks that own the same stages
};

/// An ordered list of world ranks that act together. All of them call the same functions in the same order,
/// but may use other groups in between. Members are named by their place in the list.
class Group {
 public:
  /// `rank` is this one, a member. Throws Error when it is none.
  Group(GroupNumber number, std::vector<std::uint32_t> members, std::uint32_t rank, SideChannel& channel);

  [[nodiscard]] std::uint32_t size() const noexcept { return static_cast<std::uint32_t>(members_.size()); }
  /// This rank's place.
  [[nodiscard]] std::uint32_t place() const noexcept { return place_; }

  /// Brings every member's bytes (at most 64 MiB) to the member `root`: parts[place] there, untouched
  /// elsewhere. Returns when `mine` may be changed.
  Task<void> gather(std::uint32_t root, std::span<const std::byte> mine,
                    std::vector<std::vector<std::byte>>& parts);
  /// Gives root's bytes to all.
  Task<void> broadcast(std::uint32_t root, std::vector<std::byte>& bytes);

 private:
  void send(std::uint32_t to, std::span<const std::byte> bytes);

  std::uint16_t number_;
  std::vector<std::uint32_t> members_;
  std::uint32_t place_;
  SideChannel& channel_;
  std::uint32_t tag_ = 0;  // number of the collective
};

}  // namespace weft
