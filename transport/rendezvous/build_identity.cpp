#include "weft/transport/rendezvous/build_identity.h"

#include <elf.h>
#include <link.h>

#include <cstddef>
#include <cstring>

namespace weft {
namespace {

constexpr std::size_t padded(std::size_t bytes) { return (bytes + 3) / 4 * 4; }

std::string hexadecimal(const unsigned char* bytes, std::size_t count) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    text += digits[bytes[i] >> 4];
    text += digits[bytes[i] & 15];
  }
  return text;
}

/// Called for the program first; a result other than 0 ends the walk there.
int read_build_id(dl_phdr_info* program, std::size_t, void* result) {
  for (int i = 0; i < program->dlpi_phnum; ++i) {
    const auto& segment = program->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const auto* begin = reinterpret_cast<const unsigned char*>(program->dlpi_addr + segment.p_vaddr);
    std::size_t at = 0;
    while (at + sizeof(ElfW(Nhdr)) <= segment.p_memsz) {
      ElfW(Nhdr) note;
      std::memcpy(&note, begin + at, sizeof(note));
      const std::size_t name = at + sizeof(note);
      const std::size_t content = name + padded(note.n_namesz);
      if (content + note.n_descsz > segment.p_memsz) break;
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(begin + name, "GNU", 4) == 0) {
        *static_cast<std::string*>(result) = hexadecimal(begin + content, note.n_descsz);
        return 1;
      }
      at = content + padded(note.n_descsz);
    }
  }
  return 1;
}

}  // namespace

std::string build_identity() {
  std::string identity;
  dl_iterate_phdr(read_build_id, &identity);
  return identity.empty() ? std::string("compiler ") + __VERSION__ : identity;
}

}  // namespace weft
