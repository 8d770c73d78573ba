// Slices of slice_scatters.
#include "passes/graph/forward_slices.h"

#include <optional>

#include "ir/graph/op_info.h"

namespace oxyfuel::graph {
namespace {

struct Interval {
  int64_t axis, start, length;
};

std::optional<Interval> interval(const Node &node, Expr length) {
  auto start = node.get<Expr>("start").constant();
  if (node.get_or<int64_t>("step", 1) != 1 || !start || !length.constant())
    return std::nullopt;
  return Interval{node.get<int64_t>("axis"), *start, *length.constant()};
}

} // namespace

bool forward_slices(Graph &graph, PassContext &context) {
  bool changed = false;
  for (const auto &node : graph.nodes()) {
    if (node->op->name != "slice")
      continue;
    std::optional<Interval> read = interval(*node, node->get<Expr>("length"));
    while (read && node->operands[0]->producer && node->operands[0]->producer->op->name == "slice_scatter") {
      Node *store = node->operands[0]->producer;
      std::optional<Interval> written =
          interval(*store, store->operands[1]->type.shape[static_cast<size_t>(store->get<int64_t>("axis"))]);
      if (!written || written->axis != read->axis || !context.spend_fuel())
        break;
      if (written->start == read->start && written->length == read->length) {
        graph.replace_uses(node->result(), store->operands[1]);
        changed = true;
        break;
      }
      if (written->start < read->start + read->length && read->start < written->start + written->length)
        break;
      graph.set_operand(node.get(), 0, store->operands[0]);
      changed = true;
    }
  }
  if (changed)
    graph.remove_dead();
  return changed;
}

} // namespace oxyfuel::graph
