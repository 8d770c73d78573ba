// Starting LLVM once, target machines, and turning LLVM's errors into ours.
#include "codegen/backend.h"

#include "support/error.h"

#include <llvm/IR/DiagnosticInfo.h>
#include <llvm/IR/DiagnosticPrinter.h>
#include <llvm/Support/ErrorHandling.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Target/TargetOptions.h>
#include <llvm/TargetParser/Triple.h>

#include <algorithm>
#include <memory>
#include <mutex>

namespace oxyfuel::codegen {
namespace {

struct CachedMachine {
  std::string key;
  std::unique_ptr<llvm::TargetMachine> machine;
};

thread_local CachedMachine cached_machine;

/// LLVM has no way to return from "cannot select" and the like. It is built with unwind tables, so an exception passes
/// through its frames; what they held is leaked, and the target machine that was in use is given up.
[[noreturn]] void throw_fatal_error(void *, const char *reason, bool) {
  cached_machine.key.clear();
  (void)cached_machine.machine.release();
  throw InternalError("LLVM cannot compile a kernel", {.found = reason});
}

/// LLVM would abort the process when it runs out of memory.
[[noreturn]] void throw_out_of_memory(void *, const char *, bool) {
  cached_machine.key.clear();
  (void)cached_machine.machine.release();
  throw std::bad_alloc();
}

void start_llvm() {
#ifdef OXYFUEL_LLVM_TARGET_X86
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
#endif
#ifdef OXYFUEL_LLVM_TARGET_AARCH64
  LLVMInitializeAArch64TargetInfo();
  LLVMInitializeAArch64Target();
  LLVMInitializeAArch64TargetMC();
  LLVMInitializeAArch64AsmPrinter();
#endif
#ifdef OXYFUEL_LLVM_TARGET_RISCV
  LLVMInitializeRISCVTargetInfo();
  LLVMInitializeRISCVTarget();
  LLVMInitializeRISCVTargetMC();
  LLVMInitializeRISCVAsmPrinter();
#endif
  llvm::install_fatal_error_handler(throw_fatal_error);
  llvm::install_bad_alloc_error_handler(throw_out_of_memory);
}

llvm::TargetOptions target_options() {
  llvm::TargetOptions options;
  // A fused multiply-add rounds once where eager rounds twice: only what the IR calls `fma` becomes one.
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  options.NoTrappingFPMath = true;
  options.EmulatedTLS = false;
  options.EmitAddrsig = false;
  return options;
}

} // namespace

const llvm::Target &find_backend(const std::string &triple) {
  static std::once_flag once;
  std::call_once(once, start_llvm);
  std::string error;
  const llvm::Target *backend = llvm::TargetRegistry::lookupTarget(llvm::Triple(triple), error);
  if (!backend)
    throw UnsupportedError("this build of Oxyfuel has no code generator for the architecture",
                           {.found = triple, .hint = "build with pip package mlc-llvm-static[all]"});
  return *backend;
}

llvm::TargetMachine &target_machine(const Target &target, int opt_level) {
  opt_level = std::clamp(opt_level, 0, 3);
  std::string key = target.text() + " O" + std::to_string(opt_level);
  if (cached_machine.key == key)
    return *cached_machine.machine;
  const llvm::Target &backend = find_backend(target.triple);
  std::string features = target.features;
  // Some processor models ask for 256-bit code because older chips lowered their clock for 512 bits; the schedule
  // decides here.
  if (target.has_avx512)
    features += (features.empty() ? "" : ",") + std::string("-prefer-256-bit");
  cached_machine.key.clear();
  cached_machine.machine.reset(backend.createTargetMachine(llvm::Triple(target.triple), target.cpu, features,
                                                           target_options(), llvm::Reloc::PIC_, llvm::CodeModel::Small,
                                                           static_cast<llvm::CodeGenOptLevel>(opt_level)));
  OXYFUEL_CHECK(cached_machine.machine, "LLVM makes no target machine for " + target.text());
  cached_machine.key = std::move(key);
  return *cached_machine.machine;
}

DiagnosticScope::DiagnosticScope(llvm::LLVMContext &context) : context_(context) {
  auto collect = [](const llvm::DiagnosticInfo *info, void *errors) {
    if (info->getSeverity() != llvm::DS_Error)
      return;
    llvm::raw_string_ostream stream(*static_cast<std::string *>(errors));
    llvm::DiagnosticPrinterRawOStream printer(stream);
    info->print(printer);
    stream << "\n";
  };
  context_.setDiagnosticHandlerCallBack(collect, &errors_);
}

DiagnosticScope::~DiagnosticScope() { context_.setDiagnosticHandlerCallBack(nullptr, nullptr); }

void DiagnosticScope::check(const char *stage) const {
  if (!errors_.empty())
    throw InternalError(std::string("LLVM reports an error in ") + stage,
                        {.found = errors_.substr(0, errors_.find_last_not_of('\n') + 1)});
}

} // namespace oxyfuel::codegen
