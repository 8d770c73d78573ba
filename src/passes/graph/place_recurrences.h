// Decides where a recurrence keeps what it carries, so that no step copies it.
//
// A carried value has slots in one buffer: a step reads one slot and writes another. When the value is also an output
// of each step, the slots are all of them, with the first value in front: the stacked result is the buffer without that
// slot, and step t of
//
//   %last: f32[4, 8], %all: f32[s0, 4, 8] = recurrence(%h0, …)
//
// reads what step t - 1 stacked. Otherwise there are two slots in turn.
//
// Requires: nothing. Leaves: layouts of the recurrences' results over that buffer; bodies as they are.
#pragma once

#include <vector>

#include "ir/graph/graph.h"
#include "passes/pass_context.h"

namespace oxyfuel::graph {

bool place_recurrences(Graph &graph, PassContext &context);

/// Where one carried value lies: slot s is elements [s * size, (s + 1) * size) of its buffer.
struct CarriedMemory {
  int stacked = -1; ///< the output of each step that is this value, or -1
  Expr slots;       ///< number of them
  Expr first, last; ///< slots of the first value and of the last
  Expr size;        ///< elements of a slot
  bool reverse = false;

  bool is_history() const { return stacked >= 0; }
  /// Slots that the step at `time` reads and writes.
  Expr read(Expr time) const { return place(reverse ? time + 1 : time); }
  Expr write(Expr time) const { return place(reverse ? time : time + 1); }

private:
  Expr place(Expr slot) const { return is_history() ? slot : floor_mod(slot, 2); }
  friend std::vector<CarriedMemory> carried_memory(const Node &);
};

/// One entry a carried value. Follows from the outputs of the body alone.
std::vector<CarriedMemory> carried_memory(const Node &recurrence);

/// Row-major memory of that shape from element `offset`.
Layout dense_at(ExprContext &context, const Type &type, Expr offset);

} // namespace oxyfuel::graph
