// Gives memory to views that something needs as plain strided memory.
//
//   %2 = reshape(%1)                        %2 = reshape(%1)
//   %3 = matmul(%2, %w)              →      %4 = copy(%2)
//                                           %3 = matmul(%4, %w)
//
// where %2's index map over %1's layout is not affine. The same for operands of attention, extern operators and
// regions, results of the program and values that mutate its arguments. Results of the program that are computed
// nowhere (constants) get a copy too.
//
// Requires: layouts of convolution results decided. Leaves: each such use a computed value, an input, or strides over
// one.
#pragma once

#include "ir/graph/graph.h"
#include "passes/pass_context.h"

namespace oxyfuel::graph {

bool materialise(Graph &graph, PassContext &context);

} // namespace oxyfuel::graph
