// LLVM IR → object file: a short pass pipeline tuned for compile time, then machine code.
#pragma once

#include "codegen/target.h"

#include <string>
#include <string_view>
#include <vector>

namespace llvm {
class Module;
}

namespace oxyfuel::codegen {

/// Milliseconds that each stage of one `emit_object` took.
struct EmitTimes {
  double verify = 0, passes = 0, machine_code = 0;
};

struct EmitOptions {
  /// 0: no passes, plain code; 1 to 3: the pass pipeline, and LLVM's effort in instruction selection and register
  /// allocation.
  int opt_level = 2;
  /// Writes unwind tables (`.eh_frame`) for debuggers; kernels never unwind.
  bool unwind_tables = false;
  /// Where to put the IR after the passes, and the assembly text; for dumps, null means not wanted.
  std::string *optimised_ir = nullptr;
  std::string *assembly = nullptr;
};

/// True when LLVM's verifier runs on all modules: `OXYFUEL_VERIFY` is set in the environment to something else than 0.
bool verify_modules();

/// Sets triple, data layout and module flags. Call it on an empty module before building IR in it, because constant
/// folding and alignments follow the data layout.
void prepare_module(llvm::Module &module, const Target &target);

/// Optimises `module` in place and returns a relocatable ELF object for `link_flat`. The module's context is used by
/// this thread only; different contexts may be used by several threads at once. No function may be expected to unwind.
///
/// Nothing is vectorised; loops are unrolled only when their `llvm.loop` metadata says so; no call of a library
/// function is recognised or made up, save those that builtins.h supplies. Functions with external linkage and default
/// visibility become exports of the image, all others should be `internal` or `private`.
///
/// Throws InternalError when the verifier rejects the module or LLVM cannot select instructions.
std::vector<char> emit_object(llvm::Module &module, const Target &target, const EmitOptions &options = {},
                              EmitTimes *times = nullptr);

/// The same for the text of a module, as a dump has it. Its triple and data layout are replaced by the target's. Throws
/// CompileError with line and column when the text does not parse.
std::vector<char> emit_object_from_text(std::string_view text, const Target &target, const EmitOptions &options = {},
                                        EmitTimes *times = nullptr);

} // namespace oxyfuel::codegen
