// Views as strides: the index map of a view chain is built symbolically and taken apart into offset and strides.
#include "passes/graph/strided.h"

#include "ops/op.h"
#include "support/error.h"

namespace oxyfuel::graph {

Value *view_base(Value *value) {
  while (value->producer && value->producer->op->kind == OpKind::kView)
    value = value->producer->operands[0];
  return value;
}

std::optional<Expr> stride_along(Expr e, const Var *v) {
  if (!depends_on(e, v))
    return e.context().integer(0);
  if (auto constant = stride_in(e, v))
    return e.context().integer(*constant);
  ExprContext &context = e.context();
  Expr next = substitute(e, {{v, context.var(v) + 1}});
  Expr stride = next - e;
  if (depends_on(stride, v))
    return std::nullopt;
  return stride;
}

std::optional<StridedView> as_strided(ExprContext &context, Value *value) {
  StridedView view;
  view.base = view_base(value);
  std::vector<Var *> vars;
  std::vector<Expr> index;
  for (Expr extent : value->type.shape) {
    Var *v = context.new_var("i" + std::to_string(vars.size()), DType::kI64, 0, extent.constant());
    v->upper_expr = extent.node();
    vars.push_back(v);
    index.push_back(extent.is_const(1) ? context.integer(0) : context.var(v));
  }
  std::vector<Expr> at = index;
  for (Value *v = value; v != view.base; v = v->producer->operands[0]) {
    std::vector<Expr> next;
    bool is_plain = true;
    ReadOperand read = [&](int operand, std::span<const Expr> place, Expr mask) {
      is_plain = is_plain && operand == 0 && mask.is_empty();
      next.assign(place.begin(), place.end());
      return context.constant(0, v->producer->operands[operand]->type.dtype);
    };
    // A view that changes the element type (bit casts, real views of complex numbers) is not a matter of strides alone.
    if (v->type.dtype != v->producer->operands[0]->type.dtype)
      return std::nullopt;
    element_of(context, *v->producer, at, read);
    if (!is_plain)
      return std::nullopt;
    at = std::move(next);
  }
  std::vector<Expr> strides = view.base->layout.strides;
  if (strides.empty())
    strides = contiguous_strides(context, view.base->type.shape);
  Expr flat = view.base->layout.offset ? view.base->layout.offset : context.integer(0);
  for (size_t i = 0; i < at.size(); ++i)
    if (!view.base->type.shape[i].is_const(1))
      flat = flat + at[i] * strides[i];
  Substitution origin;
  for (size_t i = 0; i < vars.size(); ++i) {
    std::optional<Expr> stride = stride_along(flat, vars[i]);
    if (!stride)
      return std::nullopt;
    for (const Var *v : vars)
      if (depends_on(*stride, v))
        return std::nullopt;
    view.strides.push_back(*stride);
    origin[vars[i]] = context.integer(0);
  }
  view.offset = substitute(flat, origin);
  return view;
}

} // namespace oxyfuel::graph
