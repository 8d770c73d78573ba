// The parts of a `recurrence` node: a body that runs once a time step, forwards or backwards.
//
//   %1: f32[4, 8], %2: f32[s0, 4, 8] = recurrence(%h0, %x, %w) {body = graph @body(%h: f32[4, 8], %xt: f32[4, 8], %w:
//   f32[8, 8]) {
//     …
//     return %next, %next
//   }, carried = 1, sequences = 1, length = size(s0), reverse = false}
//
// Operands: what is carried (its first values), sequences (time is axis 0), what stays the same. The body's inputs: the
// same with one step of each sequence. The body's outputs: what is carried on, then what is kept of each step. Results:
// what is carried after the last step, then what was kept, stacked along a new axis 0 in the order of time whatever the
// direction.
#pragma once

#include "ir/graph/graph.h"

namespace oxyfuel {

struct Recurrence {
  graph::Graph &body;
  Expr length; ///< number of steps
  int carried, sequences, invariants, stacked;
  bool reverse;

  graph::Value *carried_next(int i) const { return body.outputs[i]; }
  graph::Value *step_output(int i) const { return body.outputs[carried + i]; }
};

/// CompileError when counts of operands, inputs and outputs do not agree.
Recurrence recurrence_of(const graph::Node &node);

} // namespace oxyfuel
