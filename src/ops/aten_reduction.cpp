// Reductions that eager has under many names, and statistics made of them.
#include <cmath>

#include "ops/compose.h"
#include "ops/table.h"
#include "support/error.h"

namespace oxyfuel {

namespace {

/// Axes at argument `i` (an integer, a list, or None for all) and whether they are kept.
std::vector<int64_t> axes_of(const AtenCall &call, int i, int rank) {
  return call.has(i) ? wrap_axes(call.integers(i), rank) : all_axes(rank);
}

bool flag(const AtenCall &call, int i) { return call.has(i) && call.boolean(i); }

/// A reduction that rounds once: eager converts to the result's type first when that is wider or of another kind.
graph::Value *fold(GraphBuilder &b, std::string_view op, graph::Value *x, std::vector<int64_t> axes, bool keep,
                   DType result) {
  bool is_narrowing = opmath_of(result) != result && opmath_of(x->type.dtype) == opmath_of(result);
  return b.reduce(op, is_narrowing ? x : b.cast(x, result), std::move(axes), keep, result);
}

/// For max and min, which PyTorch refuses of nothing when it runs them, not when they are traced (as amax and argmax).
void not_empty(const AtenCall &call, const std::vector<int64_t> &axes) {
  for (int64_t axis : axes)
    if (range_of(call.value(0)->type.shape[axis]).lower.value_or(0) < 1)
      throw UnsupportedError(call.overload + " over an axis that may be empty");
}

/// op(x) over all axes.
Values fold_all(GraphBuilder &b, const AtenCall &call, std::string_view op) {
  graph::Value *x = call.value(0);
  return {fold(b, op, x, all_axes(x->type.rank()), false, call.results.at(0).dtype)};
}

/// op(x, axes, keepdim).
Values fold_axes(GraphBuilder &b, const AtenCall &call, std::string_view op) {
  graph::Value *x = call.value(0);
  return {fold(b, op, x, axes_of(call, 1, x->type.rank()), flag(call, 2), call.results.at(0).dtype)};
}

Values import_sum(GraphBuilder &b, const AtenCall &call) { return fold_all(b, call, "sum"); }
Values import_sum_axes(GraphBuilder &b, const AtenCall &call) { return fold_axes(b, call, "sum"); }
Values import_prod(GraphBuilder &b, const AtenCall &call) { return fold_all(b, call, "prod"); }
Values import_prod_axes(GraphBuilder &b, const AtenCall &call) { return fold_axes(b, call, "prod"); }
Values import_amax(GraphBuilder &b, const AtenCall &call) { return fold_axes(b, call, "max"); }
Values import_amin(GraphBuilder &b, const AtenCall &call) { return fold_axes(b, call, "min"); }

Values extreme_of_all(GraphBuilder &b, const AtenCall &call, std::string_view op) {
  not_empty(call, all_axes(call.value(0)->type.rank()));
  return fold_all(b, call, op);
}

Values import_max(GraphBuilder &b, const AtenCall &call) { return extreme_of_all(b, call, "max"); }
Values import_min(GraphBuilder &b, const AtenCall &call) { return extreme_of_all(b, call, "min"); }

Values logical(GraphBuilder &b, const AtenCall &call, std::string_view op, std::vector<int64_t> axes, bool keep) {
  graph::Value *x = call.value(0);
  DType result = call.results.at(0).dtype;
  if (is_complex(x->type.dtype))
    x = b.cast(x, DType::kBool);
  return {b.cast(b.reduce(op, x, std::move(axes), keep, DType::kBool), result)};
}

Values import_any(GraphBuilder &b, const AtenCall &call) {
  return logical(b, call, "any", all_axes(call.value(0)->type.rank()), false);
}
Values import_all(GraphBuilder &b, const AtenCall &call) {
  return logical(b, call, "all", all_axes(call.value(0)->type.rank()), false);
}
Values import_any_axes(GraphBuilder &b, const AtenCall &call) {
  return logical(b, call, "any", axes_of(call, 1, call.value(0)->type.rank()), flag(call, 2));
}
Values import_all_axes(GraphBuilder &b, const AtenCall &call) {
  return logical(b, call, "all", axes_of(call, 1, call.value(0)->type.rank()), flag(call, 2));
}

/// Position along one axis, or in row-major order when no axis is given.
graph::Value *position(GraphBuilder &b, std::string_view op, graph::Value *x, std::optional<int64_t> axis, bool keep) {
  const Shape shape = x->type.shape;
  if (shape.empty())
    return b.scalar_integer(0, DType::kI64);
  if (axis)
    return b.reduce(op, x, {wrap_axis(*axis, x->type.rank())}, keep, DType::kI64);
  graph::Value *flat = b.reshape(x, {graph::element_count(b.context(), shape)});
  graph::Value *found = b.reduce(op, flat, {0}, false, DType::kI64);
  return keep ? b.reshape(found, Shape(shape.size(), b.context().integer(1))) : found;
}

Values arg(GraphBuilder &b, const AtenCall &call, std::string_view op) {
  std::optional<int64_t> axis;
  if (call.has(1))
    axis = call.integer(1);
  return {position(b, op, call.value(0), axis, flag(call, 2))};
}

Values import_argmax(GraphBuilder &b, const AtenCall &call) { return arg(b, call, "argmax"); }
Values import_argmin(GraphBuilder &b, const AtenCall &call) { return arg(b, call, "argmin"); }

Values extreme(GraphBuilder &b, const AtenCall &call, std::string_view op, std::string_view arg_op) {
  graph::Value *x = call.value(0);
  int64_t axis = wrap_axis(call.integer(1), x->type.rank());
  bool keep = flag(call, 2);
  if (x->type.rank() == 0)
    return {x, b.scalar_integer(0, DType::kI64)};
  not_empty(call, {axis});
  return {b.reduce(op, x, {axis}, keep, x->type.dtype), position(b, arg_op, x, axis, keep)};
}

Values import_max_axis(GraphBuilder &b, const AtenCall &call) { return extreme(b, call, "max", "argmax"); }
Values import_min_axis(GraphBuilder &b, const AtenCall &call) { return extreme(b, call, "min", "argmin"); }

Values import_aminmax(GraphBuilder &b, const AtenCall &call) {
  graph::Value *x = call.value(0);
  int rank = x->type.rank();
  std::vector<int64_t> axes = call.has(1) ? std::vector<int64_t>{wrap_axis(call.integer(1), rank)} : all_axes(rank);
  if (rank == 0)
    axes.clear();
  return {b.reduce("min", x, axes, flag(call, 2), x->type.dtype),
          b.reduce("max", x, axes, flag(call, 2), x->type.dtype)};
}

Term mean(Term x, const std::vector<int64_t> &axes, bool keep) {
  return x.sum(axes, keep) / count(*x.b, x.shape(), axes, x.dtype());
}

Values import_mean(GraphBuilder &b, const AtenCall &call) {
  DType result = call.results.at(0).dtype;
  Term x = wide(b, b.cast(call.value(0), opmath_of(result)));
  // mean.default has the type where mean.dim has its axes.
  bool has_axes = call.overload != "aten.mean.default";
  std::vector<int64_t> axes = has_axes ? axes_of(call, 1, x.rank()) : all_axes(x.rank());
  return {mean(x, axes, has_axes && flag(call, 2)).to(result).value};
}

struct Spread {
  Term mean, variance;
};

/// Two passes: the mean, then squared distances over (n - correction), not below 0. In double precision, as eager's:
/// the squares of large numbers overflow in float32.
Spread spread(Term narrow, const std::vector<int64_t> &axes, double correction, bool keep) {
  Term x = narrow.to(DType::kF64);
  Term center = mean(x, axes, true);
  Term distance = x - center;
  Term n = count(*x.b, x.shape(), axes, x.dtype());
  Term divisor = combine("maximum", n - correction, n.like(0));
  Term variance = distance.apply("square").sum(axes, keep) / divisor;
  return {keep ? center : mean(x, axes, false), variance};
}

struct SpreadArguments {
  std::vector<int64_t> axes;
  double correction = 1;
  bool keep = false;
};

/// var.correction(x, axes, *, correction, keepdim); var.dim(x, axes, unbiased, keepdim); var.default(x, unbiased).
SpreadArguments spread_arguments(const AtenCall &call, int rank) {
  SpreadArguments arguments;
  std::string_view overload(call.overload);
  std::string_view variant = overload.substr(overload.rfind('.') + 1);
  if (variant == "default")
    return {all_axes(rank), flag(call, 1) ? 1.0 : 0.0, false};
  arguments.axes = axes_of(call, 1, rank);
  if (call.has(2))
    arguments.correction = variant == "dim" ? (call.boolean(2) ? 1 : 0) : call.number(2);
  arguments.keep = flag(call, 3);
  return arguments;
}

/// The variance of both parts together, each rounded to its type as eager's is.
Values complex_statistics(GraphBuilder &b, const AtenCall &call, Term x, bool is_root, bool has_mean) {
  SpreadArguments arguments = spread_arguments(call, x.rank());
  DType part = real_of(x.dtype());
  Spread parts[2];
  for (int i = 0; i < 2; ++i)
    parts[i] = spread({&b, b.pointwise(i ? "imag" : "real", {x.value}, x.dtype(), part)}, arguments.axes,
                      arguments.correction, arguments.keep);
  Term variance = parts[0].variance.to(part) + parts[1].variance.to(part);
  Values values{(is_root ? variance.apply("sqrt") : variance).value};
  if (has_mean)
    values.push_back(
        b.pointwise("complex", {parts[0].mean.to(part).value, parts[1].mean.to(part).value}, part, x.dtype()));
  return values;
}

Values statistics(GraphBuilder &b, const AtenCall &call, bool is_root, bool has_mean) {
  DType dtype = call.value(0)->type.dtype;
  Term x = term(b, call.value(0));
  if (is_complex(dtype))
    return complex_statistics(b, call, x, is_root, has_mean);
  SpreadArguments arguments = spread_arguments(call, x.rank());
  Spread result = spread(x, arguments.axes, arguments.correction, arguments.keep);
  Term first = is_root ? result.variance.apply("sqrt") : result.variance;
  Values values{first.to(dtype).value};
  if (has_mean)
    values.push_back(result.mean.to(dtype).value);
  return values;
}

Values import_var(GraphBuilder &b, const AtenCall &call) { return statistics(b, call, false, false); }
Values import_std(GraphBuilder &b, const AtenCall &call) { return statistics(b, call, true, false); }
Values import_var_mean(GraphBuilder &b, const AtenCall &call) { return statistics(b, call, false, true); }
Values import_std_mean(GraphBuilder &b, const AtenCall &call) { return statistics(b, call, true, true); }

/// max + log(sum(exp(x - max))), with an infinite maximum counted as 0 in the exponent.
Values import_logsumexp(GraphBuilder &b, const AtenCall &call) {
  DType result = call.results.at(0).dtype;
  Term x = wide(b, b.cast(call.value(0), opmath_of(result)));
  if (is_complex(result))
    throw UnsupportedError("aten.logsumexp of complex numbers");
  std::vector<int64_t> axes = axes_of(call, 1, x.rank());
  Term largest = x.max(axes, true);
  Term shift = choose(equal(largest.apply("abs"), largest.like(__builtin_inf())), largest.like(0), largest);
  Term value = (x - shift).apply("exp").sum(axes, true).apply("log") + shift;
  return {b.reshape(value.to(result).value, call.results[0].shape)};
}

Term absolute(Term x) { return {x.b, x.b->pointwise("abs", {x.value}, x.dtype(), real_of(x.dtype()))}; }

Values import_vector_norm(GraphBuilder &b, const AtenCall &call) {
  DType result = call.results.at(0).dtype;
  Term x = term(b, call.value(0));
  double order = call.has(1) ? call.number(1) : 2;
  std::vector<int64_t> axes = axes_of(call, 2, x.rank());
  bool keep = flag(call, 3);
  if (is_complex(x.dtype()) && result == DType::kF64)
    x = x.to(DType::kC128);
  Term size = is_complex(x.dtype()) ? absolute(x) : absolute(x.to(opmath_of(result)));
  Term value = size;
  if (std::isinf(order))
    value = size.reduce(order > 0 ? "max" : "min", axes, keep);
  else if (order == 0)
    value = Term{&b, b.pointwise("ne", {size.value, size.like(0).value}, size.dtype(), DType::kBool)}
                .to(size.dtype())
                .sum(axes, keep);
  else if (order == 1)
    value = size.sum(axes, keep);
  else if (order == 2)
    value = size.apply("square").sum(axes, keep).apply("sqrt");
  else
    value = combine("pow", combine("pow", size, size.like(order)).sum(axes, keep), size.like(1 / order));
  return {value.to(result).value};
}

Values import_count_nonzero(GraphBuilder &b, const AtenCall &call) {
  Term x = term(b, call.value(0)).to(DType::kBool).to(DType::kI64);
  return {x.sum(axes_of(call, 1, x.rank()), false).value};
}

Values import_nansum(GraphBuilder &b, const AtenCall &call) {
  DType result = call.results.at(0).dtype;
  Term x = term(b, call.value(0)).to(opmath_of(result));
  if (is_float(x.dtype()))
    x = choose(is_nan(x), x.like(0), x);
  return {x.sum(axes_of(call, 1, x.rank()), flag(call, 2)).to(result).value};
}

constexpr AtenRule kRules[] = {
    {"aten.sum.default", import_sum},
    {"aten.sum.dim_IntList prims.sum.default", import_sum_axes},
    {"aten.prod.default", import_prod},
    {"aten.prod.dim_int prims.prod.default", import_prod_axes},
    {"aten.amax.default prims.amax.default", import_amax},
    {"aten.amin.default prims.amin.default", import_amin},
    {"aten.max.default", import_max},
    {"aten.min.default", import_min},
    {"aten.any.default", import_any},
    {"aten.all.default", import_all},
    {"aten.any.dim aten.any.dims", import_any_axes},
    {"aten.all.dim aten.all.dims", import_all_axes},
    {"aten.argmax.default", import_argmax},
    {"aten.argmin.default", import_argmin},
    {"aten.max.dim", import_max_axis},
    {"aten.min.dim", import_min_axis},
    {"aten.aminmax.default", import_aminmax},
    {"aten.mean.default aten.mean.dim", import_mean},
    {"aten.var.correction aten.var.dim aten.var.default", import_var},
    {"aten.std.correction aten.std.dim aten.std.default", import_std},
    {"aten.var_mean.correction aten.var_mean.dim aten.var_mean.default", import_var_mean},
    {"aten.std_mean.correction aten.std_mean.dim aten.std_mean.default", import_std_mean},
    {"aten.logsumexp.default aten.special_logsumexp.default", import_logsumexp},
    {"aten.linalg_vector_norm.default", import_vector_norm},
    {"aten.count_nonzero.default aten.count_nonzero.dim_IntList", import_count_nonzero},
    {"aten.nansum.default", import_nansum},
};

} // namespace

OpTable aten_reduction() { return {{}, kRules}; }

} // namespace oxyfuel
