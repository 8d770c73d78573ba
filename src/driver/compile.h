// From a graph to a program: the whole recipe. `compile` runs the pipeline (pipeline.cpp), lowers groups, generates code
// (equal kernels once, from the cache on disk where it has them) and builds the plan.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "passes/pass_context.h"
#include "runtime/image.h"
#include "runtime/plan.h"

namespace oxyfuel {

/// Settings of one compile; options.def gives the documented ones their names, variables and defaults.
struct CompileSettings {
  std::string target = "host";   ///< codegen::Target::parse
  int threads = 2;               ///< that compile kernels side by side
  bool verify = false;           ///< IRs between passes, LLVM modules
  std::string cache_directory;   ///< empty: no cache on disk
  std::string dump_directory;    ///< empty: none
  PassOptions passes;
};

/// One kernel, for `explain` and profiles.
struct KernelInfo {
  std::string name;
  std::vector<std::string> fused;     ///< operators, in order
  std::vector<std::string> locations; ///< places in the user's program
  std::string schedule;
  double flops = 0, bytes = 0; ///< at the hints of the symbols
  int step = 0;                ///< in the plan
};

struct CompileReport {
  std::vector<KernelInfo> kernels;
  std::vector<std::string> externs;     ///< operators that run in PyTorch, once a step
  std::vector<Remark> remarks;
  std::vector<std::pair<std::string, double>> seconds; ///< by stage
  int kernels_generated = 0, kernels_cached = 0;
  double contraction_flops = 0;
};

/// A program as bytes: what the cache, the artifact and `torch.compile` share.
struct CompiledProgram {
  std::vector<uint8_t> plan; ///< runtime::write_plan
  std::vector<runtime::CodeImage> images;
  CompileReport report;
};

/// Compiles `graph`, which is consumed: passes rewrite it. Extern nodes keep their attribute "id" as Step::index.
/// Throws InternalError, CompileError; an operator without lowering raises UnsupportedError naming it.
CompiledProgram compile(graph::Graph &graph, const CompileSettings &settings);

} // namespace oxyfuel
