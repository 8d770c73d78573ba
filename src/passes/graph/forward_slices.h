// Lets a slice read past slices that were stored before it.
//
//   %2 = slice_scatter(%x, %u) {axis = 0, start = 1}       (%u is 1 long)
//   %3 = slice(%2) {axis = 0, start = 1, length = 1}   →   %u
//   %4 = slice(%2) {axis = 0, start = 5, length = 1}   →   slice(%x) {axis = 0, start = 5, length = 1}
//
// A program that updates a cache layer by layer then reads each layer's own update, and the chain of updates is read by
// the write-back alone.
//
// Requires: nothing. Leaves: no slice of a slice_scatter along the same axis with constant bounds that are equal or
// disjoint.
#pragma once

#include "ir/graph/graph.h"
#include "passes/pass_context.h"

namespace oxyfuel::graph {

bool forward_slices(Graph &graph, PassContext &context);

} // namespace oxyfuel::graph
