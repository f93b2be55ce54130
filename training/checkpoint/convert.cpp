#include "weft/training/checkpoint/convert.h"

#include <fmt/format.h>

#include "weft/base/error.h"
#include "weft/base/files/durable_folder.h"
#include "weft/model/weights/hf_folder.h"
#include "weft/model/weights/hf_folder_writer.h"
#include "weft/model/weights/load_parameter.h"
#include "weft/model/weights/safetensors_writer.h"
#include "weft/model/weights/weights_hash.h"
#include "weft/training/checkpoint/checkpoint_search.h"
#include "weft/training/checkpoint/commit.h"
#include "weft/training/checkpoint/reader.h"

namespace weft {

CheckpointReport convert_hf_to_weft(const std::filesystem::path& source,
                                    const std::filesystem::path& target) {
  const HfFolder folder(source);
  std::vector<StoredTensor> tensors;
  RankFiles files;
  for (const auto* tensor : folder.tensors()) tensors.push_back(*tensor);
  TrainingPosition position;
  position.model = folder.config_text();
  write_folder(target, Manifest::file_name, [&](const std::filesystem::path& temporary) {
    for (const StoredTensor& tensor : tensors)
      files.hash_lines.push_back(weights_hash_line(tensor.name, tensor.dtype, tensor.shape, tensor.bytes));
    const auto record =
        write_new_safetensors(temporary / "weights-0000.safetensors", tensors, {{"format", "pt"}});
    files.files.push_back({FileKind::weights, record});
    seal_checkpoint(temporary, position, std::span(&files, 1), 1);
  });
  return {fmt::format("{}: {} tensors, weights_sha256 {}\n", target.string(), tensors.size(),
                      weights_sha256(files.hash_lines)),
          {}};
}

CheckpointReport convert_weft_to_hf(const std::filesystem::path& checkpoint,
                                    const std::filesystem::path& target, std::uint64_t shard_bytes) {
  CheckpointSearch search = resolve_checkpoint(checkpoint);
  const CheckpointReader reader(search.newest->folder);
  const std::string& config_text = reader.manifest().position.model;
  if (config_text.empty())
    throw CheckpointError(reader.path().string() +
                          ": is not a Llama's checkpoint, Hugging Face has no form for it");
  const HfConfig config = parse_hf_config(config_text, reader.path().string() + ": config.json");
  if (config.llama.num_hidden_layers > reader.weights().size())
    throw CheckpointError(reader.path().string() + ": has fewer tensors than layers");
  std::vector<std::string> names;
  for (const auto& tensor : llama_tensors(config.llama)) names.push_back(tensor.name);
  reader.require_model(names);
  std::vector<StoredTensor> tensors;
  for (const auto& name : names) tensors.push_back(reader.weight(name));
  write_hf_folder(target, config_text, tensors, shard_bytes);
  return {fmt::format("{}: {} tensors of step {} of {}\n", target.string(), tensors.size(),
                      reader.manifest().position.step, reader.path().string()),
          std::move(search.skipped)};
}

}  // namespace weft
