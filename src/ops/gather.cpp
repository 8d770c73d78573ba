// Elements at places that tensors give. Places are checked as eager does (`check`) unless the node is `unchecked` (its
// rule knows that they are in range), and clamped, so that memory is safe.
#include "ops/shape.h"
#include "ops/table.h"
#include "support/error.h"

namespace oxyfuel {

namespace {

using graph::Node;
using graph::Type;
using Index = std::span<const Expr>;

bool is_unchecked(const Node &node) { return node.get_or<bool>("unchecked", false); }

/// 0 <= index < size, for operators that take no negative index.
Expr in_range(Expr index, Expr size) {
  index = index.dtype() == DType::kI64 ? index : cast(index, DType::kI64);
  return size.like(0) <= index && index < size;
}

Expr clamp(Expr index, Expr size) {
  index = index.dtype() == DType::kI64 ? index : cast(index, DType::kI64);
  return max(min(index, size - 1), size.like(0));
}

// index: advanced indexing. Operand 0 is the data, operand 1 + i the places along axis i, null where the axis is whole.

struct IndexPlan {
  Shape places;           ///< broadcast shape of the index tensors
  int result_axis = 0;    ///< where these axes stand in the result
  std::vector<int> whole; ///< axes that are not indexed
};

IndexPlan plan_index(const Node &node) {
  IndexPlan plan;
  int rank = node.operands.at(0)->type.rank(), first = -1, last = -1;
  bool is_split = false;
  for (int axis = 0; axis < rank; ++axis) {
    const graph::Value *places = axis + 1 < static_cast<int>(node.operands.size()) ? node.operands[axis + 1] : nullptr;
    if (!places) {
      plan.whole.push_back(axis);
      continue;
    }
    plan.places = broadcast(plan.places, places->type.shape);
    is_split = is_split || (first >= 0 && last + 1 != axis);
    first = first < 0 ? axis : first;
    last = axis;
  }
  // Indexed axes that stand side by side keep their place; others come first.
  plan.result_axis = is_split || first < 0 ? 0 : first;
  return plan;
}

std::vector<Type> infer_index(const Node &node, ExprContext &) {
  const Type &x = node.operands.at(0)->type;
  IndexPlan plan = plan_index(node);
  Type result{x.dtype, {}};
  for (int axis : plan.whole)
    result.shape.push_back(x.shape[axis]);
  result.shape.insert(result.shape.begin() + plan.result_axis, plan.places.begin(), plan.places.end());
  return {result};
}

/// Calls `visit(axis, place, size)` for each indexed axis.
void for_each_place(const Node &node, const IndexPlan &plan, Index index, const ReadOperand &read,
                    const std::function<void(int, Expr, Expr)> &visit) {
  Index places = index.subspan(plan.result_axis, plan.places.size());
  for (size_t i = 1; i < node.operands.size(); ++i)
    if (node.operands[i]) {
      int axis = static_cast<int>(i) - 1;
      Expr place = read(static_cast<int>(i), broadcast_index(node.operands[i]->type.shape, places), {});
      visit(axis, place, node.operands[0]->type.shape[axis]);
    }
}

Expr index_element(ExprContext &, const Node &node, Index index, const ReadOperand &read) {
  IndexPlan plan = plan_index(node);
  std::vector<Expr> at(node.operands[0]->type.rank());
  size_t next = 0;
  for (int axis : plan.whole) {
    if (next == static_cast<size_t>(plan.result_axis))
      next += plan.places.size();
    at[axis] = index[next++];
  }
  for_each_place(node, plan, index, read,
                 [&](int axis, Expr place, Expr size) { at[axis] = clamp_index(place, size); });
  return read(0, at, {});
}

Expr index_check(ExprContext &context, const Node &node, Index index, const ReadOperand &read) {
  if (is_unchecked(node))
    return {};
  Expr result = context.boolean(true);
  for_each_place(node, plan_index(node), index, read,
                 [&](int, Expr place, Expr size) { result = result && index_in_range(place, size); });
  return result;
}

// gather: the result has the shape of the places.

std::vector<Type> infer_gather(const Node &node, ExprContext &) {
  const Type &x = node.operands.at(0)->type, &places = node.operands.at(1)->type;
  if (x.rank() != places.rank())
    bad_operands(node, "operands of one rank");
  return {Type{x.dtype, places.shape}};
}

Expr gather_element(ExprContext &, const Node &node, Index index, const ReadOperand &read) {
  int64_t axis = node.get<int64_t>("axis");
  std::vector<Expr> at(index.begin(), index.end());
  at[axis] = clamp(read(1, index, {}), node.operands[0]->type.shape[axis]);
  return read(0, at, {});
}

Expr gather_check(ExprContext &, const Node &node, Index index, const ReadOperand &read) {
  return in_range(read(1, index, {}), node.operands[0]->type.shape[node.get<int64_t>("axis")]);
}

// index_select: an axis replaced by the axes of the places (any rank: a lookup in a table of rows has axis 0).

std::vector<Type> infer_index_select(const Node &node, ExprContext &) {
  Type result = node.operands.at(0)->type;
  const Shape &places = node.operands.at(1)->type.shape;
  int64_t axis = node.get<int64_t>("axis");
  if (axis < 0 || axis >= result.rank())
    bad_operands(node, "an axis of operand 0");
  result.shape.erase(result.shape.begin() + axis);
  result.shape.insert(result.shape.begin() + axis, places.begin(), places.end());
  return {result};
}

Index select_places(const Node &node, Index index) {
  return index.subspan(node.get<int64_t>("axis"), node.operands[1]->type.rank());
}

Expr index_select_element(ExprContext &, const Node &node, Index index, const ReadOperand &read) {
  int64_t axis = node.get<int64_t>("axis");
  std::vector<Expr> at(index.begin(), index.begin() + axis);
  at.push_back(clamp(read(1, select_places(node, index), {}), node.operands[0]->type.shape[axis]));
  at.insert(at.end(), index.begin() + axis + node.operands[1]->type.rank(), index.end());
  return read(0, at, {});
}

Expr index_select_check(ExprContext &, const Node &node, Index index, const ReadOperand &read) {
  if (is_unchecked(node))
    return {};
  return in_range(read(1, select_places(node, index), {}), node.operands[0]->type.shape[node.get<int64_t>("axis")]);
}

// search_sorted: binary search along the last axis of operand 0, ATen's cus_lower_bound and cus_upper_bound.

std::vector<Type> infer_search_sorted(const Node &node, ExprContext &) {
  return {Type{node.get_or<DType>("dtype", DType::kI64), node.operands.at(1)->type.shape}};
}

Expr search_sorted_element(ExprContext &context, const Node &node, Index index, const ReadOperand &read) {
  const Type &sorted = node.operands[0]->type;
  bool is_right = node.get<bool>("right");
  Expr size = sorted.shape.back(), value = read(1, index, {});
  std::optional<int64_t> bound = size.constant() ? size.constant() : range_of(size).upper;
  int steps = 1;
  while (steps < 48 && (!bound || (int64_t(1) << (steps - 1)) <= *bound))
    ++steps;
  std::vector<Expr> at;
  if (sorted.rank() > 1)
    at.assign(index.begin(), index.end());
  else
    at.resize(1);
  Expr low = context.integer(0), high = size;
  for (int i = 0; i < steps; ++i) {
    Expr is_open = low < high;
    Expr middle = low + floor_div(high - low, 2);
    at.back() = max(min(middle, size - 1), context.integer(0));
    Expr found = read(0, at, is_open);
    Expr goes_right = is_open && !(is_right ? value < found : value <= found);
    low = select(goes_right, middle + 1, low);
    high = select(is_open && !goes_right, middle, high);
  }
  return cast(low, node.result()->type.dtype);
}

constexpr OpInfo indexed(std::string_view name, std::string_view doc, decltype(OpInfo::infer) infer,
                         decltype(OpInfo::element) element, decltype(OpInfo::check) check, int cost = 4) {
  OpInfo info;
  info.name = name, info.kind = OpKind::kIndexed, info.doc = doc, info.infer = infer, info.element = element;
  info.check = check, info.cost = cost;
  return info;
}

constexpr OpInfo kOps[] = {
    indexed("index", "advanced indexing: operand 1 + i holds places along axis i, absent where the axis is whole",
            infer_index, index_element, index_check),
    indexed("gather", "x[…, index[…], …] with the place along `axis` from operand 1", infer_gather, gather_element,
            gather_check),
    indexed("index_select",
            "slices of operand 0 along `axis` at the places of operand 1, whose axes stand for that one",
            infer_index_select, index_select_element, index_select_check),
    indexed("search_sorted",
            "where operand 1's values go in the sorted last axis of operand 0; after equals when `right`",
            infer_search_sorted, search_sorted_element, nullptr, 200),
};

} // namespace

OpTable gather_ops() { return {kOps, {}}; }

} // namespace oxyfuel
