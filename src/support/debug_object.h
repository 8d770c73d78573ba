// An object file in memory that describes code which lies elsewhere in this process: names, places in the user's
// program and how to unwind, for debuggers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace oxyfuel {

/// One function among code that was made in this process.
struct CodeSymbol {
  const uint8_t *start = nullptr;
  size_t size = 0;
  std::string name;
  std::string file; ///< in the user's program; empty when unknown
  int line = 0;
  /// Its call frame instructions as a DWARF 4 description entry has them, to be run after those of the architecture's
  /// entry (code alignment 1; on x86-64 data alignment -8, CFA rsp + 8, return address at CFA - 8). Empty: unknown.
  std::vector<uint8_t> unwind;
};

/// A relocatable ELF file whose .text holds no bytes but the address of the lowest symbol: symbols, line numbers and
/// unwind tables of `symbols`, which is not empty. Empty where the architecture is not described.
std::vector<uint8_t> make_debug_object(const std::vector<CodeSymbol> &symbols);

} // namespace oxyfuel
