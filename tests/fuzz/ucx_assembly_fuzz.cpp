// libFuzzer: a peer that sends anything. Every input is a row of UCX messages, each two bytes of length, a
// header and that much data; a sink takes payloads up to 64 KiB and checks that nothing is written beyond.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "weft/base/error.h"
#include "weft/transport/ucx/assembly.h"
#include "weft/transport/ucx/control.h"
#include "weft/transport/ucx/settings.h"

namespace {

class Sink final : public weft::MessageSink {
 public:
  weft::Payload accept(std::uint32_t, const weft::MessageHeader& header) override {
    if (header.payload_bytes > 64 * 1024) throw weft::TransportError("too large");
    return {payloads_.emplace_back(std::make_unique<std::byte[]>(header.payload_bytes)).get(), {}};
  }
  void delivered(std::uint32_t, const weft::MessageHeader&, weft::Payload) override {}
  void sent(weft::SendToken) override {}
  void peer_failed(std::uint32_t, const std::string&) override {}

 private:
  std::vector<std::unique_ptr<std::byte[]>>
      payloads_;  // of exact size: the address sanitizer watches the ends
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::span<const std::byte> input(reinterpret_cast<const std::byte*>(data), size);
  try {
    static_cast<void>(weft::ucx::decode_control(input.first(std::min<std::size_t>(size, 16))));
  } catch (const weft::TransportError&) {
  }
  try {
    static_cast<void>(weft::ucx::decode_host_facts(input));
  } catch (const weft::TransportError&) {
  }
  Sink sink;
  weft::ucx::Assembly assembly(1);
  assembly.set_chunk_bytes(1024);
  weft::ucx::Arrival arrival;
  while (input.size() >= 2 + weft::MessageHeader::wire_bytes) {
    const std::size_t length = std::to_integer<std::size_t>(input[0]) | std::to_integer<std::size_t>(input[1])
                                                                            << 8;
    const auto header = input.subspan(2, weft::MessageHeader::wire_bytes);
    input = input.subspan(2 + weft::MessageHeader::wire_bytes);
    const auto payload = input.first(std::min(length, input.size()));
    input = input.subspan(payload.size());
    try {
      assembly.add(sink, header, payload, arrival);
    } catch (const weft::TransportError&) {
    }
  }
  return 0;
}
