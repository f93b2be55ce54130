// libFuzzer: any text given as a config.json or a manifest.json is read, or refused with a CheckpointError.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "weft/base/error.h"
#include "weft/model/weights/hf_config.h"
#include "weft/training/checkpoint/manifest.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const weft::HfConfig config = weft::parse_hf_config(text, "config.json");
    // what is accepted can be written and read again
    (void)weft::parse_hf_config(weft::to_hf_config(config.llama, weft::DType::float32), "again");
  } catch (const weft::CheckpointError&) {
  }
  try {
    const weft::Manifest manifest = weft::parse_manifest(text, "manifest.json");
    if (weft::parse_manifest(weft::to_json(manifest), "again") != manifest) std::abort();
  } catch (const weft::CheckpointError&) {
  }
  return 0;
}
