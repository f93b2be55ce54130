#pragma once
// Where the tests find what lies in the tree. Functions and no macros, so that a test's object file does not
// depend on the folder it was compiled in and compiler caches serve every checkout.
#include <string>

namespace weft::test {

/// The root of the source tree.
[[nodiscard]] std::string source_dir();
/// `tests/data`.
[[nodiscard]] std::string data_dir();
/// The build folder.
[[nodiscard]] std::string binary_dir();

}  // namespace weft::test
