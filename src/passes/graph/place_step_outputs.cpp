// Memory of the outputs of a loop's body.
#include "passes/graph/place_step_outputs.h"

#include <unordered_set>

#include "ops/op.h"
#include "support/error.h"

namespace oxyfuel::graph {
namespace {

/// Computed by a kernel that stores its result under any layout.
bool can_lie_anywhere(const Value *value) {
  if (!value->producer || !value->layout.strides.empty() || value->layout.offset)
    return false;
  switch (value->producer->op->kind) {
  case OpKind::kPointwise:
  case OpKind::kReduction:
  case OpKind::kContraction: return true;
  case OpKind::kIndexed: return !value->producer->operands.empty();
  default: return false;
  }
}

} // namespace

/// Not a choice: a body whose outputs are not placed is wrong, so no fuel is asked for.
bool place_step_outputs(Graph &graph, PassContext &) {
  OXYFUEL_CHECK(graph.output_layouts.size() == graph.outputs.size(), "outputs of a body without layouts");
  bool changed = false;
  std::unordered_set<const Value *> placed;
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    Value *&output = graph.outputs[i];
    if (placed.count(output) || !can_lie_anywhere(output)) {
      Node *copy = graph.add(op("copy"), {output}, {{"dtype", output->type.dtype}});
      if (output->producer)
        copy->location = output->producer->location;
      output = copy->result();
    }
    output->layout = graph.output_layouts[i];
    placed.insert(output);
    changed = true;
  }
  return changed;
}

} // namespace oxyfuel::graph
