#pragma once
// What lies where a file of weights or its config.json should be: the usual mistakes, by name.
#include <string>
#include <string_view>

namespace weft {

/// Says what a file is, by its first bytes, and what to do about it: a git-LFS pointer, a page of a web
/// server, a PyTorch, GGUF, HDF5 or compressed file, nothing but zeros, nothing at all. Empty for anything
/// else.
[[nodiscard]] std::string foreign_file(std::string_view bytes);

}  // namespace weft
