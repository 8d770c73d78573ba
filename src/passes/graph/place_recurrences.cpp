// Memory of what recurrences carry.
#include "passes/graph/place_recurrences.h"

#include <set>

#include "ops/op.h"
#include "ops/recurrence.h"

namespace oxyfuel::graph {

Layout dense_at(ExprContext &context, const Type &type, Expr offset) {
  return {contiguous_strides(context, type.shape), offset};
}

std::vector<CarriedMemory> carried_memory(const Node &node) {
  Recurrence parts = recurrence_of(node);
  ExprContext &context = parts.body.context();
  std::vector<CarriedMemory> memory;
  std::set<int> taken;
  for (int i = 0; i < parts.carried; ++i) {
    CarriedMemory own;
    own.reverse = parts.reverse;
    own.size = element_count(context, node.operands[i]->type.shape);
    for (int s = 0; s < parts.stacked && !own.is_history(); ++s)
      if (parts.step_output(s) == parts.carried_next(i) && taken.insert(s).second)
        own.stacked = s;
    own.slots = own.is_history() ? parts.length + 1 : context.integer(2);
    own.first = own.place(parts.reverse ? parts.length : context.integer(0));
    own.last = own.place(parts.reverse ? context.integer(0) : parts.length);
    memory.push_back(own);
  }
  return memory;
}

/// Not a choice: the plan takes these layouts for granted, so no fuel is asked for.
bool place_recurrences(Graph &graph, PassContext &) {
  bool changed = false;
  for (const auto &node : graph.nodes()) {
    if (node->op->name != "recurrence")
      continue;
    std::vector<CarriedMemory> memory = carried_memory(*node);
    int carried = static_cast<int>(memory.size());
    for (int i = 0; i < carried; ++i) {
      const CarriedMemory &own = memory[i];
      Value *last = node->result(i);
      last->layout = dense_at(graph.context(), last->type, own.last * own.size);
      if (own.is_history()) {
        Value *all = node->result(carried + own.stacked);
        all->layout = dense_at(graph.context(), all->type, own.reverse ? graph.context().integer(0) : own.size);
      }
      changed = true;
    }
  }
  return changed;
}

} // namespace oxyfuel::graph
