// The loop over time steps as an operator.
#include "ops/recurrence.h"

#include "ops/shape.h"
#include "ops/table.h"

namespace oxyfuel {

Recurrence recurrence_of(const graph::Node &node) {
  graph::Graph &body = *node.get<std::shared_ptr<graph::Graph>>("body");
  Recurrence parts{body,
                   size_attribute(node, "length", body.context()),
                   static_cast<int>(node.get<int64_t>("carried")),
                   static_cast<int>(node.get_or<int64_t>("sequences", 0)),
                   0,
                   0,
                   node.get_or<bool>("reverse", false)};
  int operands = static_cast<int>(node.operands.size());
  parts.invariants = operands - parts.carried - parts.sequences;
  parts.stacked = static_cast<int>(body.outputs.size()) - parts.carried;
  if (parts.carried < 0 || parts.sequences < 0 || parts.invariants < 0)
    bad_operands(node, std::to_string(parts.carried) + " carried values and " + std::to_string(parts.sequences) +
                           " sequences");
  if (parts.stacked < 0 || static_cast<int>(body.inputs().size()) != operands)
    bad_operands(node, "a body with an input an operand and an output a carried value");
  return parts;
}

namespace {

std::vector<graph::Type> infer_recurrence(const graph::Node &node, ExprContext &) {
  Recurrence parts = recurrence_of(node);
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const graph::Value *operand = node.operands[i];
    if (!operand)
      bad_operands(node, "all operands");
    graph::Type wanted = operand->type;
    int place = static_cast<int>(i);
    if (place >= parts.carried && place < parts.carried + parts.sequences) {
      if (wanted.rank() == 0)
        bad_operands(node, "sequences with an axis of time");
      wanted.shape.erase(wanted.shape.begin());
    }
    if (!graph::agree(parts.body.inputs()[i]->type, wanted))
      bad_operands(node, "a body whose input " + std::to_string(i) + " is " + print(wanted));
  }
  std::vector<graph::Type> results;
  for (size_t i = 0; i < parts.body.outputs.size(); ++i) {
    const graph::Value *output = parts.body.outputs[i];
    if (!output)
      bad_operands(node, "all outputs of its body");
    graph::Type type = output->type;
    bool is_carried = static_cast<int>(i) < parts.carried;
    if (is_carried && !graph::agree(type, node.operands[i]->type))
      bad_operands(node, "a body whose output " + std::to_string(i) + " is " + print(node.operands[i]->type));
    if (!is_carried)
      type.shape.insert(type.shape.begin(), parts.length);
    results.push_back(std::move(type));
  }
  return results;
}

constexpr OpInfo recurrence() {
  OpInfo info;
  info.name = "recurrence", info.kind = OpKind::kRegion, info.infer = infer_recurrence, info.cost = 1000;
  info.doc =
      "the graph `body` once a time step, `length` times, in the order of time or in `reverse`; the first `carried` "
      "operands go from step to step, of the next `sequences` operands each step sees one element of axis 0; results: "
      "carried values after the last step, and what else the body gives, stacked along axis 0";
  return info;
}

constexpr OpInfo kOps[] = {recurrence()};

} // namespace

OpTable recurrence_ops() { return {kOps, {}}; }

} // namespace oxyfuel
