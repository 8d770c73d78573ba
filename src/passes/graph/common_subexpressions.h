// Computes equal things once: nodes of the same operator, operands, attributes and result types become one.
//
//   %0: f32[4] = exp(%x)            %0: f32[4] = exp(%x)
//   %1: f32[4] = exp(%x)            %1: f32[4] = add(%0, %0)
//   %2: f32[4] = add(%0, %1)  →     return %1
//   return %2
//
// Nodes with effects, externs (random numbers among them) and nodes with regions stay. A decided layout counts as part
// of the node.
//
// Requires: nodes in order. Leaves: no two equal nodes.
#pragma once

#include "ir/graph/graph.h"
#include "passes/pass_context.h"

namespace oxyfuel::graph {

bool common_subexpressions(Graph &graph, PassContext &context);

} // namespace oxyfuel::graph
