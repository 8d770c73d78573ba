// Writing composites: values that carry their builder, so that a rule reads like the formula it stands for. Arithmetic
// appends pointwise nodes in the type of the operands, which rules bring to the op-math type first and cast to the
// result's type at the end: one rounding at the boundary.
#pragma once

#include "ops/import.h"
#include "ops/shape.h"

namespace oxyfuel {

using Values = std::vector<graph::Value *>;

/// A value inside a composite.
struct Term {
  GraphBuilder *b = nullptr;
  graph::Value *value = nullptr;

  explicit operator bool() const { return value != nullptr; }
  DType dtype() const { return value->type.dtype; }
  int rank() const { return value->type.rank(); }
  const Shape &shape() const { return value->type.shape; }
  Expr size(int axis) const { return value->type.shape[axis]; }
  ExprContext &context() const { return b->context(); }

  Term to(DType t) const { return {b, b->cast(value, t)}; }
  /// A constant of exactly this term's type.
  Term like(double number) const { return {b, b->cast(b->scalar(number, dtype()), dtype())}; }
  Term apply(std::string_view op, Attributes attributes = {}) const {
    return {b, b->pointwise(op, {value}, dtype(), dtype(), std::move(attributes))};
  }
  Term reduce(std::string_view op, std::vector<int64_t> axes, bool keep) const {
    return {b, b->reduce(op, value, std::move(axes), keep, dtype())};
  }
  Term sum(std::vector<int64_t> axes, bool keep = true) const { return reduce("sum", std::move(axes), keep); }
  Term max(std::vector<int64_t> axes, bool keep = true) const { return reduce("max", std::move(axes), keep); }
  Term reshape(Shape shape) const { return {b, b->reshape(value, std::move(shape))}; }
  Term expand(Shape shape) const { return {b, b->expand(value, std::move(shape))}; }
  Term permute(std::vector<int64_t> dims) const { return {b, b->permute(value, std::move(dims))}; }
  Term unsqueeze(int axis) const { return {b, b->unsqueeze(value, axis)}; }
  Term squeeze(int axis) const { return {b, b->squeeze(value, axis)}; }
  Term slice(int axis, Expr start, Expr length, int64_t step = 1) const {
    return {b, b->slice(value, axis, start, length, step)};
  }
  Term select(int axis, Expr place) const { return slice(axis, place, context().integer(1)).squeeze(axis); }
  /// Swaps the last two axes.
  Term transpose() const;
};

Term term(GraphBuilder &b, graph::Value *value);
/// The value in op-math precision.
Term wide(GraphBuilder &b, graph::Value *value);

/// Computed in the type of `a`, to which `b` is cast.
Term combine(std::string_view op, Term a, Term b);
inline Term operator+(Term a, Term b) { return combine("add", a, b); }
inline Term operator-(Term a, Term b) { return combine("sub", a, b); }
inline Term operator*(Term a, Term b) { return combine("mul", a, b); }
inline Term operator/(Term a, Term b) { return combine("div", a, b); }
inline Term operator+(Term a, double b) { return a + a.like(b); }
inline Term operator-(Term a, double b) { return a - a.like(b); }
inline Term operator*(Term a, double b) { return a * a.like(b); }
inline Term operator/(Term a, double b) { return a / a.like(b); }
inline Term operator-(Term a) { return a.apply("neg"); }
/// op: eq, ne, lt, le, gt, ge, logical_and, logical_or.
Term compare(std::string_view op, Term a, Term b);
inline Term operator<(Term a, Term b) { return compare("lt", a, b); }
inline Term operator<=(Term a, Term b) { return compare("le", a, b); }
inline Term operator>(Term a, Term b) { return compare("gt", a, b); }
inline Term operator>=(Term a, Term b) { return compare("ge", a, b); }
inline Term equal(Term a, Term b) { return compare("eq", a, b); }
inline Term both(Term a, Term b) { return compare("logical_and", a, b); }
inline Term either(Term a, Term b) { return compare("logical_or", a, b); }
inline Term negate(Term a) { return {a.b, a.b->pointwise("logical_not", {a.value}, a.dtype(), DType::kBool)}; }
Term is_nan(Term a);
Term choose(Term condition, Term a, Term b);

/// Numbers [0, length) along a new axis in a shape of `rank` axes, of which `axis` has the length and the others 1.
Term numbers(GraphBuilder &b, Expr length, int rank, int axis, DType dtype = DType::kI64);
/// The product of sizes as a rank-0 value.
Term count(GraphBuilder &b, const Shape &shape, const std::vector<int64_t> &axes, DType dtype);
Term full(GraphBuilder &b, const Shape &shape, double value, DType dtype);

/// A non-negative axis from one that may count from the end; rank-0 tensors take 0 and -1 too.
int wrap_axis(int64_t axis, int rank);
/// The same for a list; an empty list means all axes when `empty_is_all`.
std::vector<int64_t> wrap_axes(std::vector<int64_t> axes, int rank, bool empty_is_all = true);
std::vector<int64_t> all_axes(int rank);
Shape sizes(ExprContext &context, std::initializer_list<int64_t> values);

} // namespace oxyfuel
