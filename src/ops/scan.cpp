// Running folds along an axis.
#include "ops/shape.h"
#include "ops/table.h"

namespace oxyfuel {

namespace {

std::vector<graph::Type> infer_scan(const graph::Node &node, ExprContext &) {
  graph::Type result = node.operands.at(0)->type;
  int64_t axis = node.get<int64_t>("axis");
  if (axis < 0 || axis >= result.rank())
    bad_operands(node, "an axis of its operand");
  result.dtype = node.get_or<DType>("dtype", result.dtype);
  return {result};
}

constexpr OpInfo scan() {
  OpInfo info;
  info.name = "scan", info.kind = OpKind::kScan, info.infer = infer_scan, info.cost = 4;
  info.doc = "result[i] folds elements [0, i] along `axis`; `mode`: sum, prod, max, min (NaN wins) or logsumexp";
  return info;
}

constexpr OpInfo kOps[] = {scan()};

} // namespace

OpTable scan_ops() { return {kOps, {}}; }

} // namespace oxyfuel
