#include "weft/transport/rendezvous/wire.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/random.h>

#include <cstring>

#include "weft/base/byte_order.h"
#include "weft/base/error.h"
#include "weft/base/text/foreign_text.h"

namespace weft::control {
namespace {

Digest hmac(std::span<const std::byte> key, std::span<const std::byte> data) {
  Digest digest;
  unsigned int length = 0;
  if (HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(data.data()), data.size(),
           reinterpret_cast<unsigned char*>(digest.data()), &length) == nullptr ||
      length != digest.size()) {
    throw TransportError("libcrypto cannot compute HMAC-SHA256");
  }
  return digest;
}

/// The largest payload of a type: nothing larger is ever allocated.
std::size_t most_payload(Type type, std::uint32_t world_size) {
  switch (type) {
    case Type::hello:
      return most_hello_bytes;
    case Type::address:
      return 12 + most_address_bytes;
    case Type::heartbeat:
      return 40 + doing_bytes;
    case Type::failed:
    case Type::lost_peer:
    case Type::refused:
    case Type::failure:
      return 8 + most_words_bytes;
    case Type::done:
    case Type::stop:
    case Type::taken:
      return 0;
    case Type::welcome:
      return 4;
    case Type::addresses:
      return 8 + std::size_t{world_size} * (4 + most_address_bytes);
  }
  throw TransportError("unknown type of control message");
}

}  // namespace

Nonce make_nonce() {
  Nonce nonce;
  if (getrandom(nonce.data(), nonce.size(), 0) != static_cast<ssize_t>(nonce.size())) {
    throw TransportError("the system gives no random bytes");
  }
  return nonce;
}

Digest prove(const RunToken& token, std::string_view role, const Nonce& rank_nonce,
             const Nonce& launcher_nonce) {
  Bytes data(role.size() + rank_nonce.size() + launcher_nonce.size());
  std::memcpy(data.data(), role.data(), role.size());
  std::memcpy(data.data() + role.size(), rank_nonce.data(), rank_nonce.size());
  std::memcpy(data.data() + role.size() + rank_nonce.size(), launcher_nonce.data(), launcher_nonce.size());
  return hmac(token, data);
}

bool same(const Digest& expected, std::span<const std::byte> claimed) {
  return claimed.size() == expected.size() &&
         CRYPTO_memcmp(expected.data(), claimed.data(), expected.size()) == 0;
}

Writer& Writer::u32(std::uint32_t value) {
  out_.resize(out_.size() + sizeof(value));
  store_le(out_.data() + out_.size() - sizeof(value), value);
  return *this;
}

Writer& Writer::u64(std::uint64_t value) {
  out_.resize(out_.size() + sizeof(value));
  store_le(out_.data() + out_.size() - sizeof(value), value);
  return *this;
}

Writer& Writer::bytes(std::span<const std::byte> value) {
  u32(static_cast<std::uint32_t>(value.size()));
  out_.insert(out_.end(), value.begin(), value.end());
  return *this;
}

Writer& Writer::string(std::string_view value) { return bytes(std::as_bytes(std::span(value))); }

std::span<const std::byte> Reader::take(std::size_t count) {
  if (count > left_.size()) throw TransportError("a control message ends too early");
  const auto taken = left_.first(count);
  left_ = left_.subspan(count);
  return taken;
}

std::uint32_t Reader::u32() { return load_le<std::uint32_t>(take(4).data()); }

std::uint64_t Reader::u64() { return load_le<std::uint64_t>(take(8).data()); }

std::span<const std::byte> Reader::bytes() {
  const std::uint32_t count = u32();
  return take(count);
}

std::string Reader::text() {
  const auto raw = bytes();
  std::string_view rest(reinterpret_cast<const char*>(raw.data()), raw.size());
  std::string text;
  while (true) {  // line by line: a cause may have several
    const std::size_t end = rest.find('\n');
    text += printable(rest.substr(0, end));
    if (end == std::string_view::npos) return text;
    text += '\n';
    rest.remove_prefix(end + 1);
  }
}

void Reader::end() const {
  if (!left_.empty()) throw TransportError("a control message is too long");
}

Channel::Channel(const RunToken& token, std::string_view role, const Nonce& rank_nonce,
                 const Nonce& launcher_nonce, std::uint32_t world_size)
    : key_(prove(token, role, rank_nonce, launcher_nonce)), world_size_(world_size) {}

Bytes Channel::seal(Type type, std::span<const std::byte> payload) {
  Bytes frame(header_bytes + payload.size());
  store_le(frame.data(), static_cast<std::uint32_t>(type));
  store_le(frame.data() + 4, static_cast<std::uint32_t>(payload.size()));
  store_le(frame.data() + 8, count_++);
  if (!payload.empty()) std::memcpy(frame.data() + header_bytes, payload.data(), payload.size());
  const Digest digest = hmac(key_, frame);
  frame.insert(frame.end(), digest.begin(), digest.end());
  return frame;
}

std::size_t Channel::rest_of(std::span<const std::byte> header) const {
  const auto length = load_le<std::uint32_t>(header.data() + 4);
  if (length > most_payload(type_of(header), world_size_))
    throw TransportError("a control message is too long");
  if (load_le<std::uint64_t>(header.data() + 8) != count_)
    throw TransportError("a control message is out of order");
  return length + sizeof(Digest);
}

std::span<const std::byte> Channel::open(std::span<const std::byte> frame) {
  const auto sealed = frame.first(frame.size() - sizeof(Digest));
  if (!same(hmac(key_, sealed), frame.last(sizeof(Digest))))
    throw TransportError("a control message was forged");
  ++count_;
  return sealed.subspan(header_bytes);
}

Type type_of(std::span<const std::byte> header) {
  return static_cast<Type>(load_le<std::uint32_t>(header.data()));
}

}  // namespace weft::control
