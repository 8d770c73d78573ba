// Makes each output of a loop's body a value that is computed where the output's layout says.
//
//   %2 = tanh(%1)                                         %2 strides(8, 1) offset(32 * t + 32) = tanh(%1)
//   return %2 strides(8, 1) offset(32 * t + 32), %x  →    %3 = copy(%x)
//                                                         return %2, %3
//
// Inputs, views, and what is memory of another output already get a copy.
//
// Requires: output_layouts of all outputs. Leaves: every output a value with that layout, by itself.
#pragma once

#include "ir/graph/graph.h"
#include "passes/pass_context.h"

namespace oxyfuel::graph {

bool place_step_outputs(Graph &graph, PassContext &context);

} // namespace oxyfuel::graph
