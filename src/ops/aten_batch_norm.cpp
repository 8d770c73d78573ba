// Batch normalisation in its many overloads. Channels are axis 1.
#include "ops/normal.h"
#include "ops/table.h"
#include "support/error.h"

namespace oxyfuel {

namespace {

struct Arguments {
  int weight = 1, bias = 2, mean = 3, variance = 4, momentum = 6, eps = 7;
  bool is_training = false;
};

std::vector<int64_t> statistic_axes(int rank) {
  std::vector<int64_t> axes = all_axes(rank);
  axes.erase(axes.begin() + 1);
  return axes;
}

/// [C] as [C, 1, …], which broadcasts against [N, C, …].
Term channels(GraphBuilder &b, graph::Value *value, int rank, DType dtype) {
  Term t = term(b, value).to(dtype);
  Shape shape(rank - 1, b.context().integer(1));
  shape[0] = t.size(0);
  return t.reshape(shape);
}

graph::Value *per_channel(GraphBuilder &b, const AtenCall &call, size_t i, Term value) {
  const graph::Type &type = call.results.at(i);
  // Eager leaves statistics empty that the gradient does not read.
  if (type.shape.size() == 1 && type.shape[0].is_const(0))
    return full(b, type.shape, 0, type.dtype).value;
  return b.reshape(value.to(type.dtype).value, type.shape);
}

struct Result {
  Term out, mean, rstd, new_mean, new_variance;
};

Result batch_norm(GraphBuilder &b, const AtenCall &call, const Arguments &at) {
  Term x = wide(b, call.value(0));
  int rank = x.rank();
  Result result;
  auto parameter = [&](int i) { return channels(b, call.value(i), rank, x.dtype()); };
  double eps = call.number(at.eps);
  if (at.is_training) {
    Moments moments = moments_of(x, statistic_axes(rank));
    result.mean = moments.mean, result.rstd = inverse_deviation(moments.variance, eps);
    if (at.mean >= 0 && call.has(at.mean)) {
      double momentum = call.number(at.momentum);
      // The running variance divides by n - 1.
      Term unbiased = moments.variance * moments.n / (moments.n - 1);
      auto blend = [&](int i, Term now) {
        return parameter(i) * (1 - momentum) + now.reshape(parameter(i).shape()) * momentum;
      };
      result.new_mean = blend(at.mean, moments.mean), result.new_variance = blend(at.variance, unbiased);
    }
  } else {
    result.mean = parameter(at.mean), result.rstd = inverse_deviation(parameter(at.variance), eps);
    result.new_mean = result.mean, result.new_variance = parameter(at.variance);
  }
  // x * alpha + beta with both a channel, in eager's order of operations.
  Term alpha = call.has(at.weight) ? result.rstd * parameter(at.weight) : result.rstd;
  Term shift = result.mean * alpha;
  result.out = x * alpha + (call.has(at.bias) ? parameter(at.bias) - shift : -shift);
  return result;
}

Values normalised(GraphBuilder &b, const AtenCall &call, const Result &r) {
  return {r.out.to(call.results.at(0).dtype).value, per_channel(b, call, 1, r.mean), per_channel(b, call, 2, r.rstd)};
}

/// (x, weight, bias, running_mean, running_var, momentum, eps)
Values import_no_training(GraphBuilder &b, const AtenCall &call) {
  Values values = normalised(b, call, batch_norm(b, call, {.momentum = 5, .eps = 6}));
  if (call.results.size() > 3) // the reserve of another device's kernels
    values.push_back(full(b, call.results[3].shape, 0, call.results[3].dtype).value);
  return values;
}

/// (x, weight, bias, training, momentum, eps)
Values import_no_stats(GraphBuilder &b, const AtenCall &call) {
  return normalised(b, call,
                    batch_norm(b, call, {.mean = -1, .variance = -1, .momentum = 4, .eps = 5, .is_training = true}));
}

/// (x, weight, bias, running_mean, running_var, training, momentum, eps) → …, new running_mean, new running_var
Values import_functional(GraphBuilder &b, const AtenCall &call) {
  Result r = batch_norm(b, call, {.is_training = call.boolean(5)});
  Values values = normalised(b, call, r);
  values.push_back(per_channel(b, call, 3, r.new_mean));
  values.push_back(per_channel(b, call, 4, r.new_variance));
  return values;
}

/// The overload that would update the running statistics in place; without them, or not training, it is functional.
Values import_native(GraphBuilder &b, const AtenCall &call) {
  bool is_training = call.boolean(5);
  if (is_training && call.has(3))
    throw UnsupportedError(call.overload + " that updates running statistics");
  return normalised(b, call, batch_norm(b, call, {.is_training = is_training}));
}

/// (x, weight, bias, running_mean, running_var, momentum, eps) → out, mean, rstd, reserve, new mean, new variance
Values import_with_update(GraphBuilder &b, const AtenCall &call) {
  Result r = batch_norm(b, call, {.momentum = 5, .eps = 6, .is_training = true});
  Values values = normalised(b, call, r);
  values.push_back(full(b, call.results.at(3).shape, 0, call.results[3].dtype).value);
  values.push_back(per_channel(b, call, 4, r.new_mean));
  values.push_back(per_channel(b, call, 5, r.new_variance));
  return values;
}

/// (g, x, weight, running_mean, running_var, save_mean, save_invstd, train, eps, output_mask[, reserve])
Values import_backward(GraphBuilder &b, const AtenCall &call) {
  Term g = wide(b, call.value(0)), x = wide(b, call.value(1));
  int rank = x.rank();
  auto parameter = [&](int i) { return channels(b, call.value(i), rank, x.dtype()); };
  bool is_training = call.boolean(7);
  Term mean = parameter(is_training ? 5 : 3);
  Term rstd = is_training ? parameter(6) : inverse_deviation(parameter(4), call.number(8));
  std::vector<int64_t> axes = statistic_axes(rank), mask = call.integers(9);
  Term distance = x - mean;
  Term dot = (g * distance).sum(axes), total = g.sum(axes);
  Values results(3);
  if (mask.at(0)) {
    Term gradient = g;
    if (is_training) {
      Term n = count(b, x.shape(), axes, x.dtype());
      gradient = g - total / n - distance * (dot * rstd * rstd / n);
    }
    Term factor = call.has(2) ? rstd * parameter(2) : rstd;
    results[0] = (gradient * factor).to(call.results[0].dtype).value;
  }
  if (mask.at(1))
    results[1] = per_channel(b, call, 1, dot * rstd);
  if (mask.at(2))
    results[2] = per_channel(b, call, 2, total);
  return results;
}

constexpr AtenRule kRules[] = {
    {"aten._native_batch_norm_legit_no_training.default aten._batch_norm_no_update.default", import_no_training},
    {"aten._native_batch_norm_legit.no_stats", import_no_stats},
    {"aten._native_batch_norm_legit_functional.default", import_functional},
    {"aten.native_batch_norm.default aten._native_batch_norm_legit.default", import_native},
    {"aten._batch_norm_with_update_functional.default", import_with_update},
    {"aten.native_batch_norm_backward.default aten.batch_norm_backward.default", import_backward},
};

} // namespace

OpTable aten_batch_norm() { return {{}, kRules}; }

} // namespace oxyfuel
