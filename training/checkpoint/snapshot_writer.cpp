#include "weft/training/checkpoint/snapshot_writer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "weft/base/error.h"
#include "weft/model/weights/json_input.h"
#include "weft/model/weights/safetensors_writer.h"
#include "weft/model/weights/weights_hash.h"
#include "weft/training/checkpoint/state_names.h"

namespace weft {
namespace {

std::size_t value_bytes(const Parameter& parameter) {
  return parameter.shape.elements() * dtype_size(parameter.dtype);
}
std::size_t float_bytes(const Shape& shape) { return shape.elements() * sizeof(float); }

}  // namespace

std::string to_text(const RankFiles& files) {
  auto tree = nlohmann::json::object();
  tree["hash_lines"] = files.hash_lines;
  auto& list = tree["files"] = nlohmann::json::array();
  for (const auto& file : files.files)
    list.push_back({{"name", file.record.name},
                    {"weights", file.kind == FileKind::weights},
                    {"bytes", file.record.bytes},
                    {"sha256", file.record.sha256}});
  return tree.dump();
}

RankFiles rank_files_from_text(std::string_view text) {
  const auto tree = parse_json_object(text, "a rank's list of checkpoint files");
  RankFiles files;
  try {
    files.hash_lines = tree.at("hash_lines").get<std::vector<std::string>>();
    for (const auto& file : tree.at("files"))
      files.files.push_back({file.at("weights").get<bool>() ? FileKind::weights : FileKind::state,
                             {file.at("name").get<std::string>(), file.at("bytes").get<std::uint64_t>(),
                              file.at("sha256").get<std::string>()}});
  } catch (const nlohmann::json::exception&) {
    throw CheckpointError("a rank's list of checkpoint files is malformed");
  }
  return files;
}

std::size_t SnapshotWriter::snapshot_bytes(std::span<Parameter* const> parameters,
                                           std::span<const OptimizerState> states) {
  std::size_t bytes = 0;
  for (const Parameter* parameter : parameters) {
    if (!parameter->tied_to.empty()) continue;
    bytes += aligned(value_bytes(*parameter));
    if (parameter->master) bytes += aligned(float_bytes(parameter->shape));
  }
  for (const auto& state : states)
    if (owner_of(state, parameters).tied_to.empty()) bytes += aligned(float_bytes(state.shape));
  return bytes;
}

SnapshotWriter::SnapshotWriter(std::uint32_t rank, std::span<Parameter* const> parameters,
                               std::span<const OptimizerState> states, CheckpointProbe probe)
    : rank_(rank),
      probe_(std::move(probe)),
      copy_(snapshot_bytes(parameters, states), "the copy for checkpoints") {
  for (const Parameter* parameter : parameters) {
    if (!parameter->tied_to.empty()) continue;
    add(weights_, parameter->name, parameter->dtype, parameter->shape, parameter->queue, parameter->value);
    if (parameter->master)
      add(state_, parameter->name + std::string(master_suffix), DType::float32, parameter->shape,
          parameter->queue, parameter->master);
  }
  for (const auto& state : states)
    if (owner_of(state, parameters).tied_to.empty())
      add(state_, state.name, DType::float32, state.shape, state.queue, state.value);
}

SnapshotWriter::~SnapshotWriter() = default;

void SnapshotWriter::add(std::vector<Piece>& pieces, std::string name, DType dtype, const Shape& shape,
                         Queue* queue, const void* source) {
  const std::size_t bytes = shape.elements() * dtype_size(dtype);
  StoredTensor tensor{std::move(name), safetensors_type(dtype), dtype, {}, {copy_.take(bytes), bytes}};
  tensor.shape.assign(shape.dims().begin(), shape.dims().end());
  pieces.push_back({std::move(tensor), queue, static_cast<const std::byte*>(source)});
}

void SnapshotWriter::start(const std::filesystem::path& folder) {
  if (started()) throw CheckpointError("a checkpoint is still being written");
  Queue* device = nullptr;
  for (const auto* pieces : {&weights_, &state_})
    for (const Piece& piece : *pieces) {
      // the copy is this object's own memory; StoredTensor only reads
      auto* copy = const_cast<std::byte*>(piece.tensor.bytes.data());
      if (piece.queue == nullptr) {
        std::memcpy(copy, piece.source, piece.tensor.bytes.size());
      } else {
        device = piece.queue;
        device->download(copy, piece.source, piece.tensor.bytes.size());
      }
    }
  if (device != nullptr) device->record().wait();
  reached("copied");
  written_ = std::async(std::launch::async, [this, folder] { return write(folder); });
}

bool SnapshotWriter::ready() const {
  return started() && written_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

RankFiles SnapshotWriter::finish() {
  if (!started()) throw CheckpointError("no checkpoint is being written");
  return written_.get();
}

RankFiles SnapshotWriter::write(const std::filesystem::path& folder) const {
  // on Linux this is the thread's own: training goes first where the cores are all busy
  [[maybe_unused]] const int unchanged_is_fine = ::nice(10);
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw CheckpointError(folder.string() + ": cannot be created: " + error.message());
  reached("folder made");
  RankFiles result;
  for (const Piece& piece : weights_)
    result.hash_lines.push_back(
        weights_hash_line(piece.tensor.name, piece.tensor.dtype, piece.tensor.shape, piece.tensor.bytes));
  write_file(folder, "weights", FileKind::weights, weights_, result);
  reached("weights written");
  write_file(folder, "state", FileKind::state, state_, result);
  reached("state written");
  return result;
}

void SnapshotWriter::write_file(const std::filesystem::path& folder, const char* prefix, FileKind kind,
                                std::span<const Piece> pieces, RankFiles& result) const {
  if (pieces.empty()) return;
  std::vector<StoredTensor> tensors;
  tensors.reserve(pieces.size());
  for (const Piece& piece : pieces) tensors.push_back(piece.tensor);
  const auto path = folder / fmt::format("{}-{:04}.safetensors", prefix, rank_);
  const FileRecord record = write_new_safetensors(path, tensors, {{"format", "pt"}});
  if (hash_file(path) != record)
    throw CheckpointError(path.string() + ": reads back other bytes than were written");
  result.files.push_back({kind, record});
}

}  // namespace weft
