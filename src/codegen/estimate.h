// What code costs by LLVM's model of a processor, without running it: a measure that is the same on every machine.
#pragma once

#include "codegen/target.h"

#include <cstddef>
#include <span>
#include <vector>

namespace oxyfuel::codegen {

/// A loop that contains no other.
struct LoopEstimate {
  int instructions = 0;
  double cycles = 0; ///< an iteration, when it runs for long and all its data is in the first cache
};

struct CodeEstimate {
  int instructions = 0;            ///< of the whole function
  std::vector<LoopEstimate> loops; ///< innermost ones, in the order of the code
};

/// Reads the machine code of an ELF object that `compile_kernels` made (Image::debug) and simulates its innermost loops
/// with llvm-mca's library, on the processor model of `target`. Throws InternalError for code that cannot be read.
CodeEstimate estimate_code(std::span<const std::byte> object, const Target &target);

} // namespace oxyfuel::codegen
