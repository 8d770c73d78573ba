// Loop IR kernel → LLVM function. Includes no LLVM header, but names its types.
#pragma once

#include "codegen/target.h"
#include "ir/loop/loop.h"

namespace llvm {
class Function;
class Module;
} // namespace llvm

namespace oxyfuel::codegen {

struct LowerOptions {
  /// Contractions of bfloat16 with two elements side by side (`depth_pack == 2`) use the processor's dot product. It
  /// flushes denormals and rounds otherwise than a chain of fma.
  bool use_dot_products = true;
};

/// Adds `kernel` to `module` (which `prepare_module` has set up) as an external function `name` of type OxyfuelKernel.
/// Its functions of vector maths must be expanded and its scratch buffers placed. Expressions are made in the kernel's
/// context, so one thread at a time lowers a kernel. Throws InternalError for what codegen has no rule for.
llvm::Function *lower_kernel(const loop::Kernel &kernel, const std::string &name, llvm::Module &module,
                             const Target &target, const LowerOptions &options = {});

} // namespace oxyfuel::codegen
