// Regularisation: weight normalisation, and the gradients of dropout and of random leaks.
#include <algorithm>

#include "ops/compose.h"
#include "ops/table.h"
#include "support/error.h"

namespace oxyfuel {

namespace {

graph::Value *finish(const AtenCall &call, size_t i, Term t) {
  const graph::Type &type = call.results.at(i);
  return t.reshape(type.shape).to(type.dtype).value;
}

std::vector<int64_t> axes_but(int64_t axis, int rank) {
  std::vector<int64_t> axes = all_axes(rank);
  axes.erase(axes.begin() + axis);
  return axes;
}

/// _weight_norm_interface(v, g, axis) → v * g / |v|, |v|; norms are over all other axes.
Values import_weight_norm(GraphBuilder &b, const AtenCall &call) {
  Term v = wide(b, call.value(0)), g = wide(b, call.value(1));
  std::vector<int64_t> axes = axes_but(wrap_axis(call.has(2) ? call.integer(2) : 0, v.rank()), v.rank());
  Term norm = v.apply("square").sum(axes).apply("sqrt");
  return {finish(call, 0, v * (g.reshape(norm.shape()) / norm)), finish(call, 1, norm)};
}

/// _weight_norm_interface_backward(dw, v, g, norms, axis) → dv, dg
Values import_weight_norm_backward(GraphBuilder &b, const AtenCall &call) {
  Term slope = wide(b, call.value(0)), v = wide(b, call.value(1)), g = wide(b, call.value(2));
  Term norm = term(b, call.value(3)).to(v.dtype());
  std::vector<int64_t> axes = axes_but(wrap_axis(call.integer(4), v.rank()), v.rank());
  Term dot = (slope * v).sum(axes);
  norm = norm.reshape(dot.shape()), g = g.reshape(dot.shape());
  Term along = dot / norm;
  return {finish(call, 0, (g / norm) * (slope - v * (along / norm))), finish(call, 1, along)};
}

/// native_dropout_backward(g, mask, scale)
Values import_dropout_backward(GraphBuilder &b, const AtenCall &call) {
  Term g = wide(b, b.cast(call.value(0), call.results[0].dtype)), mask = term(b, call.value(1)).to(g.dtype());
  return {finish(call, 0, g * (mask * call.number(2)))};
}

/// rrelu_with_noise_backward(g, x, noise, lower, upper, training, self_is_result)
Values import_random_relu_backward(GraphBuilder &b, const AtenCall &call) {
  Term g = wide(b, call.value(0)), x = wide(b, call.value(1));
  double lower = call.number(3), upper = call.number(4);
  if (call.boolean(5) && upper - lower > 1e-6)
    return {finish(call, 0, g * wide(b, call.value(2)))};
  return {finish(call, 0, choose(x > x.like(0), g, g * ((lower + upper) / 2)))};
}

constexpr AtenRule kRules[] = {
    {"aten._weight_norm_interface.default", import_weight_norm},
    {"aten._weight_norm_interface_backward.default", import_weight_norm_backward},
    {"aten.native_dropout_backward.default", import_dropout_backward},
    {"aten.rrelu_with_noise_backward.default", import_random_relu_backward},
};

} // namespace

OpTable aten_regular() { return {{}, kRules}; }

} // namespace oxyfuel
