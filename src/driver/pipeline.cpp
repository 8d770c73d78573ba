// The recipe, top to bottom. `true`: lowering needs the pass, whatever is skipped and however little fuel there is.
#include "driver/pipeline.h"

#include "ops/op.h"
#include "passes/graph/assign_layouts.h"
#include "passes/graph/canonicalise.h"
#include "passes/graph/common_subexpressions.h"
#include "passes/graph/fold_padding.h"
#include "passes/graph/forward_slices.h"
#include "passes/graph/fuse.h"
#include "passes/graph/materialise.h"
#include "passes/graph/place_outputs.h"
#include "passes/graph/place_recurrences.h"
#include "passes/graph/place_step_outputs.h"
#include "passes/graph/remove_dead.h"
#include "passes/graph/sink_reshapes.h"
#include "passes/graph/update_in_place.h"
#include "passes/loop/expand_math.h"
#include "passes/pass_manager.h"

namespace oxyfuel {

void run_graph_pipeline(graph::Graph &graph, PassContext &context) {
  static constexpr GraphPass passes[] = {
      {"remove-dead", graph::remove_dead},
      {"canonicalise", graph::canonicalise},
      {"common-subexpressions", graph::common_subexpressions},
      {"fold-padding", graph::fold_padding},
      {"sink-reshapes", graph::sink_reshapes},
      {"forward-slices", graph::forward_slices},
      {"canonicalise", graph::canonicalise},
      {"remove-dead", graph::remove_dead},
      {"place-outputs", graph::place_outputs, true},
      {"place-recurrences", graph::place_recurrences, true},
      {"update-in-place", graph::update_in_place},
      {"assign-layouts", graph::assign_layouts},
      {"materialise", graph::materialise, true},
      {"fuse", graph::fuse, true},
  };
  if (!context.options.round_trip) {
    PassManager::run(graph, passes, context);
    return;
  }
  // Whatever the text leaves out is lost to the passes that follow.
  for (const GraphPass &pass : passes) {
    graph = std::move(*graph::parse(graph::print(graph)));
    PassManager::run(graph, {&pass, 1}, context);
  }
}

void run_body_pipeline(graph::Graph &body, PassContext &context) {
  static constexpr GraphPass passes[] = {
      {"sink-reshapes", graph::sink_reshapes},
      {"canonicalise", graph::canonicalise},
      {"remove-dead", graph::remove_dead},
      {"place-step-outputs", graph::place_step_outputs, true},
      {"place-recurrences", graph::place_recurrences, true},
      {"assign-layouts", graph::assign_layouts},
      {"materialise", graph::materialise, true},
      {"fuse", graph::fuse, true},
  };
  PassManager::run(body, passes, context);
}

void run_loop_pipeline(loop::Kernel &kernel, PassContext &context) {
  static constexpr LoopPass passes[] = {{"expand-math", loop::expand_math, true}};
  PassManager::run(kernel, passes, context);
}

} // namespace oxyfuel
