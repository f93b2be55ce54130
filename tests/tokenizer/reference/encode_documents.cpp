// encode_documents TOKENIZER: for the comparison with other tokenizers. Reads documents from standard input,
// each a 32-bit length and so many bytes; writes for each the number of ids, the ids, the length of the
// decoded text (special tokens kept) and the text; little-endian.
#include <cstdio>
#include <exception>
#include <iostream>

#include "weft/tokenizer/tokenizer.h"

namespace {

void write_number(std::uint32_t number) {
  char bytes[4];
  for (int i = 0; i < 4; ++i) bytes[i] = static_cast<char>(number >> (8 * i));
  std::cout.write(bytes, 4);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto tokenizer = weft::load_tokenizer(argc == 2 ? argv[1] : "");
    std::vector<std::uint32_t> ids;
    for (unsigned char length[4]; std::cin.read(reinterpret_cast<char*>(length), 4);) {
      std::string text(length[0] | length[1] << 8 | length[2] << 16 | std::size_t{length[3]} << 24, '\0');
      std::cin.read(text.data(), static_cast<std::streamsize>(text.size()));
      ids.clear();
      tokenizer->encode(text, ids);
      write_number(static_cast<std::uint32_t>(ids.size()));
      for (const std::uint32_t id : ids) write_number(id);
      const std::string decoded = tokenizer->decode(ids, weft::SpecialTokens::keep);
      write_number(static_cast<std::uint32_t>(decoded.size()));
      std::cout.write(decoded.data(), static_cast<std::streamsize>(decoded.size()));
    }
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
