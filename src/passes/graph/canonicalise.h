// Brings a graph into the form that later passes match: one spelling for each meaning, and nothing that does nothing.
//
//   %0: f32[3, 2] = permute(%x) {dims = [1, 0]}
//   %1: f32[2, 3] = permute(%0) {dims = [1, 0]}
//   %2: f32[2, 3] = mul(%1, %one)                 →     %0: f32[2, 3] = exp(%x)
//   %3: f32[2, 3] = exp(%2)                             return %0
//   return %3
//
// - A view of a view of the same kind is one view; a view that is the identity goes; permutes and expands that only
//   move or add dimensions of size 1 are reshapes.
// - Casts that keep every value are seen through; casts that round stay.
// - x * 1, x / 1, x - 0, neg(neg(x)) and the like, only where the result is the same bit for bit (x + 0 is not: -0 + 0
//   is 0).
// - Pointwise operators and views of constants of rank 0 become constants.
// - Pointwise operators read their operands without an expand, which broadcasting does again.
//
// Requires: nodes in order. Leaves: none of its rules applies, unless fuel ran out; nodes that it made unused are gone.
// Values with a decided layout keep their nodes.
#pragma once

#include "ir/graph/graph.h"
#include "passes/pass_context.h"

namespace oxyfuel::graph {

bool canonicalise(Graph &graph, PassContext &context);

} // namespace oxyfuel::graph
