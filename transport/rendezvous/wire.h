#pragma once
// The bytes of a control connection. Internal to this folder.
//
// Handshake, blocks of fixed size, so that nothing a stranger sends is taken for a length:
//   rank     -> launcher   magic (8), nonce (32)
//   launcher -> rank       magic (8), nonce (32), HMAC-SHA256(token, "launcher", both nonces) (32)
//   rank     -> launcher   HMAC-SHA256(token, "rank", both nonces) (32)
// Then frames, little-endian, each way under its own key and count:
//   type u32, payload bytes u32, number of the frame u64, payload, HMAC-SHA256 of all before (32)
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/transport/rendezvous/run_token.h"

namespace weft::control {

using Bytes = std::vector<std::byte>;
using Digest = std::array<std::byte, 32>;
using Nonce = std::array<std::byte, 32>;

/// Protocol name and version; another version is told apart from noise by its first six bytes.
inline constexpr std::string_view magic{"weft\xF1\x9A\x02\x00", 8};
inline constexpr std::size_t greeting_bytes = 8 + 32;
inline constexpr std::size_t answer_bytes = 8 + 32 + 32;
inline constexpr std::size_t proof_bytes = 32;
inline constexpr std::size_t header_bytes = 16;
inline constexpr std::size_t most_address_bytes = 64 * 1024;
inline constexpr std::size_t most_hello_bytes =
    2 * 1024 * 1024;  // a whole configuration may be among the facts
inline constexpr std::size_t most_words_bytes = 8 * 1024;
inline constexpr std::size_t doing_bytes = 120;

enum class Type : std::uint32_t {
  hello = 1,       ///< rank u32, world u32, number of facts u32, per fact: name string, value string
  address = 2,     ///< round u64, bytes
  heartbeat = 3,   ///< activity u32, ops u64, ticks u64, doing string, longest step and save in ms u64
  failed = 4,      ///< words string
  lost_peer = 5,   ///< peer u32, words string
  done = 6,        ///< nothing
  welcome = 16,    ///< heartbeat interval in ms u32
  refused = 17,    ///< words string
  addresses = 18,  ///< round u64, per rank: bytes
  failure = 19,    ///< rank u32, words string
  stop = 20,       ///< nothing
  taken = 21,      ///< nothing: `failed`, `lost_peer` or `done` has arrived
};

/// What a rank says it is at in a heartbeat.
enum class Activity : std::uint32_t { outside = 0, working = 1, waiting = 2 };

[[nodiscard]] Nonce make_nonce();
[[nodiscard]] Digest prove(const RunToken& token, std::string_view role, const Nonce& rank_nonce,
                           const Nonce& launcher_nonce);
/// Compares in constant time; `claimed` must have 32 bytes.
[[nodiscard]] bool same(const Digest& expected, std::span<const std::byte> claimed);

/// Appends little-endian values; strings and bytes are preceded by their length as u32.
class Writer {
 public:
  Writer& u32(std::uint32_t value);
  Writer& u64(std::uint64_t value);
  Writer& bytes(std::span<const std::byte> value);
  Writer& string(std::string_view value);
  [[nodiscard]] Bytes take() { return std::move(out_); }

 private:
  Bytes out_;
};

/// Reads what Writer wrote; every function throws TransportError when the payload ends too early.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> from) : left_(from) {}
  std::uint32_t u32();
  std::uint64_t u64();
  std::span<const std::byte> bytes();
  /// Control characters but for newlines become '?', since the text will be shown on a terminal.
  std::string text();
  /// Throws unless everything has been read.
  void end() const;

 private:
  std::span<const std::byte> take(std::size_t count);
  std::span<const std::byte> left_;
};

/// One direction of a connection: key, count of frames, and the ranks' number, from which the largest frame
/// follows.
class Channel {
 public:
  Channel() = default;
  Channel(const RunToken& token, std::string_view role, const Nonce& rank_nonce, const Nonce& launcher_nonce,
          std::uint32_t world_size);

  /// The whole frame, ready to send.
  [[nodiscard]] Bytes seal(Type type, std::span<const std::byte> payload);

  /// How many bytes follow a header; throws TransportError for an unknown type, a wrong number or too long a
  /// payload.
  [[nodiscard]] std::size_t rest_of(std::span<const std::byte> header) const;
  /// The payload of a frame whose header has passed `rest_of`; throws TransportError when it was not made
  /// with the key.
  [[nodiscard]] std::span<const std::byte> open(std::span<const std::byte> frame);

 private:
  Digest key_{};
  std::uint64_t count_ = 0;
  std::uint32_t world_size_ = 1;
};

[[nodiscard]] Type type_of(std::span<const std::byte> header);

}  // namespace weft::control
