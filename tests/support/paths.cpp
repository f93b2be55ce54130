#include "paths.h"

namespace weft::test {

std::string source_dir() { return WEFT_SOURCE_DIR; }
std::string data_dir() { return WEFT_SOURCE_DIR "/tests/data"; }
std::string binary_dir() { return WEFT_BINARY_DIR; }

}  // namespace weft::test
