// Decides which memory each result of the program is, and lays results out as eager does.
//
//   %2 = copy(%1)             return %1      (nobody else returns %1)
//   return %2           →
//
// The importer wraps results in `copy` where eager would give memory of its own; a copy goes where its operand is
// computed here and is no other result's memory. A result that is a view over memory which its strides do not cover, or
// two results that share memory and must not, get a copy. Computed results take the strides that the caller expects.
//
// Requires: nothing. Leaves: every result an input, a view of an input, an extern result, or strides over the whole of
// a computed value that is no other result's memory (or the same value again).
#pragma once

#include "ir/graph/graph.h"
#include "passes/pass_context.h"

namespace oxyfuel::graph {

bool place_outputs(Graph &graph, PassContext &context);

} // namespace oxyfuel::graph
