#include "weft/base/files/mapped_file.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/files/readable_file.h"

namespace weft {
MappedFile::MappedFile(const std::filesystem::path& path) {
  const ReadableFile file(path);
  size_ = static_cast<std::size_t>(file.size());
  if (size_ == 0) return;
  void* mapped = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (mapped == MAP_FAILED) throw Error(path.string() + " cannot be mapped: " + std::strerror(errno));
  data_ = static_cast<const std::byte*>(mapped);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

}  // namespace weft
