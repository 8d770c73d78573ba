// Losses.
#include "ops/loss.h"
#include "ops/table.h"
#include "support/error.h"

namespace oxyfuel {

Values reduced_loss(const AtenCall &call, Term loss, int reduction) {
  std::vector<int64_t> axes = all_axes(loss.rank());
  int64_t kind = call.has(reduction) ? call.integer(reduction) : int64_t(kMean);
  Term n = count(*loss.b, loss.shape(), axes, loss.dtype());
  if (kind != kNone)
    loss = loss.sum(axes, false);
  if (kind == kMean)
    loss = loss / n;
  return {loss.to(call.results.at(0).dtype).value};
}

Term share_of_gradient(const AtenCall &call, Term gradient, const Shape &shape, int reduction) {
  if (call.integer(reduction) != kMean)
    return gradient;
  return gradient / count(*gradient.b, shape, all_axes(static_cast<int>(shape.size())), gradient.dtype());
}

namespace {

/// Classes along axis 1 of x [N, C, …], or axis 0 of [C].
int class_axis(const Term &x) { return x.rank() == 1 ? 0 : 1; }

struct Target {
  Term index; ///< ignored ones are 0
  Term is_ignored;
};

Target target_of(GraphBuilder &b, graph::Value *value, int64_t ignore_index) {
  Term target = term(b, value);
  Term ignored = {&b, b.scalar_integer(ignore_index, target.dtype())};
  Term is_ignored = equal(target, ignored);
  return {choose(is_ignored, target.like(0), target), is_ignored};
}

/// Weight of each target's class, 0 where ignored.
Term target_weight(GraphBuilder &b, const AtenCall &call, const Target &target, int weight, DType dtype) {
  Term value = full(b, {}, 1, dtype);
  if (call.has(weight))
    value =
        Term{&b, b.make("index_select", {call.value(weight), target.index.value}, {{"axis", int64_t(0)}})}.to(dtype);
  else
    value = value.expand(target.index.shape());
  return choose(target.is_ignored, value.like(0), value);
}

/// nll_loss_forward(x, target, weight, reduction, ignore_index) → loss, total weight
Values import_nll_loss(GraphBuilder &b, const AtenCall &call) {
  Term x = wide(b, call.value(0));
  int axis = class_axis(x);
  Target target = target_of(b, call.value(1), call.integer(4));
  Term weight = target_weight(b, call, target, 2, x.dtype());
  Term chosen = {&b, b.make("gather", {x.value, target.index.unsqueeze(axis).value}, {{"axis", int64_t(axis)}})};
  Term zero = weight.like(0);
  Term loss = choose(target.is_ignored, zero, -(chosen.squeeze(axis) * weight));
  std::vector<int64_t> axes = all_axes(loss.rank());
  int64_t reduction = call.integer(3);
  Term total = reduction == kNone && x.rank() > 1 ? zero : weight.sum(axes, false);
  if (reduction != kNone)
    loss = loss.sum(axes, false);
  if (reduction == kMean)
    loss = loss / total;
  return {loss.to(call.results.at(0).dtype).value, total.to(call.results.at(1).dtype).value};
}

/// nll_loss_backward(g, x, target, weight, reduction, ignore_index, total weight)
Values import_nll_loss_backward(GraphBuilder &b, const AtenCall &call) {
  Term g = wide(b, call.value(0)), x = wide(b, call.value(1));
  int axis = class_axis(x);
  Target target = target_of(b, call.value(2), call.integer(5));
  Term weight = target_weight(b, call, target, 3, x.dtype());
  int64_t reduction = call.integer(4);
  if (reduction == kMean)
    g = g / term(b, call.value(6)).to(g.dtype());
  // Without a single target that counts, the total is zero: an ignored one still has no gradient.
  Term slope = choose(target.is_ignored, weight.like(0), -(weight * g));
  Term place = numbers(b, x.size(axis), x.rank(), axis, target.index.dtype());
  Term is_target = equal(place, target.index.unsqueeze(axis));
  Term gradient = choose(is_target, slope.unsqueeze(axis), slope.like(0));
  return {gradient.expand(x.shape()).to(call.results.at(0).dtype).value};
}

Values import_mse_loss(GraphBuilder &b, const AtenCall &call) {
  return reduced_loss(call, (wide(b, call.value(0)) - wide(b, call.value(1))).apply("square"), 2);
}

Values import_mse_loss_backward(GraphBuilder &b, const AtenCall &call) {
  Term g = wide(b, call.value(0)), x = wide(b, call.value(1)), target = wide(b, call.value(2));
  Term slope = share_of_gradient(call, (x - target) * 2, x.shape(), 3);
  return {(slope * g).to(call.results.at(0).dtype).value};
}

constexpr AtenRule kRules[] = {
    {"aten.nll_loss_forward.default aten.nll_loss2d_forward.default", import_nll_loss},
    {"aten.nll_loss_backward.default aten.nll_loss2d_backward.default", import_nll_loss_backward},
    {"aten.mse_loss.default", import_mse_loss},
    {"aten.mse_loss_backward.default", import_mse_loss_backward},
};

} // namespace

OpTable aten_loss() { return {{}, kRules}; }

} // namespace oxyfuel
