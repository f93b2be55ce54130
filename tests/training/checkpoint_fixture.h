#pragma once
// A small model spread over ranks, and a scratch folder, for the tests of checkpoints.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "weft/actors/optimizer.h"
#include "weft/actors/stage.h"
#include "weft/model/weights/weights_hash.h"
#include "weft/tests/support/scratch_folder.h"
#include "weft/training/checkpoint/commit.h"
#include "weft/training/checkpoint/reader.h"
#include "weft/training/checkpoint/snapshot_writer.h"

namespace weft {

/// The parameters and optimizer state of one rank, in memory of its own.
struct RankState {
  std::vector<std::unique_ptr<float[]>> memory;
  std::vector<std::unique_ptr<Parameter>> owned;
  std::vector<Parameter*> parameters;
  std::vector<OptimizerState> states;

  float* take(std::size_t count) {
    memory.push_back(std::make_unique<float[]>(count));
    return memory.back().get();
  }
};

/// Eight layers of two parameters, an embedding and a head that is tied to it; cut into ranks at will.
struct FakeModel {
  DType dtype = DType::float32;
  std::vector<RankState> ranks;

  FakeModel(std::uint32_t world, DType type, int layers = 8) : dtype(type), ranks(world) {
    add(ranks.front(), "embed.weight", Shape{7, 3}, "");
    for (int layer = 0; layer < layers; ++layer) {
      auto& rank = ranks[static_cast<std::size_t>(layer) * world / static_cast<std::size_t>(layers)];
      const std::string prefix = "layers." + std::to_string(layer);
      add(rank, prefix + ".norm", Shape{3}, "");
      add(rank, prefix + ".weight", Shape{5, 3}, "");
    }
    add(ranks.back(), "head.weight", Shape{7, 3}, "embed.weight");
  }

  void add(RankState& rank, std::string name, const Shape& shape, std::string tied_to) {
    auto parameter = std::make_unique<Parameter>();
    const std::size_t count = shape.elements();
    parameter->name = std::move(name);
    parameter->shape = shape;
    parameter->dtype = dtype;
    parameter->value = reinterpret_cast<std::byte*>(rank.take(count));
    if (dtype == DType::bfloat16) parameter->master = rank.take(count);
    parameter->tied_to = std::move(tied_to);
    for (const char* moment : {".exp_avg", ".exp_avg_sq"})
      rank.states.push_back({parameter->name + moment, shape, rank.take(count)});
    rank.parameters.push_back(parameter.get());
    rank.owned.push_back(std::move(parameter));
  }

  /// All bits of every value, master and moment become a function of the tensor's stored name and `number`.
  void fill(unsigned number) {
    const auto scramble = [number](const std::string& name, void* to, std::size_t bytes) {
      std::mt19937 random(static_cast<unsigned>(std::hash<std::string>{}(name)) + number);
      for (std::size_t i = 0; i < bytes; ++i)
        static_cast<unsigned char*>(to)[i] = static_cast<unsigned char>(random());
    };
    for (auto& rank : ranks) {
      for (auto* p : rank.parameters) {
        const std::string& name = p->tied_to.empty() ? p->name : p->tied_to;
        scramble(name, p->value, p->shape.elements() * dtype_size(dtype));
        if (p->master) scramble(name + "master", p->master, p->shape.elements() * 4);
      }
      for (auto& state : rank.states) {
        std::string name = state.name;
        if (name.starts_with("head")) name.replace(0, 4, "embed");
        scramble(name, state.value, state.shape.elements() * 4);
      }
    }
  }

  /// True when every bit is as fill(number) leaves it.
  [[nodiscard]] bool holds(unsigned number) const {
    FakeModel expected(static_cast<std::uint32_t>(ranks.size()), dtype);
    expected.fill(number);
    return bits() == expected.bits();
  }

  [[nodiscard]] std::string bits() const {
    std::string all;
    for (const auto& rank : ranks) {
      for (const auto* p : rank.parameters) {
        all.append(reinterpret_cast<const char*>(p->value), p->shape.elements() * dtype_size(dtype));
        if (p->master) all.append(reinterpret_cast<const char*>(p->master), p->shape.elements() * 4);
      }
      for (const auto& state : rank.states)
        all.append(reinterpret_cast<const char*>(state.value), state.shape.elements() * 4);
    }
    return all;
  }

  [[nodiscard]] std::string weights_hash() const {
    std::vector<std::string> lines;
    for (const auto& rank : ranks)
      for (auto& line : weights_hash_lines(rank.parameters)) lines.push_back(std::move(line));
    return weights_sha256(std::move(lines));
  }
};

inline TrainingPosition position_at(std::uint64_t step) {
  TrainingPosition position;
  position.step = step;
  position.consumed_samples = 16 * step;
  position.consumed_tokens = 1024 * step;
  position.data = {{"text", 16 * step, "print"}};
  position.optimizer = "adamw";
  position.learning_rate = 3e-4 / static_cast<double>(step + 1);
  position.seed = 42;
  position.config = "general:\n  seed: 42\n";
  return position;
}

/// Saves as the trainer does: every rank in the background, then rank 0.
inline std::filesystem::path save(const FakeModel& model, const std::filesystem::path& checkpoints,
                                  std::uint64_t step, const CheckpointProbe& probe = {},
                                  const std::string& attempt = "a1") {
  std::vector<std::unique_ptr<SnapshotWriter>> writers;
  const auto temporary = temporary_folder(checkpoints, step, attempt);
  for (std::size_t rank = 0; rank < model.ranks.size(); ++rank) {
    const auto& state = model.ranks[rank];
    writers.push_back(std::make_unique<SnapshotWriter>(static_cast<std::uint32_t>(rank), state.parameters,
                                                       state.states, probe));
    writers.back()->start(temporary);
  }
  std::vector<RankFiles> files;
  for (const auto& writer : writers) files.push_back(rank_files_from_text(to_text(writer->finish())));
  return commit_checkpoint(checkpoints, temporary, position_at(step), files, probe);
}

inline void restore(FakeModel& model, const std::filesystem::path& checkpoint) {
  const CheckpointReader reader(checkpoint);
  for (auto& rank : model.ranks) reader.restore(rank.parameters, rank.states);
}

/// A folder of its own for each test; anybody may look into it.
class CheckpointTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(::chmod(folder.c_str(), 0755), 0); }

  /// Names of everything in the folder of checkpoints, sorted.
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : std::filesystem::directory_iterator(checkpoints))
      all.push_back(entry.path().filename().string());
    std::sort(all.begin(), all.end());
    return all;
  }

  // in memory where that is possible: the many flushes of a slow disk would take most of the time
  const test::ScratchFolder scratch{::access("/dev/shm", W_OK) == 0 ? std::filesystem::path("/dev/shm")
                                                                    : std::filesystem::temp_directory_path()};
  const std::filesystem::path folder = scratch.path();
  const std::filesystem::path checkpoints = folder / "checkpoints";
};

/// Runs `body` in a child process and gives its wait status; what it throws makes it exit with 77.
inline int in_child(const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      body();
    } catch (const std::exception&) {
      ::_exit(77);
    }
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status;
}

}  // namespace weft
