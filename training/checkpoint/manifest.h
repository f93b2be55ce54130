#pragma once
// manifest.json: what a checkpoint holds besides its tensors, and by what its files are known.
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/files/durable_file.h"

namespace weft {

/// How far the data of one stage of the configuration has been used.
struct DataPosition {
  std::string stage;  ///< data_stages[].name
  std::uint64_t consumed_samples = 0;
  std::string fingerprint;  ///< of the samples of the last step, where this stage served it; else empty

  friend bool operator==(const DataPosition&, const DataPosition&) = default;
};

/// Where training stands; together with the tensors all that a resume needs. Nothing in it depends on the
/// number of ranks, the stages or the schedule.
struct TrainingPosition {
  std::uint64_t step = 0;  ///< the last step whose update is in the weights; 0 for initial weights
  std::uint64_t consumed_samples = 0;
  std::uint64_t consumed_tokens = 0;
  std::vector<DataPosition> data;
  std::string optimizer;     ///< its name; empty when the checkpoint holds weights alone
  double learning_rate = 0;  ///< the one that the last update used
  std::int64_t seed = 0;  ///< all there is of random state: the generator is a function of seed and counter
  std::string config;     ///< the run's merged configuration, YAML
  std::string model;      ///< the model as a Hugging Face config.json; empty when it is no Llama

  friend bool operator==(const TrainingPosition&, const TrainingPosition&) = default;
};

enum class FileKind : std::uint8_t { weights, state };

struct CheckpointFile {
  FileKind kind = FileKind::weights;
  FileRecord record;

  friend bool operator==(const CheckpointFile&, const CheckpointFile&) = default;
};

struct Manifest {
  static constexpr std::uint64_t version = 1;
  static constexpr std::string_view file_name = "manifest.json";

  TrainingPosition position;
  std::uint64_t save_number = 0;  ///< counts the saves into one folder: the highest is the newest
  std::string weights_sha256;
  std::vector<CheckpointFile> files;

  friend bool operator==(const Manifest&, const Manifest&) = default;
};

/// The text of manifest.json. It holds a checksum of itself. Names of data stages may be any bytes (they come
/// as base64 then); throws CheckpointError when another text in it is not UTF-8.
[[nodiscard]] std::string to_json(const Manifest& manifest);

/// Throws CheckpointError that begins with `file_name`: no JSON, wrong checksum, a missing or wrong field, a
/// file name with a folder in it, a version that this build does not know.
[[nodiscard]] Manifest parse_manifest(std::string_view text, const std::string& file_name);

/// Reads manifest.json of one checkpoint.
[[nodiscard]] Manifest read_manifest(const std::filesystem::path& checkpoint);

}  // namespace weft
