// Updates at computed places: the base with elements replaced or combined. Places are checked as for gather. Where a
// place occurs more than once, updates combine in the order of their indices ("set": the last one stays).
#include "ops/shape.h"
#include "ops/table.h"

namespace oxyfuel {

namespace {

using graph::Node;
using graph::Type;
using Index = std::span<const Expr>;

std::vector<Type> infer_base(const Node &node, ExprContext &) { return {node.operands.at(0)->type}; }

/// base, index, update: update[i] goes to base at i with the place along `axis` from index[i]; update is at least as
/// large as index in every axis.
Expr scatter_check(ExprContext &, const Node &node, Index index, const ReadOperand &read) {
  Expr place = cast(read(1, index, {}), DType::kI64), size = node.operands[0]->type.shape[node.get<int64_t>("axis")];
  return size.like(0) <= place && place < size;
}

/// base, values, then places along each axis of base (absent: whole); `index` is that of values broadcast.
Expr index_put_check(ExprContext &context, const Node &node, Index index, const ReadOperand &read) {
  // The axes of the places stand where `index` puts them; values are checked by the places alone.
  Expr result = context.boolean(true);
  Shape places;
  int first = -1, last = -1, at = 0;
  bool is_split = false;
  for (size_t i = 2; i < node.operands.size(); ++i)
    if (node.operands[i]) {
      int axis = static_cast<int>(i) - 2;
      places = broadcast(places, node.operands[i]->type.shape);
      is_split = is_split || (first >= 0 && last + 1 != axis);
      first = first < 0 ? axis : first;
      last = axis;
    }
  at = is_split || first < 0 ? 0 : first;
  Index own = index.subspan(at, places.size());
  for (size_t i = 2; i < node.operands.size(); ++i)
    if (node.operands[i]) {
      Expr place = read(static_cast<int>(i), broadcast_index(node.operands[i]->type.shape, own), {});
      result = result && index_in_range(place, node.operands[0]->type.shape[i - 2]);
    }
  return result;
}

std::vector<Type> infer_slice_scatter(const Node &node, ExprContext &context) {
  Type base = node.operands.at(0)->type;
  int64_t axis = node.get<int64_t>("axis");
  if (axis < 0 || axis >= base.rank() || node.operands.at(1)->type.rank() != base.rank())
    bad_operands(node, "an axis and an update of the base's rank");
  size_attribute(node, "start", context);
  return {base};
}

Expr slice_scatter_element(ExprContext &context, const Node &node, Index index, const ReadOperand &read) {
  int64_t axis = node.get<int64_t>("axis"), step = node.get_or<int64_t>("step", 1);
  Expr length = node.operands[1]->type.shape[axis];
  Expr distance = index[axis] - size_attribute(node, "start", context);
  std::vector<Expr> at(index.begin(), index.end());
  at[axis] = floor_div(distance, step);
  Expr inside = context.integer(0) <= distance && at[axis] < length;
  if (step != 1)
    inside = inside && eq(floor_mod(distance, step), context.integer(0));
  if (inside.is_const(1))
    return read(1, at, {});
  return select(inside, read(1, at, inside), read(0, index, {}));
}

/// The diagonal of `axis1` and `axis2` comes from the update, whose last axis it is.
Expr diagonal_scatter_element(ExprContext &context, const Node &node, Index index, const ReadOperand &read) {
  int64_t first = node.get<int64_t>("axis1"), second = node.get<int64_t>("axis2"), offset = node.get<int64_t>("offset");
  std::vector<Expr> at;
  for (int64_t i = 0; i < static_cast<int64_t>(index.size()); ++i)
    if (i != first && i != second)
      at.push_back(index[i]);
  Expr place = offset < 0 ? index[second] : index[first];
  at.push_back(place);
  Expr inside = eq(index[second] - index[first], context.integer(offset));
  return select(inside, read(1, at, inside), read(0, index, {}));
}

constexpr OpInfo scatter(std::string_view name, std::string_view doc, decltype(OpInfo::infer) infer,
                         decltype(OpInfo::check) check, decltype(OpInfo::element) element) {
  OpInfo info;
  info.name = name, info.kind = element ? OpKind::kIndexed : OpKind::kScatter, info.doc = doc, info.infer = infer;
  info.check = check, info.element = element, info.cost = 4;
  return info;
}

constexpr OpInfo slice_scatter() {
  OpInfo info = scatter("slice_scatter", "the base with elements start, start + step, … along `axis` from the update",
                        infer_slice_scatter, nullptr, slice_scatter_element);
  info.kind = OpKind::kScatter;
  return info;
}

constexpr OpInfo kOps[] = {
    scatter("scatter", "base, index, update: gather's converse along `axis`; `mode`: set, add, mul, max or min",
            infer_base, scatter_check, nullptr),
    scatter("index_put", "base, values, places along each axis: the converse of index; `accumulate` adds", infer_base,
            index_put_check, nullptr),
    slice_scatter(),
    scatter("diagonal_scatter", "the base with the diagonal `offset` of `axis1` and `axis2` from the update",
            infer_base, nullptr, diagonal_scatter_element),
};

} // namespace

OpTable scatter_ops() { return {kOps, {}}; }

} // namespace oxyfuel
