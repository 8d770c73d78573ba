// Runs passes: skips, times, dumps, verifies, and holds a pass to the bool that it returns.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/loop/loop.h"
#include "passes/pass_context.h"

namespace oxyfuel {

/// A pass over `Program`, a graph::Graph or a loop::Kernel. `run` returns whether it changed anything.
template <typename Program> struct Pass {
  std::string_view name; ///< kebab-case; the function's name with dashes
  bool (*run)(Program &program, PassContext &context);
  /// Later stages need what it leaves: it runs though it is among the skipped passes, and without fuel.
  bool is_required = false;
};
using GraphPass = Pass<graph::Graph>;
using LoopPass = Pass<loop::Kernel>;

/// Keeps nothing between runs.
class PassManager {
public:
  /// Runs `passes` in order; true when any changed the program. With `verify`, a pass that leaves a broken program, or
  /// says "unchanged" of a text that changed, is an InternalError with its name. Each pass that changed something is
  /// dumped, if asked for, as `NN-pass.oxir`; kernels as `kernel.NN-pass.oxir`.
  static bool run(graph::Graph &graph, std::span<const GraphPass> passes, PassContext &context);
  static bool run(loop::Kernel &kernel, std::span<const LoopPass> passes, PassContext &context);
  /// Dumps a graph that no pass has made, if dumps are asked for, as `NN-stage.oxir`.
  static void dump(const graph::Graph &graph, std::string_view stage, PassContext &context);
};

/// The passes of passes.def.
std::span<const GraphPass> graph_passes();
std::span<const LoopPass> loop_passes();
/// Null when there is none of that name.
const GraphPass *find_graph_pass(std::string_view name);
const LoopPass *find_loop_pass(std::string_view name);
/// Parses "canonicalise,remove-dead". CompileError when a name is unknown.
std::vector<GraphPass> parse_graph_pipeline(std::string_view names);
std::vector<LoopPass> parse_loop_pipeline(std::string_view names);

} // namespace oxyfuel
