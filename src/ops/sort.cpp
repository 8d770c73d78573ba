// Sorting along an axis.
#include "ops/shape.h"
#include "ops/table.h"

namespace oxyfuel {

namespace {

std::vector<graph::Type> infer_sort(const graph::Node &node, ExprContext &) {
  const graph::Type &x = node.operands.at(0)->type;
  int64_t axis = node.get<int64_t>("axis");
  if (axis < 0 || axis >= x.rank())
    bad_operands(node, "an axis of its operand");
  return {x, graph::Type{DType::kI64, x.shape}};
}

constexpr OpInfo sort() {
  OpInfo info;
  info.name = "sort", info.kind = OpKind::kSort, info.infer = infer_sort, info.cost = 100;
  info.doc =
      "values and their places along `axis`, ascending or `descending`, equals in their order (`stable` always holds); "
      "NaN counts as the largest";
  return info;
}

constexpr OpInfo kOps[] = {sort()};

} // namespace

OpTable sort_ops() { return {kOps, {}}; }

} // namespace oxyfuel
