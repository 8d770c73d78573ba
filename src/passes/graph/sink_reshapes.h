// Moves reshapes of contraction results down past what is computed from them, so that an epilogue has the shape of its
// contraction.
//
//   %1: f32[6, 8] = matmul(%x, %w)
//   %2: f32[2, 3, 8] = reshape(%1)                  %1: f32[6, 8] = matmul(%x, %w)
//   %3: f32[2, 3, 8] = add(%2, %bias)         →     %3: f32[6, 8] = add(%1, %bias)
//   %4: f32[2, 3, 8] = add(%3, %residual)           %5: f32[6, 8] = reshape(%residual)
//                                                   %4: f32[6, 8] = add(%3, %5)
//                                                   %2: f32[2, 3, 8] = reshape(%4)
//
// Past pointwise operators whose other operands are of rank 0, of the same shape, or broadcast over all axes that the
// reshape changes or over axes that it leaves alone; and past reductions over axes that it leaves alone.
//
// Requires: nodes in order; best after canonicalise, which brings reshapes of reshapes together, and before another
// one. Leaves: no such reshape in front of such an operator, unless fuel ran out.
#pragma once

#include "ir/graph/graph.h"
#include "passes/pass_context.h"

namespace oxyfuel::graph {

bool sink_reshapes(Graph &graph, PassContext &context);

} // namespace oxyfuel::graph
