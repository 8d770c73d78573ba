// Loop IR kernels → image: the entry of this layer. Free of LLVM headers.
#pragma once

#include "codegen/link.h"
#include "codegen/target.h"
#include "ir/loop/loop.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace oxyfuel::codegen {

struct CompileOptions {
  Target target = host_target();
  /// 0: plain code, for debugging; 1 to 3 as in emit.h.
  int opt_level = 2;
  /// Runs LLVM's verifier on the module (always when `OXYFUEL_VERIFY` is set).
  bool verify = false;
  /// bfloat16 contractions may use the processor's dot product, which flushes denormals and rounds in another order.
  bool use_dot_products = true;
  /// Makes unwind tables (Image::unwind): debuggers find the caller of a kernel. Costs no code.
  bool unwind_tables = true;
  /// Keeps the ELF file (Image::debug).
  bool debug_info = false;
  /// Folder for `<dump_name>.oxir`, `.ll` (after the passes) and `.s`; empty: no dumps.
  std::string dump_dir;
  std::string dump_name = "kernel";
};

/// Milliseconds of each stage.
struct CompileTimes {
  double lower = 0, passes = 0, machine_code = 0, link = 0;
};

struct CompiledKernels {
  Image image;
  /// Offset of each kernel's entry (an OxyfuelKernel, runtime/abi.h) in the image, in the order given.
  std::vector<uint64_t> entries;
  CompileTimes times;
};

/// Compiles kernels into one image; equal input gives equal bytes. The functions of vector maths must be expanded
/// (passes/loop/expand_math.h) and scratch buffers placed (assign_scratch). Several threads may compile at once,
/// different kernels each: a kernel's expression context is used. Throws InternalError.
CompiledKernels compile_kernels(std::span<const loop::Kernel *const> kernels, const CompileOptions &options = {});

} // namespace oxyfuel::codegen
