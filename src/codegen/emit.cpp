// The pass pipeline is put together by hand: LLVM's default one spends most of its time in passes that look for what
// our lowering has already done (vectorising, unrolling) or must not do (finding memcpy in loops). Analyses are
// registered by hand too, which leaves out the hundreds that PassBuilder makes.
#include "codegen/emit.h"

#include "codegen/backend.h"
#include "support/error.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/Analysis/AliasAnalysis.h>
#include <llvm/Analysis/AssumptionCache.h>
#include <llvm/Analysis/BasicAliasAnalysis.h>
#include <llvm/Analysis/BlockFrequencyInfo.h>
#include <llvm/Analysis/BranchProbabilityInfo.h>
#include <llvm/Analysis/LastRunTrackingAnalysis.h>
#include <llvm/Analysis/LoopAnalysisManager.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/MemorySSA.h>
#include <llvm/Analysis/OptimizationRemarkEmitter.h>
#include <llvm/Analysis/PostDominators.h>
#include <llvm/Analysis/ProfileSummaryInfo.h>
#include <llvm/Analysis/RuntimeLibcallInfo.h>
#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/Analysis/ScopedNoAliasAA.h>
#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/Analysis/TargetTransformInfo.h>
#include <llvm/Analysis/TypeBasedAliasAnalysis.h>
#include <llvm/AsmParser/Parser.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/PassManager.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/MemoryBuffer.h>
#include <llvm/Support/SourceMgr.h>
#include <llvm/Support/raw_ostream.h>
#include <llvm/Transforms/IPO/AlwaysInliner.h>
#include <llvm/Transforms/IPO/GlobalDCE.h>
#include <llvm/Transforms/InstCombine/InstCombine.h>
#include <llvm/Transforms/Scalar/EarlyCSE.h>
#include <llvm/Transforms/Scalar/LICM.h>
#include <llvm/Transforms/Scalar/LoopPassManager.h>
#include <llvm/Transforms/Scalar/LoopUnrollPass.h>
#include <llvm/Transforms/Scalar/SROA.h>
#include <llvm/Transforms/Scalar/SimplifyCFG.h>
#include <llvm/Transforms/Utils/Cloning.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <utility>

namespace oxyfuel::codegen {
namespace {

class Stopwatch {
public:
  double lap() {
    auto now = std::chrono::steady_clock::now();
    return std::chrono::duration<double, std::milli>(now - std::exchange(start_, now)).count();
  }

private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// No function of the module is taken for the C library's, and none is made up.
llvm::TargetLibraryInfoImpl no_library(const llvm::Module &module) {
  llvm::TargetLibraryInfoImpl library(module.getTargetTriple());
  library.disableAllFunctions();
  return library;
}

/// Attributes that instruction selection reads from each function.
void set_attributes(llvm::Module &module, const Target &target, const EmitOptions &options) {
  std::string bits = std::to_string(target.vector_bits);
  for (llvm::Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.setDoesNotThrow();
    function.setDSOLocal(true);
    function.setUWTableKind(options.unwind_tables ? llvm::UWTableKind::Async : llvm::UWTableKind::None);
    function.addFnAttr("prefer-vector-width", bits);
    function.addFnAttr("min-legal-vector-width", bits);
    function.addFnAttr("no-builtins");
  }
  for (llvm::GlobalVariable &global : module.globals())
    if (!global.isDeclaration())
      global.setDSOLocal(true);
}

/// The managers refer to each other, so they live and die together.
struct Analyses {
  llvm::LoopAnalysisManager loop;
  llvm::FunctionAnalysisManager function;
  llvm::ModuleAnalysisManager module;

