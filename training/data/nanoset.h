#pragma once
// Folders of `.ds` token files, as datatrove writes them for Nanotron.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/training/data/dataset.h"
#include "weft/training/data/token_windows.h"

namespace weft {

/// The `.ds` files of one folder, sorted by name, each cut into windows of its own. Beside a file may lie
/// `.ds.metadata` (first line `tokenizer|bytes per token`) and `.ds.index` (the documents' ends in tokens, 8
/// bytes each).
class DsFolder {
 public:
  /// `token_bytes`: none = as the metadata say. Throws Error, naming the file, for a folder without `.ds`
  /// files or without one whole window, a token size that is unknown or differs, and an index that does not
  /// fit its file.
  DsFolder(const std::string& folder, std::optional<std::uint64_t> token_bytes, std::uint64_t window,
           std::uint64_t vocab_size);

  [[nodiscard]] std::uint64_t window_count() const noexcept { return ends_.back(); }
  void read(std::uint64_t i, std::span<std::int32_t> tokens) const;
  void check() const;

 private:
  std::vector<TokenWindows> files_;
  std::vector<std::uint64_t> ends_;  ///< of each file, in windows from the first one's start
};

/// Without weights, an epoch is every window of all folders once, in an order drawn anew for every (seed,
/// epoch). With weights, samples are blended: of every 10 000 samples each folder gives its share, always the
/// one that is furthest behind, and goes through its own windows in an order drawn anew for each of its
/// epochs. (Nanotron blends by the same greedy rule; its orders come from NumPy's generator, so they differ.)
/// Labels at the start of documents are not masked.
class Nanoset final : public Dataset {
 public:
  /// `weights` is empty or holds one positive number per folder. Throws Error.
  Nanoset(std::vector<DsFolder> folders, const std::vector<double>& weights, std::uint64_t seed);

  [[nodiscard]] std::uint64_t sample_count() const override { return endless; }
  void read(std::uint64_t n, std::span<std::int32_t> tokens) const override;
  void check() const override;

 private:
  void make_blend(const std::vector<double>& weights);

  /// One place of the blend: which folder, and how many places of it come before in the block.
  struct Place {
    std::uint32_t folder;
    std::uint32_t before;
  };

  std::vector<DsFolder> folders_;
  std::uint64_t windows_ = 0;          // of all folders
  std::vector<Place> blend_;           // one block; empty without weights
  std::vector<std::uint64_t> shares_;  // places of each folder in a block
  std::uint64_t seed_;
};

}  // namespace weft
