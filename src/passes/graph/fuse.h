// Puts the program's operators into groups, each of which becomes one kernel (or a fixed few).
//
//   %1 = max(%x) {axes = [1]}                     %4 = group(%x) {kind = "loops", region = graph {
//   %2 = exp(sub(%x, expand(%1)))         →         … all of it …
//   %3 = sum(%2) {axes = [1]}                     }}
//   %4 = div(%2, expand(%3))
//
// Consumer first, in reverse order of execution:
//
// - A node all of whose users are in one group joins it when the group can still run as one pass (loop_domain.h),
//   unless computing it where it is read would repeat much work.
// - A node with users in several groups is repeated when cheap, else its value gets memory: it becomes one more result
//   of a group with the same domain, or of a group of its own.
// - A contraction takes over a group of pointwise operators on its own elements as its epilogue.
//
// Views are repeated wherever they are read; they cost index arithmetic only.
//
// Requires: materialise. Leaves: group, extern and region nodes, and views.
#pragma once

#include "ir/graph/graph.h"
#include "passes/pass_context.h"

namespace oxyfuel::graph {

bool fuse(Graph &graph, PassContext &context);

} // namespace oxyfuel::graph
