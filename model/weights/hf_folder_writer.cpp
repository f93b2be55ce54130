#include "weft/model/weights/hf_folder_writer.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/files/durable_file.h"
#include "weft/base/files/durable_folder.h"
#include "weft/model/weights/safetensors_writer.h"

namespace weft {
namespace {

using Shards = std::vector<std::span<const StoredTensor>>;

Shards cut(std::span<const StoredTensor> tensors, std::uint64_t shard_bytes) {
  Shards shards;
  std::size_t begin = 0;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::uint64_t size = tensors[i].bytes.size();
    if (i > begin && (bytes > shard_bytes || size > shard_bytes - bytes)) {
      shards.push_back(tensors.subspan(begin, i - begin));
      begin = i;
      bytes = 0;
    }
    bytes += size;
  }
  shards.push_back(tensors.subspan(begin));
  return shards;
}

void write_files(const std::filesystem::path& folder, const Shards& shards) {
  const SafetensorsMetadata metadata{{"format", "pt"}};  // older transformers refuse a file without it
  if (shards.size() == 1) {
    write_new_safetensors(folder / "model.safetensors", shards.front(), metadata);
    return;
  }
  auto map = nlohmann::json::object();
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string name = fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, shards.size());
    write_new_safetensors(folder / name, shards[i], metadata);
    for (const auto& tensor : shards[i]) {
      map[tensor.name] = name;
      total += tensor.bytes.size();
    }
  }
  DurableFile index(folder / "model.safetensors.index.json");
  index.write(nlohmann::json{{"metadata", {{"total_size", total}}}, {"weight_map", map}}.dump(2) + "\n");
  index.finish();
}

}  // namespace

void write_hf_folder(const std::filesystem::path& folder, std::string_view config_text,
                     std::span<const StoredTensor> tensors, std::uint64_t shard_bytes) {
  write_folder(folder, "config.json", [&](const std::filesystem::path& temporary) {
    DurableFile config(temporary / "config.json");
    config.write(config_text);
    config.finish();
    write_files(temporary, cut(tensors, shard_bytes));
  });
}

}  // namespace weft
