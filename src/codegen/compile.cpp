// The stages in order: lower into one module, verify, optimise and emit, link.
#include "codegen/compile.h"

#include "codegen/emit.h"
#include "codegen/lower_kernel.h"
#include "support/error.h"

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>
#include <llvm/IR/Verifier.h>
#include <llvm/Support/raw_ostream.h>

#include <chrono>
#include <filesystem>
#include <fstream>

namespace oxyfuel::codegen {

namespace {

void write_file(const CompileOptions &options, const char *extension, const std::string &text) {
  std::filesystem::create_directories(options.dump_dir);
  std::ofstream(std::filesystem::path(options.dump_dir) / (options.dump_name + extension)) << text;
}

void verify_module(const llvm::Module &module) {
  std::string problems;
  llvm::raw_string_ostream stream(problems);
  if (!llvm::verifyModule(module, &stream))
    return;
  std::string text;
  llvm::raw_string_ostream out(text);
  module.print(out, nullptr);
  throw InternalError("LLVM's verifier rejects a generated module", {.found = problems + "\n" + text});
}

} // namespace

CompiledKernels compile_kernels(std::span<const loop::Kernel *const> kernels, const CompileOptions &options) {
  using Clock = std::chrono::steady_clock;
  auto milliseconds = [](Clock::time_point from) {
    return std::chrono::duration<double, std::milli>(Clock::now() - from).count();
  };
  CompiledKernels result;
  Clock::time_point start = Clock::now();
  llvm::LLVMContext context;
  llvm::Module module("oxyfuel", context);
  prepare_module(module, options.target);
  std::vector<std::string> names;
  for (const loop::Kernel *kernel : kernels) {
    names.push_back(kernel->name + "." + std::to_string(names.size()));
    lower_kernel(*kernel, names.back(), module, options.target, {.use_dot_products = options.use_dot_products});
  }
  if (options.verify || verify_modules())
    verify_module(module);
  result.times.lower = milliseconds(start);

  bool dumps = !options.dump_dir.empty();
  if (dumps) {
    std::string text;
    for (const loop::Kernel *kernel : kernels)
      text += loop::print(*kernel) + "\n";
    write_file(options, ".oxir", text);
  }
  std::string optimised, assembly;
  EmitTimes times;
  std::vector<char> object = emit_object(module, options.target,
                                         {.opt_level = options.opt_level,
                                          .unwind_tables = options.unwind_tables || options.debug_info,
                                          .optimised_ir = dumps ? &optimised : nullptr,
                                          .assembly = dumps ? &assembly : nullptr},
                                         &times);
  result.times.passes = times.passes;
  result.times.machine_code = times.machine_code;
  if (dumps) {
    write_file(options, ".ll", optimised);
    write_file(options, ".s", assembly);
  }
  start = Clock::now();
  result.image = link_flat(object, options.target, options.debug_info);
  result.times.link = milliseconds(start);
  for (const std::string &name : names) {
    auto found = result.image.exports.find(name);
    OXYFUEL_CHECK(found != result.image.exports.end(), "codegen: the image lacks the kernel " + name);
    result.entries.push_back(found->second);
  }
  return result;
}

} // namespace oxyfuel::codegen
