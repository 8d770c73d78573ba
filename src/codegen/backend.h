// What every user of LLVM in this layer shares: start-up, target machines, errors. Includes LLVM: only for .cpp files
// of codegen.
#pragma once

#include "codegen/target.h"

#include <llvm/IR/LLVMContext.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Target/TargetMachine.h>

#include <string>

namespace oxyfuel::codegen {

/// The LLVM back end for `triple`; starts LLVM on the first call, from any thread. Throws UnsupportedError when this
/// build has none.
const llvm::Target &find_backend(const std::string &triple);

/// A target machine with our options: position independent, small code model, no contraction. `opt_level` is 0 to 3.
/// Kept for the calling thread until it asks for another, because making one takes as long as compiling a small kernel.
llvm::TargetMachine &target_machine(const Target &target, int opt_level);

/// Collects the errors that LLVM reports while it lives: those about `context` and the fatal ones. Without it the first
/// kind ends the process and the second kind aborts it.
class DiagnosticScope {
public:
  explicit DiagnosticScope(llvm::LLVMContext &context);
  ~DiagnosticScope();
  DiagnosticScope(const DiagnosticScope &) = delete;

  /// Throws InternalError with what was reported for `stage`, if anything was.
  void check(const char *stage) const;

private:
  llvm::LLVMContext &context_;
  std::string errors_;
};

} // namespace oxyfuel::codegen
