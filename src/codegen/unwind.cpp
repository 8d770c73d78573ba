#include "codegen/unwind.h"

#include <llvm/BinaryFormat/ELF.h>

#include <cstdint>
#include <cstring>
#include <string_view>

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

std::span<const char> find_section(std::span<const char> object, std::string_view name) {
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

} // namespace

std::vector<std::byte> unwind_instructions(std::span<const char> object) {
  // length[4], then 0[4] for a common entry or the distance to it; function[4], size[4], length of augmentation data
  // (LEB128, 0 as kernels have no personality), instructions.
  constexpr uint64_t kFirstInstruction = 17;
  std::span<const char> frames = find_section(object, ".eh_frame");
  std::vector<std::byte> found;
  uint64_t length = 0;
  for (uint64_t at = 0; (length = read<uint32_t>(frames, at)) != 0; at += 4 + length) {
    std::span<const char> entry = part(frames, at, 4 + length);
    if (read<uint32_t>(entry, 4) == 0 || entry.size() < kFirstInstruction)
      continue;
    if (!found.empty() || entry[kFirstInstruction - 1] != 0)
      return {};
    auto *first = reinterpret_cast<const std::byte *>(entry.data());
    found.assign(first + kFirstInstruction, first + entry.size());
  }
  return found;
}

} // namespace oxyfuel::codegen
