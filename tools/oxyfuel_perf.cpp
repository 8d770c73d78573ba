// oxyfuel-perf: what compiled code and the compiler itself cost, counted rather than timed. See tools/check_perf.py.
//
//   oxyfuel-perf code file.oxir --target=x86-64-v3      a line a kernel: instructions, and cycles by llvm-mca's model
//   oxyfuel-perf lower file.oxir --target=x86-64-v3     does the work of a compile up to Loop IR, for callgrind
//   oxyfuel-perf compile file.oxir --target=x86-64-v3   all of it
//
// The caches are those of one fixed machine, so that schedules do not depend on where this runs.
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>

#include "codegen/compile.h"
#include "codegen/estimate.h"
#include "driver/compile.h"
#include "driver/kernels.h"
#include "driver/pipeline.h"
#include "driver/plan_builder.h"
#include "ops/op.h"
#include "schedule/machine.h"
#include "support/error.h"

namespace oxyfuel {

namespace {

struct Program {
  std::unique_ptr<graph::Graph> graph;
  KernelSet kernels;
  CompileReport report;
  runtime::Plan plan;
};

/// Everything up to kernels in Loop IR.
void lower(Program &program, const CompileSettings &settings) {
  PassContext passes(settings.passes);
  run_graph_pipeline(*program.graph, passes);
  Machine machine = machine_of(settings);
  PlanBuilder builder(*program.graph, settings, machine, program.kernels, passes, program.report);
  builder.build();
  program.plan = builder.finish();
  for (int i = 0; i < program.kernels.count(); ++i)
    run_loop_pipeline(program.kernels.kernel(i), passes);
}

/// The step that runs kernel `index`; empty for the kernel that computes sizes.
std::string name_of(const runtime::Plan &plan, int index) {
  for (const std::vector<runtime::Step> *steps : {&plan.bind_steps, &plan.steps})
    for (const runtime::Step &step : *steps)
      if (step.kind == runtime::Step::Kind::kKernel && step.index == index)
        return step.name;
  return {};
}

void print_code(Program &program, const CompileSettings &settings) {
  codegen::Target target = codegen::Target::parse(settings.target);
  for (int i = 0; i < program.kernels.count(); ++i) {
    std::string name = name_of(program.plan, i);
    if (name.empty())
      continue;
    const loop::Kernel *kernel = &program.kernels.kernel(i);
    codegen::CompiledKernels compiled = codegen::compile_kernels({&kernel, 1}, {.target = target, .debug_info = true});
    codegen::CodeEstimate estimate = codegen::estimate_code(compiled.image.debug, target);
    double cycles = 0;
    for (const codegen::LoopEstimate &loop : estimate.loops)
      cycles += loop.cycles;
    std::printf("%s %s %d %.1f\n", program.graph->name.c_str(), name.c_str(), estimate.instructions, cycles);
  }
}

int run(int argc, char **argv) {
  std::string command = argc > 1 ? argv[1] : "", file = argc > 2 ? argv[2] : "";
  CompileSettings settings;
  settings.threads = 1;
  for (int i = 3; i < argc; ++i)
    if (std::strncmp(argv[i], "--target=", 9) == 0)
      settings.target = argv[i] + 9;
  std::ifstream stream(file);
  if (!stream || (command != "code" && command != "lower" && command != "compile")) {
    std::cerr << "usage: oxyfuel-perf code|lower|compile file.oxir [--target=name]\n";
    return 2;
  }
  std::string text((std::istreambuf_iterator<char>(stream)), std::istreambuf_iterator<char>());
  constexpr std::string_view kSeparator = "\n// -----\n";
  for (size_t start = 0; start < text.size();) {
    size_t end = std::min(text.find(kSeparator, start), text.size());
    Program program;
    program.graph = graph::parse(text.substr(start, end - start));
    if (command == "compile")
      compile(*program.graph, settings);
    else
      lower(program, settings);
    if (command == "code")
      print_code(program, settings);
    start = end + kSeparator.size();
  }
  return 0;
}

} // namespace

} // namespace oxyfuel

int main(int argc, char **argv) {
  try {
    return oxyfuel::run(argc, argv);
  } catch (const std::exception &error) {
    std::cerr << "oxyfuel-perf: " << error.what() << "\n";
    return 1;
  }
}
