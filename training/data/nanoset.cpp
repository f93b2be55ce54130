#include "weft/training/data/nanoset.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "weft/base/byte_order.h"
#include "weft/base/error.h"
#include "weft/training/data/permutation.h"

namespace weft {
namespace {

std::vector<std::string> ds_files(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code problem;
  for (std::filesystem::directory_iterator entry(folder, problem), end; !problem && entry != end;
       entry.increment(problem)) {
    if (entry->path().extension() == ".ds") files.push_back(entry->path().string());
  }
  if (problem) throw Error(fmt::format("{} cannot be read: {}", folder, problem.message()));
  if (files.empty()) throw Error(folder + " holds no .ds file");
  std::sort(files.begin(), files.end());
  return files;
}

/// Bytes per token from the first line of `FILE.metadata`, `tokenizer|bytes`; none when there is no such
/// file.
std::optional<std::uint64_t> metadata_token_bytes(const std::string& file) {
  const std::string path = file + ".metadata";
  std::ifstream stream(path);
  if (!stream) return std::nullopt;
  constexpr std::size_t longest = 4096;
  std::string line(longest, '\0');
  stream.read(line.data(), static_cast<std::streamsize>(line.size()));
  line.resize(static_cast<std::size_t>(stream.gcount()));
  line.resize(std::min(line.find('\n'), line.size()));
  const std::size_t bar = line.rfind('|');
  std::uint64_t bytes = 0;
  const char* end = line.data() + line.size();
  const bool is_number =
      bar != std::string::npos && std::from_chars(line.data() + bar + 1, end, bytes).ptr == end;
  if (!is_number || (bytes != 2 && bytes != 4)) {
    throw Error(path + " does not start with `tokenizer|2` or `tokenizer|4`");
  }
  return bytes;
}

std::uint64_t token_bytes_of(const std::string& file, std::optional<std::uint64_t> configured) {
  const std::optional<std::uint64_t> found = metadata_token_bytes(file);
  if (!found && !configured) {
    throw Error(fmt::format("{} has no .metadata file, so token_size_in_bytes must be given", file));
  }
  if (found && configured && *found != *configured) {
    throw Error(
        fmt::format("{} has tokens of {} bytes, token_size_in_bytes is {}", file, *found, *configured));
  }
  return configured.value_or(found.value_or(0));
}

/// The documents' ends rise to the number of tokens.
void check_index(const TokenWindows& tokens) {
  const std::string path = tokens.path() + ".index";
  if (!std::filesystem::exists(path)) return;
  const ReadableFile index(path);
  constexpr std::size_t entry = sizeof(std::uint64_t);
  if (index.size() == 0) throw Error(path + " is empty");
  if (index.size() % entry != 0) throw Error(path + " is no list of 8-byte numbers");
  std::uint64_t last = 0;
  std::vector<std::byte> piece(std::min<std::uint64_t>(index.size(), 1 << 20));
  for (std::uint64_t offset = 0; offset < index.size(); offset += piece.size()) {
    piece.resize(std::min<std::uint64_t>(piece.size(), index.size() - offset));
    index.read(offset, piece);
    for (std::size_t at = 0; at < piece.size(); at += entry) {
      const auto document_end = load_le<std::uint64_t>(piece.data() + at);
      if (document_end < last)
        throw Error(
            fmt::format("{} falls from {} to {} at offset {}", path, last, document_end, offset + at));
      last = document_end;
    }
  }
  if (last != tokens.token_count()) {
    throw Error(
        fmt::format("{} ends at token {}, its .ds file has {} tokens", path, last, tokens.token_count()));
  }
}

}  // namespace

DsFolder::DsFolder(const std::string& folder, std::optional<std::uint64_t> token_bytes, std::uint64_t window,
                   std::uint64_t vocab_size) {
  std::uint64_t windows = 0;
  for (const std::string& file : ds_files(folder)) {
    files_.emplace_back(file, token_bytes_of(file, token_bytes), window, vocab_size);
    check_index(files_.back());
    windows += files_.back().window_count();
    ends_.push_back(windows);
  }
  if (windows == 0) {
    throw Error(
        fmt::format("{} holds no file with one sample of sequence_length + 1 = {} tokens", folder, window));
  }
}

void DsFolder::read(std::uint64_t i, std::span<std::int32_t> tokens) const {
  const auto file = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), i) - ends_.begin());
  files_[file].read(file == 0 ? i : i - ends_[file - 1], tokens);
}

void DsFolder::check() const {
  for (const TokenWindows& file : files_) file.check();
}

Nanoset::Nanoset(std::vector<DsFolder> folders, const std::vector<double>& weights, std::uint64_t seed)
    : folders_(std::move(folders)), seed_(seed) {
  for (const DsFolder& folder : folders_) windows_ += folder.window_count();
  if (!weights.empty()) make_blend(weights);
}

void Nanoset::make_blend(const std::vector<double>& weights) {
  constexpr std::size_t block = 10'000;
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  shares_.assign(folders_.size(), 0);
  for (std::size_t place = 0; place < block; ++place) {
    std::size_t behind = 0;
    double largest = 0;
    for (std::size_t f = 0; f < folders_.size(); ++f) {
      const double missing =
          weights[f] / sum * static_cast<double>(place + 1) - static_cast<double>(shares_[f]);
      if (f == 0 || missing > largest) {
        behind = f;
        largest = missing;
      }
    }
    blend_.push_back({static_cast<std::uint32_t>(behind), static_cast<std::uint32_t>(shares_[behind])});
    ++shares_[behind];
  }
}

void Nanoset::read(std::uint64_t n, std::span<std::int32_t> tokens) const {
  if (blend_.empty()) {
    std::uint64_t window = Permutation(seed_, n / windows_, windows_).at(n % windows_);
    std::size_t f = 0;
    for (; window >= folders_[f].window_count(); ++f) window -= folders_[f].window_count();
    folders_[f].read(window, tokens);
    return;
  }
  const Place& place = blend_[n % blend_.size()];
  const std::uint64_t taken = n / blend_.size() * shares_[place.folder] + place.before;
  const DsFolder& folder = folders_[place.folder];
  const std::uint64_t count = folder.window_count();
  // Each folder draws from streams of its own: epochs count below 2^40, folders above.
  const std::uint64_t stream = (static_cast<std::uint64_t>(place.folder) << 40) | (taken / count);
  folder.read(Permutation(seed_, stream, count).at(taken % count), tokens);
}

void Nanoset::check() const {
  for (std::size_t f = 0; f < folders_.size(); ++f) {
    try {
      folders_[f].check();
    } catch (const Error& e) {
      throw DatasetItemError(f, e.what());
    }
  }
}

}  // namespace weft
