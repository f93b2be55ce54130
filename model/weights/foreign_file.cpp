#include "weft/model/weights/foreign_file.h"

#include <algorithm>
#include <cctype>

namespace weft {
namespace {

constexpr std::size_t looked_at = 4096;

/// Whether `text` begins with `start`, whatever the case of its letters; `start` is in lower case.
bool begins_with(std::string_view text, std::string_view start) {
  return text.size() >= start.size() &&
         std::equal(start.begin(), start.end(), text.begin(),
                    [](char a, char b) { return a == std::tolower(static_cast<unsigned char>(b)); });
}

std::string lfs_pointer(std::string_view bytes) {
  std::string text = "is a git-LFS pointer, not the file itself";
  const std::size_t at = bytes.find("\nsize ");
  if (at != std::string_view::npos) {
    std::string_view size = bytes.substr(at + 6, 20);
    size = size.substr(0, size.find_first_not_of("0123456789"));
    if (!size.empty()) text += " of " + std::string(size) + " bytes";
  }
  return text + "; fetch it with `git lfs pull`, or download it again";
}

}  // namespace

std::string foreign_file(std::string_view bytes) {
  using namespace std::string_view_literals;
  bytes = bytes.substr(0, looked_at);
  if (bytes.empty()) return "is empty: its download or copy has not finished; get it again";
  if (bytes.starts_with("version https://git-lfs")) return lfs_pointer(bytes);
  const std::size_t start = bytes.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  const std::string_view text = start == std::string_view::npos ? std::string_view() : bytes.substr(start);
  if (begins_with(text, "<!doctype") || begins_with(text, "<html") || begins_with(text, "<?xml") ||
      begins_with(text, "<error"))
    return "is a page of a web server (of an error or a log-in), not the file itself; download it again";
  const std::string convert = "; save it as safetensors first (transformers: save_pretrained)";
  if (bytes.starts_with("PK\x03\x04"sv))
    return "is a zip archive, as PyTorch saves pickles (.bin, .pt): weft does not read pickles" + convert;
  if (bytes.size() > 1 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5)
    return "is a Python pickle: weft does not read pickles" + convert;
  if (bytes.starts_with("GGUF")) return "is a GGUF file" + convert;
  if (bytes.starts_with("\x89HDF")) return "is an HDF5 file, as TensorFlow saves weights" + convert;
  if (bytes.starts_with("\x1f\x8b") || bytes.starts_with("\x28\xb5\x2f\xfd"))
    return "is compressed; unpack it first";
  if (bytes.size() >= 8 && bytes.find_first_not_of('\0') == std::string_view::npos)
    return "begins with zeros only: its download or copy has not finished; get it again";
  return {};
}

}  // namespace weft
