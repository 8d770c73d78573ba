// The whole recipe of a compile.
#include "driver/compile.h"

#include <chrono>

#include "codegen/target.h"
#include "driver/kernels.h"
#include "driver/pipeline.h"
#include "driver/plan_builder.h"
#include "passes/pass_manager.h"
#include "runtime/program_file.h"
#include "support/cpu.h"

namespace oxyfuel {

Machine machine_of(const CompileSettings &settings) {
  codegen::Target target = codegen::Target::parse(settings.target);
  Machine machine;
  machine.is_scalar = settings.scalar;
  machine.vector_bytes = static_cast<int>(target.vector_bits / 8);
  machine.vector_registers = static_cast<int>(target.vector_registers);
  machine.has_fma = target.has_fma;
  machine.has_masks = target.has_avx512;
  machine.has_bfloat16_dot = target.has_avx512bf16;
  // Caches are this machine's when the target is; a target by name gives the same code wherever it is made.
  const CpuInfo cpu = settings.target == "host" ? cpu_info() : CpuInfo{};
  machine.l1_bytes = static_cast<int64_t>(cpu.l1_data_bytes);
  machine.l2_bytes = static_cast<int64_t>(cpu.l2_bytes);
  machine.l3_bytes = static_cast<int64_t>(cpu.l3_bytes);
  return machine;
}

namespace {

class StageTimer {
public:
  explicit StageTimer(CompileReport &report) : report_(report), last_(std::chrono::steady_clock::now()) {}
  void stage(const char *name) {
    auto now = std::chrono::steady_clock::now();
    report_.seconds.emplace_back(name, std::chrono::duration<double>(now - last_).count());
    last_ = now;
  }

private:
  CompileReport &report_;
  std::chrono::steady_clock::time_point last_;
};

} // namespace

CompiledProgram compile(graph::Graph &graph, const CompileSettings &settings) {
  CompiledProgram program;
  CompileReport &report = program.report;
  PassOptions options = settings.passes;
  options.verify = options.verify || settings.verify;
  if (!settings.dump_directory.empty())
    options.dump_directory = settings.dump_directory;
  PassContext passes(options);
  StageTimer timer(report);

  PassManager::dump(graph, "imported", passes);
  run_graph_pipeline(graph, passes);
  timer.stage("graph passes");
  KernelSet kernels;
  Machine machine = machine_of(settings);
  PlanBuilder builder(graph, settings, machine, kernels, passes, report);
  builder.build();
  timer.stage("lowering");
  kernels.generate(settings, passes, report);
  timer.stage("code generation");
  runtime::Plan plan = builder.finish();
  program.bytes = runtime::write_program(plan, kernels.images(), cpu_info().features);
  timer.stage("program");
  report.remarks = std::move(passes.remarks);
  return program;
}

} // namespace oxyfuel
