// Reductions: identity, combination, and the order on candidates for argmax and argmin.
#include <limits>

#include "ops/shape.h"
#include "ops/table.h"

namespace oxyfuel {

namespace {

using graph::Node;
using graph::Type;

std::vector<Type> infer_reduction(const Node &node, DType default_dtype) {
  const Type &x = node.operands.at(0)->type;
  const auto &axes = integers_attribute(node, "axes");
  std::vector<bool> is_folded(x.rank());
  for (int64_t axis : axes) {
    if (axis < 0 || axis >= x.rank() || is_folded[axis])
      bad_operands(node, "axes of the operand, each once");
    is_folded[axis] = true;
  }
  Type result{node.get_or<DType>("dtype", default_dtype), {}};
  for (int i = 0; i < x.rank(); ++i)
    if (!is_folded[i])
      result.shape.push_back(x.shape[i]);
  return {result};
}

std::vector<Type> infer_same(const Node &node, ExprContext &) {
  return infer_reduction(node, node.operands.at(0)->type.dtype);
}
std::vector<Type> infer_bool(const Node &node, ExprContext &) { return infer_reduction(node, DType::kBool); }
std::vector<Type> infer_position(const Node &node, ExprContext &) { return infer_reduction(node, DType::kI64); }

/// The least value of a type, minus infinity for floats.
Expr lowest(ExprContext &context, DType t) {
  if (is_float(t))
    return context.real(-std::numeric_limits<double>::infinity(), t);
  if (!is_signed_integer(t))
    return context.constant(0, t);
  return context.integer(std::numeric_limits<int64_t>::min() >> (64 - 8 * size_of(t)), t);
}

Expr highest(ExprContext &context, DType t) {
  if (is_float(t))
    return context.real(std::numeric_limits<double>::infinity(), t);
  if (is_bool(t))
    return context.boolean(true);
  if (!is_signed_integer(t))
    return context.integer(size_of(t) == 8 ? -1 : (int64_t(1) << 8 * size_of(t)) - 1, t);
  return context.integer(std::numeric_limits<int64_t>::max() >> (64 - 8 * size_of(t)), t);
}

Expr zero(ExprContext &context, DType t) { return context.constant(0, t); }
Expr one(ExprContext &context, DType t) { return context.constant(1, t); }
Expr no(ExprContext &context, DType) { return context.boolean(false); }
Expr yes(ExprContext &context, DType) { return context.boolean(true); }

Expr add(Expr a, Expr b) { return is_bool(a.dtype()) ? a || b : a + b; }
Expr mul(Expr a, Expr b) { return is_bool(a.dtype()) ? a && b : a * b; }
Expr truth(Expr a) { return is_bool(a.dtype()) ? a : ne(a, a.like(0)); }
Expr any(Expr a, Expr b) { return a || truth(b); }
Expr all(Expr a, Expr b) { return a && truth(b); }

/// NaN wins: a NaN candidate is taken, and then no candidate compares greater.
Expr larger(Expr a, Expr b) {
  if (is_bool(a.dtype()))
    return a || b;
  return is_float(a.dtype()) ? select(b > a || ne(b, b), b, a) : max(a, b);
}

Expr smaller(Expr a, Expr b) {
  if (is_bool(a.dtype()))
    return a && b;
  return is_float(a.dtype()) ? select(b < a || ne(b, b), b, a) : min(a, b);
}

/// A later candidate replaces only when it is really better: the first of equals and the first NaN stay.
Expr is_larger(Expr value, Expr candidate) {
  if (is_bool(value.dtype()))
    return candidate && !value;
  Expr better = candidate > value;
  return is_float(value.dtype()) ? eq(value, value) && (better || ne(candidate, candidate)) : better;
}

Expr is_smaller(Expr value, Expr candidate) {
  if (is_bool(value.dtype()))
    return value && !candidate;
  Expr better = candidate < value;
  return is_float(value.dtype()) ? eq(value, value) && (better || ne(candidate, candidate)) : better;
}

constexpr ReductionRule kSum{zero, add}, kProd{one, mul}, kMax{lowest, larger}, kMin{highest, smaller}, kAny{no, any},
    kAll{yes, all}, kArgmax{lowest, larger, is_larger}, kArgmin{highest, smaller, is_smaller};

constexpr OpInfo reduction(std::string_view name, std::string_view doc, decltype(OpInfo::infer) infer,
                           const ReductionRule *rule) {
  OpInfo info;
  info.name = name, info.kind = OpKind::kReduction, info.doc = doc, info.infer = infer, info.reduction = rule;
  return info;
}

constexpr OpInfo kOps[] = {
    reduction("sum", "sum over `axes`", infer_same, &kSum),
    reduction("prod", "product over `axes`", infer_same, &kProd),
    reduction("max", "largest element over `axes`; NaN wins", infer_same, &kMax),
    reduction("min", "smallest element over `axes`; NaN wins", infer_same, &kMin),
    reduction("any", "whether an element over `axes` is not zero", infer_bool, &kAny),
    reduction("all", "whether no element over `axes` is zero", infer_bool, &kAll),
    reduction("argmax", "position of the largest element along one axis: the first of equals, the first NaN",
              infer_position, &kArgmax),
    reduction("argmin", "position of the smallest element along one axis: the first of equals, the first NaN",
              infer_position, &kArgmin),
};

} // namespace

DType accumulator_of(const graph::Node &node) {
  if (node.has("accumulator"))
    return node.get<DType>("accumulator");
  // Candidates of argmax and argmin are compared in the operand's own type.
  if (node.op->reduction && node.op->reduction->better)
    return opmath_of(node.operands[0]->type.dtype);
  return opmath_of(node.result()->type.dtype);
}

OpTable reduction_ops() { return {kOps, {}}; }

} // namespace oxyfuel
