// Turns functional updates of an argument, written back at the end, into stores in place.
//
//   %1 = reshape(slice(%cache))                     %1 = …
//   %2 = index_put(%1, %row, %position)      →      %2 = index_put(%1, %row, %position) {in_memory_of = 0}
//   %3 = slice_scatter(%cache, %2)                  (nothing is written back)
//   mutates %cache with %3
//
// A write-back is a chain of slice_scatters onto the argument, or one scatter onto it. It goes when every piece is the
// result of a scatter whose base is that very piece of the argument, the pieces do not overlap, and nobody else reads
// the argument: then the old contents die with the update, and a static key-value cache gets one row a token.
//
// Requires: place_outputs. Leaves: such scatters with the attribute "in_memory_of" (position of the input) and a layout
// over the input's memory; their mutations gone.
#pragma once

#include "ir/graph/graph.h"
#include "passes/pass_context.h"

namespace oxyfuel::graph {

bool update_in_place(Graph &graph, PassContext &context);

} // namespace oxyfuel::graph
