// Layer, group and RMS normalisation, and their gradients.
#include <algorithm>

#include "ops/compose.h"
#include "ops/normal.h"
#include "ops/table.h"
#include "support/error.h"

namespace oxyfuel {

Moments moments_of(Term x, const std::vector<int64_t> &axes) {
  Term n = count(*x.b, x.shape(), axes, x.dtype());
  Term mean = x.sum(axes) / n;
  return {mean, (x - mean).apply("square").sum(axes) / n, n};
}

Term inverse_deviation(Term variance, double eps) { return (variance + eps).apply("sqrt").apply("reciprocal"); }

namespace {

DType type_of(const AtenCall &call, size_t i) { return call.results.at(i).dtype; }

graph::Value *finish(GraphBuilder &b, const AtenCall &call, size_t i, Term value) {
  return b.reshape(value.to(type_of(call, i)).value, call.results[i].shape);
}

/// The last axes, as many as `normalized_shape` has.
std::vector<int64_t> last_axes(const AtenCall &call, int i, int rank) {
  size_t n = call.sizes(i, call.value(0)->type.shape.at(0).context()).size();
  std::vector<int64_t> axes = all_axes(rank);
  axes.erase(axes.begin(), axes.end() - n);
  return axes;
}

std::vector<int64_t> other_axes(const std::vector<int64_t> &axes, int rank) {
  std::vector<int64_t> rest;
  for (int64_t axis : all_axes(rank))
    if (std::find(axes.begin(), axes.end(), axis) == axes.end())
      rest.push_back(axis);
  return rest;
}

/// native_layer_norm(x, normalized_shape, weight, bias, eps) → out, mean, rstd
Values import_layer_norm(GraphBuilder &b, const AtenCall &call) {
  Term x = wide(b, call.value(0));
  std::vector<int64_t> axes = last_axes(call, 1, x.rank());
  Moments moments = moments_of(x, axes);
  Term rstd = inverse_deviation(moments.variance, call.number(4));
  Term out = (x - moments.mean) * rstd;
  if (call.has(2))
    out = out * term(b, call.value(2)).to(x.dtype());
  if (call.has(3))
    out = out + term(b, call.value(3)).to(x.dtype());
  return {finish(b, call, 0, out), finish(b, call, 1, moments.mean), finish(b, call, 2, rstd)};
}

/// Gradient of (x - mean) * rstd: rstd * (g - mean(g) - xhat * mean(g * xhat))
Term normal_gradient(Term g, Term normal, Term rstd, const std::vector<int64_t> &axes) {
  Term n = count(*g.b, g.shape(), axes, g.dtype());
  return rstd * (g - g.sum(axes) / n - normal * ((g * normal).sum(axes) / n));
}

/// native_layer_norm_backward(g, x, normalized_shape, mean, rstd, weight, bias, output_mask)
Values import_layer_norm_backward(GraphBuilder &b, const AtenCall &call) {
  Term g = wide(b, call.value(0)), x = wide(b, call.value(1));
  std::vector<int64_t> axes = last_axes(call, 2, x.rank()), rest = other_axes(axes, x.rank());
  Term mean = term(b, call.value(3)).to(x.dtype()), rstd = term(b, call.value(4)).to(x.dtype());
  Term normal = (x - mean) * rstd;
  std::vector<int64_t> mask = call.integers(7);
  Values results(3);
  if (mask.at(0)) {
    Term scaled = call.has(5) ? g * term(b, call.value(5)).to(x.dtype()) : g;
    results[0] = finish(b, call, 0, normal_gradient(scaled, normal, rstd, axes));
  }
  if (mask.at(1))
    results[1] = finish(b, call, 1, (g * normal).sum(rest, false));
  if (mask.at(2))
    results[2] = finish(b, call, 2, g.sum(rest, false));
  return results;
}

/// [N, C, …] as [N, groups, C / groups, HW]
Term grouped(Term x, int64_t groups) {
  Shape rest(x.shape().begin() + 2, x.shape().end());
  ExprContext &context = x.context();
  return x.reshape(
      {x.size(0), context.integer(groups), floor_div(x.size(1), groups), graph::element_count(context, rest)});
}

/// A parameter [C] as [1, groups, C / groups, 1]
Term grouped_parameter(GraphBuilder &b, graph::Value *value, int64_t groups, DType dtype) {
  Term p = term(b, value).to(dtype);
  ExprContext &context = b.context();
  return p.reshape({context.integer(1), context.integer(groups), floor_div(p.size(0), groups), context.integer(1)});
}

/// native_group_norm(x, weight, bias, N, C, HxW, group, eps) → out, mean, rstd
Values import_group_norm(GraphBuilder &b, const AtenCall &call) {
  int64_t groups = call.integer(6);
  Term x = grouped(wide(b, call.value(0)), groups);
  Moments moments = moments_of(x, {2, 3});
  Term rstd = inverse_deviation(moments.variance, call.number(7));
  Term out = (x - moments.mean) * rstd;
  if (call.has(1))
    out = out * grouped_parameter(b, call.value(1), groups, x.dtype());
  if (call.has(2))
    out = out + grouped_parameter(b, call.value(2), groups, x.dtype());
  return {finish(b, call, 0, out), finish(b, call, 1, moments.mean), finish(b, call, 2, rstd)};
}

/// native_group_norm_backward(g, x, mean, rstd, weight, N, C, HxW, group, output_mask)
Values import_group_norm_backward(GraphBuilder &b, const AtenCall &call) {
  int64_t groups = call.integer(8);
  Term g = grouped(wide(b, call.value(0)), groups), x = grouped(wide(b, call.value(1)), groups);
  Expr one = b.context().integer(1);
  auto statistic = [&](int i) {
    return term(b, call.value(i)).to(x.dtype()).reshape({x.size(0), x.size(1), one, one});
  };
  Term rstd = statistic(3), normal = (x - statistic(2)) * rstd;
  std::vector<int64_t> mask = call.integers(9);
  Values results(3);
  if (mask.at(0)) {
    Term scaled = call.has(4) ? g * grouped_parameter(b, call.value(4), groups, x.dtype()) : g;
    results[0] = finish(b, call, 0, normal_gradient(scaled, normal, rstd, {2, 3}));
  }
  if (mask.at(1))
    results[1] = finish(b, call, 1, (g * normal).sum({0, 3}, false));
  if (mask.at(2))
    results[2] = finish(b, call, 2, g.sum({0, 3}, false));
  return results;
}

double epsilon(DType t) { return t == DType::kF64 ? 2.220446049250313e-16 : 1.1920928955078125e-07; }

/// _fused_rms_norm(x, normalized_shape, weight, eps) → out, rstd
Values import_rms_norm(GraphBuilder &b, const AtenCall &call) {
  Term x = wide(b, call.value(0));
  std::vector<int64_t> axes = last_axes(call, 1, x.rank());
  Term square = x.apply("square").sum(axes) / count(b, x.shape(), axes, x.dtype());
  Term rstd = (square + (call.has(3) ? call.number(3) : epsilon(x.dtype()))).apply("rsqrt");
  Term out = x * rstd;
  if (call.has(2))
    out = out * term(b, call.value(2)).to(x.dtype());
  return {finish(b, call, 0, out), finish(b, call, 1, rstd)};
}

/// _fused_rms_norm_backward(g, x, normalized_shape, rstd, weight, output_mask)
Values import_rms_norm_backward(GraphBuilder &b, const AtenCall &call) {
  Term g = wide(b, call.value(0)), x = wide(b, call.value(1));
  std::vector<int64_t> axes = last_axes(call, 2, x.rank()), mask = call.integers(5);
  Term rstd = term(b, call.value(3)).to(x.dtype()), normal = x * rstd;
  Values results(2);
  if (mask.at(0)) {
    Term scaled = call.has(4) ? g * term(b, call.value(4)).to(x.dtype()) : g;
    Term n = count(b, x.shape(), axes, x.dtype());
    results[0] = finish(b, call, 0, rstd * (scaled - normal * ((scaled * normal).sum(axes) / n)));
  }
  if (mask.at(1) && call.has(4))
    results[1] = finish(b, call, 1, (g * normal).sum(other_axes(axes, x.rank()), false));
  return results;
}

constexpr AtenRule kRules[] = {
    {"aten.native_layer_norm.default", import_layer_norm},
    {"aten.native_layer_norm_backward.default", import_layer_norm_backward},
    {"aten.native_group_norm.default", import_group_norm},
    {"aten.native_group_norm_backward.default", import_group_norm_backward},
    {"aten._fused_rms_norm.default", import_rms_norm},
    {"aten._fused_rms_norm_backward.default", import_rms_norm_backward},
};

} // namespace

OpTable aten_norm() { return {{}, kRules}; }

} // namespace oxyfuel