  Analyses(llvm::TargetMachine &machine, const llvm::TargetLibraryInfoImpl &library) {
    using namespace llvm;
    module.registerPass([] { return PassInstrumentationAnalysis(); });
    module.registerPass([] { return ProfileSummaryAnalysis(); });
    module.registerPass([] { return LastRunTrackingAnalysis(); });
    module.registerPass([this] { return FunctionAnalysisManagerModuleProxy(function); });

    function.registerPass([] { return PassInstrumentationAnalysis(); });
    function.registerPass([] {
      AAManager alias;
      alias.registerFunctionAnalysis<BasicAA>();
      alias.registerFunctionAnalysis<ScopedNoAliasAA>();
      alias.registerFunctionAnalysis<TypeBasedAA>();
      return alias;
    });
    function.registerPass([] { return BasicAA(); });
    function.registerPass([] { return ScopedNoAliasAA(); });
    function.registerPass([] { return TypeBasedAA(); });
    function.registerPass([] { return AssumptionAnalysis(); });
    function.registerPass([] { return DominatorTreeAnalysis(); });
    function.registerPass([] { return PostDominatorTreeAnalysis(); });
    function.registerPass([] { return LoopAnalysis(); });
    function.registerPass([] { return ScalarEvolutionAnalysis(); });
    function.registerPass([] { return MemorySSAAnalysis(); });
    function.registerPass([] { return BranchProbabilityAnalysis(); });
    function.registerPass([] { return BlockFrequencyAnalysis(); });
    function.registerPass([] { return OptimizationRemarkEmitterAnalysis(); });
    function.registerPass([] { return LastRunTrackingAnalysis(); });
    function.registerPass([&] { return machine.getTargetIRAnalysis(); });
    function.registerPass([&] { return TargetLibraryAnalysis(library); });
    function.registerPass([this] { return ModuleAnalysisManagerFunctionProxy(module); });
    function.registerPass([this] { return LoopAnalysisManagerFunctionProxy(loop); });

    loop.registerPass([] { return PassInstrumentationAnalysis(); });
    loop.registerPass([this] { return FunctionAnalysisManagerLoopProxy(function); });
  }
};

bool any_function(const llvm::Module &module, llvm::Attribute::AttrKind attribute) {
  for (const llvm::Function &function : module)
    if (!function.isDeclaration() && function.hasFnAttribute(attribute))
      return true;
  return false;
}

/// Whether some loop carries metadata, the only place where unrolling is asked for.
bool any_loop_metadata(const llvm::Module &module) {
  for (const llvm::Function &function : module)
    for (const llvm::BasicBlock &block : function)
      if (const llvm::Instruction *end = block.getTerminator(); end && end->getMetadata(llvm::LLVMContext::MD_loop))
        return true;
  return false;
}

void run_passes(llvm::Module &module, llvm::TargetMachine &machine, const llvm::TargetLibraryInfoImpl &library) {
  using namespace llvm;
  Analyses analyses(machine, library);
  ModulePassManager passes;
  if (any_function(module, Attribute::AlwaysInline)) {
    passes.addPass(AlwaysInlinerPass(/*InsertLifetime=*/false));
    passes.addPass(GlobalDCEPass());
  }

  FunctionPassManager functions;
  functions.addPass(SROAPass(SROAOptions::ModifyCFG));
  functions.addPass(EarlyCSEPass(/*UseMemorySSA=*/false));
  functions.addPass(InstCombinePass());
  functions.addPass(SimplifyCFGPass());
  functions.addPass(createFunctionToLoopPassAdaptor(LICMPass(LICMOptions()), /*UseMemorySSA=*/true));
  if (any_loop_metadata(module)) {
    functions.addPass(LoopUnrollPass(LoopUnrollOptions(/*OptLevel=*/2, /*OnlyWhenForced=*/true)));
    // Unrolled array elements of constant index become registers, and loop-invariant ones leave the outer loop.
    functions.addPass(SROAPass(SROAOptions::ModifyCFG));
    functions.addPass(createFunctionToLoopPassAdaptor(LICMPass(LICMOptions()), /*UseMemorySSA=*/true));
  }
  functions.addPass(EarlyCSEPass(/*UseMemorySSA=*/true));
  functions.addPass(InstCombinePass());
  functions.addPass(SimplifyCFGPass(SimplifyCFGOptions().needCanonicalLoops(false)));
  passes.addPass(createModuleToFunctionPassAdaptor(std::move(functions)));
  passes.run(module, analyses.module);

  analyses.module.clear();
  analyses.function.clear();
  analyses.loop.clear();
}

void write_machine_code(llvm::Module &module, llvm::TargetMachine &machine, const llvm::TargetLibraryInfoImpl &library,
                        llvm::CodeGenFileType type, llvm::SmallVectorImpl<char> &out) {
  llvm::raw_svector_ostream stream(out);
  llvm::legacy::PassManager passes;
  passes.add(new llvm::TargetLibraryInfoWrapperPass(library));
  passes.add(new llvm::RuntimeLibraryInfoWrapper(module.getTargetTriple()));
  bool failed = machine.addPassesToEmitFile(passes, stream, nullptr, type, /*DisableVerify=*/true);
  OXYFUEL_CHECK(!failed, "LLVM's back end writes no object files");
  passes.run(module);
}

} // namespace

bool verify_modules() {
  static const bool wanted = [] {
    const char *value = std::getenv("OXYFUEL_VERIFY");
    return value && std::string_view(value) != "" && std::string_view(value) != "0";
  }();
  return wanted;
}

void prepare_module(llvm::Module &module, const Target &target) {
  llvm::TargetMachine &machine = target_machine(target, 2);
  module.setTargetTriple(machine.getTargetTriple());
  module.setDataLayout(machine.createDataLayout());
  if (module.getPICLevel() != llvm::PICLevel::SmallPIC) // emit_object comes here for modules that are prepared too
    module.setPICLevel(llvm::PICLevel::SmallPIC);
}

std::vector<char> emit_object(llvm::Module &module, const Target &target, const EmitOptions &options,
                              EmitTimes *times) {
  Stopwatch watch;
  EmitTimes ignored;
  EmitTimes &spent = times ? *times : ignored;
  DiagnosticScope diagnostics(module.getContext());
  prepare_module(module, target);
  set_attributes(module, target, options);
  if (verify_modules()) {
    std::string problems;
    llvm::raw_string_ostream stream(problems);
    if (llvm::verifyModule(module, &stream))
      throw InternalError("LLVM's verifier rejects a generated module", {.found = problems});
    spent.verify = watch.lap();
  }

  llvm::TargetMachine &machine = target_machine(target, options.opt_level);
  llvm::TargetLibraryInfoImpl library = no_library(module);
  if (options.opt_level > 0)
    run_passes(module, machine, library);
  else if (any_function(module, llvm::Attribute::AlwaysInline)) {
    Analyses analyses(machine, library);
    llvm::AlwaysInlinerPass(/*InsertLifetime=*/false).run(module, analyses.module);
  }
  diagnostics.check("the passes");
  spent.passes = watch.lap();

  if (options.optimised_ir) {
    llvm::raw_string_ostream stream(*options.optimised_ir);
    module.print(stream, nullptr);
  }
  if (options.assembly) {
    // Instruction selection changes the module, so the text is made from a copy.
    llvm::SmallVector<char, 0> text;
    write_machine_code(*llvm::CloneModule(module), machine, library, llvm::CodeGenFileType::AssemblyFile, text);
    options.assembly->assign(text.begin(), text.end());
  }
  watch.lap();
  llvm::SmallVector<char, 0> object;
  write_machine_code(module, machine, library, llvm::CodeGenFileType::ObjectFile, object);
  diagnostics.check("code generation");
  spent.machine_code = watch.lap();
  return {object.begin(), object.end()};
}

std::vector<char> emit_object_from_text(std::string_view text, const Target &target, const EmitOptions &options,
                                        EmitTimes *times) {
  find_backend(target.triple);
  llvm::LLVMContext context;
  llvm::SMDiagnostic problem;
  auto layout = [&](llvm::StringRef, llvm::StringRef) -> std::optional<std::string> {
    return target_machine(target, 2).createDataLayout().getStringRepresentation();
  };
  // The parser wants a zero after the text.
  auto buffer = llvm::MemoryBuffer::getMemBufferCopy(llvm::StringRef(text.data(), text.size()), "module.ll");
  std::unique_ptr<llvm::Module> module =
      llvm::parseAssembly(buffer->getMemBufferRef(), problem, context, /*Slots=*/nullptr, layout);
  if (!module)
    throw CompileError("LLVM IR text does not parse: " + problem.getMessage().str(),
                       {.where = "line " + std::to_string(problem.getLineNo()) + ", column " +
                                 std::to_string(problem.getColumnNo()) + ":  " + problem.getLineContents().str()});
  return emit_object(*module, target, options, times);
}

} // namespace oxyfuel::codegen
