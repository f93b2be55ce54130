// libFuzzer: any bytes given as a safetensors file end in tensors that lie within them, or in a
// CheckpointError.
#include <cstdint>
#include <cstdlib>
#include <span>

#include "weft/base/error.h"
#include "weft/model/weights/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span file(reinterpret_cast<const std::byte*>(data), size);
  try {
    const weft::SafetensorsContent content = weft::parse_safetensors(file, "fuzz");
    std::uint64_t bytes = 0;
    for (const auto& tensor : content.tensors) {
      const bool inside =
          tensor.bytes.empty() || (tensor.bytes.data() >= file.data() + 8 &&
                                   tensor.bytes.data() + tensor.bytes.size() <= file.data() + size);
      if (!inside) std::abort();
      bytes += tensor.bytes.size();
    }
    if (bytes > size - 8) std::abort();
  } catch (const weft::CheckpointError&) {
  }
  return 0;
}
