// From a graph to a program: the whole recipe. `compile` runs the pipeline (pipeline.cpp), lowers groups, generates
// code (equal kernels once, from the cache on disk where it has them) and builds the plan.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "passes/pass_context.h"
#include "support/error.h"

namespace oxyfuel {

/// One argument of the compiled program, in call order: an input of the graph, or a size symbol given as an integer.
struct ProgramArgument {
  bool is_integer = false;
  int index = 0; ///< of Graph::inputs or Graph::symbols
};

/// Settings of one compile; python/oxyfuel/options.py gives the documented ones their names, variables and defaults.
struct CompileSettings {
  std::string target = "host"; ///< codegen::Target::parse
  int threads = 2;             ///< that compile kernels side by side
  bool verify = false;         ///< IRs between passes, LLVM modules
  bool scalar = false;         ///< schedules without vectors
  std::string cache_directory; ///< of compiled kernels; empty: none
  std::string dump_directory;  ///< empty: none
  PassOptions passes;
  std::vector<ProgramArgument> arguments; ///< empty: the graph's inputs in order; symbols then come from their sizes
};

/// What schedules go by.
struct Machine;
Machine machine_of(const CompileSettings &settings);

/// One kernel, for `explain` and profiles.
struct KernelInfo {
  std::string name;
  std::vector<std::string> fused;     ///< operators, in order
  std::vector<std::string> locations; ///< places in the user's program
  std::string schedule;
  double flops = 0, bytes = 0; ///< of one call of the program, at the hints of the symbols
  int step = 0;                ///< in the plan
  int kernel = 0;              ///< the number of its code, kernel_<n> in dumps: equal kernels share one
};

/// What a compile was like.
struct CompileReport {
  std::vector<KernelInfo> kernels;
  std::vector<int64_t> externs; ///< ids of the operators that run in PyTorch, one a step
  std::vector<Remark> remarks;
  std::vector<std::pair<std::string, double>> seconds; ///< by stage
  int kernels_generated = 0, kernels_cached = 0;
  std::string cache_problem; ///< why kernels could not be read or kept; empty when all went well
  double contraction_flops = 0;
};

/// A program as bytes (runtime/program_file.h): what the cache, the artifact and `torch.compile` share.
struct CompiledProgram {
  std::vector<uint8_t> bytes;
  CompileReport report;
};

/// A group of operators has no lowering. `operations` are their numbers (graph::Location), so that the caller can
/// import the program anew with these as extern steps.
class DeclinedError : public UnsupportedError {
public:
  DeclinedError(const std::string &why, std::vector<int64_t> operations)
      : UnsupportedError(why), operations(std::move(operations)) {}
  std::vector<int64_t> operations;
};

/// Compiles `graph`, which is consumed: passes rewrite it. Throws InternalError and CompileError; DeclinedError where
/// an operator has no lowering.
///
/// Extern nodes keep their attribute "id" as Step::index. Their step has the buffers of the operands, then those of the
/// results; its sizes are, for each operand, offset, shape and strides (in elements) of the tensor in its buffer; for
/// each result the shape and strides that kernels rely on; then the values of the attribute "integers". The attribute
/// "binds" lists the symbols (positions in Graph::symbols) whose values the step provides.
CompiledProgram compile(graph::Graph &graph, const CompileSettings &settings);

} // namespace oxyfuel
