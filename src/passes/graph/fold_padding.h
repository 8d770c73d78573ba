// Makes zeros that are put around the input of a convolution part of its own padding.
//
//   %0: f32[1, 8, 9, 9] = pad(%x) {lower = sizes(0, 0, 0, 0), upper = sizes(0, 0, 1, 1), value = 0.0}
//   %1: f32[1, 8, 4, 4] = convolution(%0, %w) {padding = [0, 0], stride = [2, 2], …}
//                                                                  →
//   %1: f32[1, 8, 4, 4] = convolution(%x, %w) {padding = [0, 0], padding_end = [1, 1], stride = [2, 2], …}
//
// Frameworks that pad differently at the two ends (TensorFlow's "same") reach PyTorch as such pads. A convolution
// leaves the taps in its padding out of the sum, so that no padded copy of the input is needed; where a weight is
// infinite or NaN it takes 0 for the product with a zero of the padding, as PyTorch's own padding does.
//
// Requires: nothing. Leaves: no such pad in front of a convolution, unless fuel ran out; nodes that it made unused are
// gone.
#pragma once

#include "ir/graph/graph.h"
#include "passes/pass_context.h"

namespace oxyfuel::graph {

bool fold_padding(Graph &graph, PassContext &context);

} // namespace oxyfuel::graph
