#include "codegen/unwind.h"

#include "codegen/object_section.h"

#include <cstdint>
#include <cstring>

namespace oxyfuel::codegen {

namespace {

/// 0 outside of the bytes.
uint32_t read(std::span<const char> bytes, uint64_t offset) {
  uint32_t value = 0;
  if (offset <= bytes.size() && sizeof value <= bytes.size() - offset)
    std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

} // namespace

std::vector<std::byte> unwind_instructions(std::span<const char> object) {
  // length[4], then 0[4] for a common entry or the distance to it; function[4], size[4], length of augmentation data
  // (LEB128, 0 as kernels have no personality), instructions.
  constexpr uint64_t kFirstInstruction = 17;
  std::span<const char> frames = object_section(object, ".eh_frame");
  std::vector<std::byte> found;
  uint64_t length = 0;
  for (uint64_t at = 0; (length = read(frames, at)) != 0; at += 4 + length) {
    if (length > frames.size() - at - 4)
      return {};
    std::span<const char> entry = frames.subspan(at, 4 + length);
    if (read(entry, 4) == 0 || entry.size() < kFirstInstruction)
      continue;
    if (!found.empty() || entry[kFirstInstruction - 1] != 0)
      return {};
    auto *first = reinterpret_cast<const std::byte *>(entry.data());
    found.assign(first + kFirstInstruction, first + entry.size());
  }
  return found;
}

} // namespace oxyfuel::codegen
