// Lays the values around convolutions out with the channels innermost.
//
//   %1: f32[1, 64, 56, 56] = convolution(%x, %w)
//   %2: f32[1, 64, 56, 56] = relu(%1)                  →   both strides(200704, 1, 3584, 64)
//
// A convolution then is a matrix product whose rows are pixels and whose columns are channels, for any kernel size,
// without moving its input about; what lies between convolutions (normalisation, activation, pooling, residual sums)
// runs with lanes along the channels. Layouts spread from convolutions over operators that keep the place of each
// element, and stop at views, matrix products and everything whose layout is decided: arguments, results.
//
// Requires: place_outputs. Leaves: strides set on these values.
#pragma once

#include "ir/graph/graph.h"
#include "passes/pass_context.h"

namespace oxyfuel::graph {

bool assign_layouts(Graph &graph, PassContext &context);

} // namespace oxyfuel::graph
