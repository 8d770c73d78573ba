#include "passes/graph/fold_padding.h"

#include <optional>

#include "ir/graph/op_info.h"
#include "ops/shape.h"

namespace oxyfuel::graph {

namespace {

/// The amounts of a pad with zeros along spatial axes; empty when it is none, crops, or depends on sizes.
std::optional<std::vector<int64_t>> spatial_zeros(const Node &pad, std::string_view side, ExprContext &context) {
  std::vector<int64_t> amounts;
  for (Expr amount : sizes_attribute(pad, side, context)) {
    auto known = amount.constant();
    if (!known || *known < 0)
      return std::nullopt;
    amounts.push_back(*known);
  }
  if (amounts[0] != 0 || amounts[1] != 0 || number_attribute(pad, "value") != 0)
    return std::nullopt;
  amounts.erase(amounts.begin(), amounts.begin() + 2);
  return amounts;
}

bool fold_into(Graph &graph, Node &node, PassContext &context) {
  Node *pad = node.operands[0]->producer;
  if (!pad || pad->op->name != "pad")
    return false;
  if (node.get_or<bool>("transposed", false)) {
    context.remark(node, "padding of the input of a transposed convolution is not its own padding");
    return false;
  }
  auto lower = spatial_zeros(*pad, "lower", graph.context()), upper = spatial_zeros(*pad, "upper", graph.context());
  if (!lower || !upper) {
    context.remark(node, "its input is padded by other than zeros around spatial axes");
    return false;
  }
  if (!context.spend_fuel())
    return false;
  std::vector<int64_t> begin = node.get<std::vector<int64_t>>("padding");
  std::vector<int64_t> end = node.get_or<std::vector<int64_t>>("padding_end", begin);
  for (size_t i = 0; i < begin.size(); ++i)
    begin[i] += (*lower)[i], end[i] += (*upper)[i];
  node.attributes["padding"] = begin;
  node.attributes["padding_end"] = end;
  graph.set_operand(&node, 0, pad->operands[0]);
  return true;
}

} // namespace

bool fold_padding(Graph &graph, PassContext &context) {
  bool changed = false;
  for (const auto &node : graph.nodes())
    while (node->op->name == "convolution" && fold_into(graph, *node, context))
      changed = true;
  return graph.remove_dead() || changed;
}

} // namespace oxyfuel::graph
