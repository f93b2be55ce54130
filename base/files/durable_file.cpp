#include "weft/base/files/durable_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/files/readable_file.h"

namespace weft {
namespace {

constexpr std::size_t chunk_bytes = std::size_t{4} << 20;

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& what, int error) {
  throw CheckpointError(path.string() + ": " + what + ": " + std::strerror(error));
}

/// Hands the whole file to `take`, piece by piece, up to the end that it has now.
template <class Take>
void read_pieces(const ReadableFile& file, Take take) {
  // the whole file, with room to notice its end, or a chunk of it
  std::vector<std::byte> buffer(std::min<std::uint64_t>(chunk_bytes, file.size() + 1));
  for (std::uint64_t offset = 0;;) {
    const std::size_t got = file.read_up_to(offset, buffer);
    take(std::span(buffer).first(got));
    offset += got;
    if (got < buffer.size()) return;
  }
}

}  // namespace

DurableFile::DurableFile(std::filesystem::path path)
    : path_(std::move(path)),
      descriptor_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644)) {
  if (!descriptor_) fail(path_, "cannot be created", errno);
}

DurableFile::~DurableFile() {
  descriptor_.close();
  if (!finished_) ::unlink(path_.c_str());
}

void DurableFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), chunk_bytes));
    const std::string_view text(reinterpret_cast<const char*>(piece.data()), piece.size());
    if (const int error = write_fully(descriptor_.number(), text)) fail(path_, "cannot be written", error);
    hash_.update(piece);
    bytes_ += piece.size();
    bytes = bytes.subspan(piece.size());
  }
}

FileRecord DurableFile::finish() {
  if (::fsync(descriptor_.number()) != 0) fail(path_, "cannot be flushed", errno);
  if (const int error = descriptor_.close()) fail(path_, "cannot be closed", error);
  finished_ = true;
  return {path_.filename().string(), bytes_, hash_.hex()};
}

void sync_folder(const std::filesystem::path& folder) {
  const Descriptor descriptor(
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!descriptor) fail(folder, "cannot be opened", errno);
  if (::fsync(descriptor.number()) != 0) fail(folder, "cannot be flushed", errno);
}

void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) fail(from, "cannot be renamed to " + to.string(), errno);
  sync_folder(to.parent_path());
}

std::filesystem::path temporary_sibling(const std::filesystem::path& path) {
  static std::atomic<std::uint64_t> names{0};
  return path.parent_path() / fmt::format(".{}.tmp-{}-{}", path.filename().string(), ::getpid(), ++names);
}

void replace_file(const std::filesystem::path& path, std::string_view text) {
  const auto temporary = temporary_sibling(path);
  ::unlink(temporary.c_str());  // left by a killed process that had this one's number
  DurableFile file(temporary);
  file.write(text);
  file.finish();
  try {
    rename_durably(temporary, path);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

std::string read_small_file(const std::filesystem::path& path, std::size_t limit) {
  return as_checkpoint_error([&] {
    const ReadableFile file(path);
    std::string text;
    read_pieces(file, [&](std::span<const std::byte> piece) {
      text.append(reinterpret_cast<const char*>(piece.data()), piece.size());
      if (text.size() > limit)
        throw CheckpointError(path.string() + ": is longer than " + std::to_string(limit) + " bytes");
    });
    return text;
  });
}

FileRecord hash_file(const std::filesystem::path& path) {
  return as_checkpoint_error([&] {
    const ReadableFile file(path);
    // what is still in the page cache would not show what the medium holds
    ::posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_DONTNEED);
    FileRecord record{path.filename().string(), 0, ""};
    Sha256 hash;
    read_pieces(file, [&](std::span<const std::byte> piece) {
      hash.update(piece);
      record.bytes += piece.size();
    });
    record.sha256 = hash.hex();
    return record;
  });
}

}  // namespace weft
