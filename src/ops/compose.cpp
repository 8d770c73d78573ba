#include "ops/compose.h"

#include <algorithm>
#include <numeric>

#include "support/error.h"

namespace oxyfuel {

Term term(GraphBuilder &b, graph::Value *value) { return {&b, value}; }

Term wide(GraphBuilder &b, graph::Value *value) { return {&b, b.cast(value, opmath_of(value->type.dtype))}; }

Term Term::transpose() const {
  std::vector<int64_t> dims = all_axes(rank());
  std::swap(dims[rank() - 1], dims[rank() - 2]);
  return permute(std::move(dims));
}

Term combine(std::string_view op, Term a, Term b) {
  return {a.b, a.b->pointwise(op, {a.value, b.to(a.dtype()).value}, a.dtype(), a.dtype())};
}

Term compare(std::string_view op, Term a, Term b) {
  return {a.b, a.b->pointwise(op, {a.value, b.to(a.dtype()).value}, a.dtype(), DType::kBool)};
}

Term is_nan(Term a) { return {a.b, a.b->pointwise("isnan", {a.value}, a.dtype(), DType::kBool)}; }

Term choose(Term condition, Term a, Term b) {
  return {a.b, a.b->pointwise("where", {condition.value, a.value, b.to(a.dtype()).value}, a.dtype(), a.dtype())};
}

Term numbers(GraphBuilder &b, Expr length, int rank, int axis, DType dtype) {
  Term line{&b,
            b.make("iota", {}, {{"start", int64_t(0)}, {"step", int64_t(1)}, {"length", length}, {"dtype", dtype}})};
  Shape shape(rank, b.context().integer(1));
  shape[axis] = length;
  return line.reshape(std::move(shape));
}

Term count(GraphBuilder &b, const Shape &shape, const std::vector<int64_t> &axes, DType dtype) {
  Expr product = b.context().integer(1);
  for (int64_t axis : axes)
    product = product * shape[axis];
  return {&b, b.scalar_size(product, dtype)};
}

Term full(GraphBuilder &b, const Shape &shape, double value, DType dtype) {
  return Term{&b, b.cast(b.scalar(value, dtype), dtype)}.expand(shape);
}

int wrap_axis(int64_t axis, int rank) {
  int64_t bound = std::max(rank, 1);
  if (axis < -bound || axis >= bound)
    throw UnsupportedError("axis " + std::to_string(axis) + " of a tensor of rank " + std::to_string(rank));
  return static_cast<int>(axis < 0 ? axis + bound : axis);
}

std::vector<int64_t> all_axes(int rank) {
  std::vector<int64_t> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

std::vector<int64_t> wrap_axes(std::vector<int64_t> axes, int rank, bool empty_is_all) {
  if (rank == 0)
    return {};
  if (axes.empty() && empty_is_all)
    return all_axes(rank);
  for (int64_t &axis : axes)
    axis = wrap_axis(axis, rank);
  std::sort(axes.begin(), axes.end());
  return axes;
}

Shape sizes(ExprContext &context, std::initializer_list<int64_t> values) {
  Shape shape;
  for (int64_t value : values)
    shape.push_back(context.integer(value));
  return shape;
}

} // namespace oxyfuel
