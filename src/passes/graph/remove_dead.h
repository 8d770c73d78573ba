// Drops nodes whose results nobody uses and that have no effect, also inside regions.
//
//   %0: f32[4] = exp(%x)
//   %1: f32[4] = neg(%x)            %0: f32[4] = neg(%x)
//   return %1                 →     return %0
//
// Requires: nothing. Leaves: every result of a node without effect is used.
#pragma once

#include "ir/graph/graph.h"
#include "passes/pass_context.h"

namespace oxyfuel::graph {

bool remove_dead(Graph &graph, PassContext &context);

} // namespace oxyfuel::graph
