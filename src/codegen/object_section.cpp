#include "codegen/object_section.h"

#include <llvm/BinaryFormat/ELF.h>

#include <cstdint>
#include <cstring>

namespace oxyfuel::codegen {

namespace {

using llvm::ELF::Elf64_Ehdr;
using llvm::ELF::Elf64_Shdr;

/// A number at `offset`; 0 outside of the bytes.
template <class T> T read(std::span<const char> bytes, uint64_t offset) {
  T value{};
  if (offset <= bytes.size() && sizeof value <= bytes.size() - offset)
    std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

std::span<const char> part(std::span<const char> bytes, uint64_t offset, uint64_t size) {
  return offset <= bytes.size() && size <= bytes.size() - offset ? bytes.subspan(offset, size)
                                                                 : std::span<const char>();
}

} // namespace

std::span<const char> object_section(std::span<const char> object, std::string_view name) {
  auto header = read<Elf64_Ehdr>(object, 0);
  auto section = [&](unsigned index) {
    return read<Elf64_Shdr>(object, header.e_shoff + uint64_t{index} * sizeof(Elf64_Shdr));
  };
  Elf64_Shdr names = section(header.e_shstrndx);
  std::span<const char> texts = part(object, names.sh_offset, names.sh_size);
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr candidate = section(i);
    std::span<const char> text = part(texts, candidate.sh_name, name.size() + 1);
    if (!text.empty() && std::string_view(text.data(), name.size()) == name && text.back() == 0)
      return part(object, candidate.sh_offset, candidate.sh_size);
  }
  return {};
}

} // namespace oxyfuel::codegen
