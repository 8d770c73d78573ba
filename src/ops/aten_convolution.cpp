// Convolutions and their gradients, which are convolutions too.
#include <algorithm>

#include "ops/compose.h"
#include "ops/table.h"
#include "support/error.h"

namespace oxyfuel {

namespace {

struct Setting {
  std::vector<int64_t> stride, padding, dilation, output_padding;
  int64_t groups = 1;
  bool is_transposed = false;

  Attributes attributes(DType dtype) const {
    Attributes result{{"stride", stride}, {"padding", padding},          {"dilation", dilation},
                      {"groups", groups}, {"transposed", is_transposed}, {"dtype", dtype}};
    if (is_transposed)
      result["output_padding"] = output_padding;
    return result;
  }
};

std::vector<int64_t> spatial_list(const AtenCall &call, int i, size_t count) {
  std::vector<int64_t> list = call.integers(i);
  if (list.size() == 1)
    list.assign(count, list[0]);
  if (list.size() != count)
    throw UnsupportedError(call.overload + " with lists of different lengths");
  return list;
}

Term convolve(GraphBuilder &b, Term x, Term w, const Setting &setting, DType dtype) {
  return {&b, b.make("convolution", {x.value, w.value}, setting.attributes(dtype))};
}

/// Padding that depends on a size is a pad of its own.
Term pad_by_sizes(GraphBuilder &b, Term x, const Shape &padding) {
  Shape amounts = sizes(b.context(), {0, 0});
  amounts.insert(amounts.end(), padding.begin(), padding.end());
  return {&b, b.make("pad", {x.value}, {{"lower", amounts}, {"upper", amounts}, {"value", 0.0}})};
}

/// convolution(x, w, bias, stride, padding, dilation, transposed, output_padding, groups)
Values import_convolution(GraphBuilder &b, const AtenCall &call) {
  Term x = term(b, call.value(0)), w = term(b, call.value(1));
  DType result = call.results.at(0).dtype, sum = opmath_of(result);
  size_t spatial = x.shape().size() - 2;
  if (is_complex(result) || x.rank() < 3 || w.rank() != x.rank())
    throw UnsupportedError(call.overload + " of complex numbers or without a batch");
  Setting setting{.stride = spatial_list(call, 3, spatial),
                  .padding = {},
                  .dilation = spatial_list(call, 5, spatial),
                  .output_padding = spatial_list(call, 7, spatial),
                  .groups = call.integer(8),
                  .is_transposed = call.boolean(6)};
  Shape padding = call.sizes(4, b.context());
  padding.resize(spatial, padding.at(0));
  for (Expr amount : padding)
    setting.padding.push_back(amount.constant().value_or(-1));
  if (std::count(setting.padding.begin(), setting.padding.end(), -1)) {
    if (setting.is_transposed)
      throw UnsupportedError(call.overload + ", transposed, with padding that depends on a size");
    x = pad_by_sizes(b, x, padding);
    setting.padding.assign(spatial, 0);
  }
  Term out = convolve(b, x, w, setting, call.has(2) ? sum : result);
  if (call.has(2)) {
    Shape shape(spatial + 1, b.context().integer(1));
    Term bias = term(b, call.value(2)).to(sum);
    shape[0] = bias.size(0);
    out = out + bias.reshape(shape);
  }
  return {out.to(result).value};
}

/// Gradient with respect to what the window slides over: transposed for a plain convolution and the other way round.
Term input_gradient(GraphBuilder &b, Term g, Term x, Term w, Setting setting) {
  setting.is_transposed = !setting.is_transposed;
  size_t spatial = setting.stride.size();
  setting.output_padding.assign(spatial, 0);
  if (setting.is_transposed)
    for (size_t i = 0; i < spatial; ++i) {
      auto size = x.size(i + 2).constant(), out = g.size(i + 2).constant(), kernel = w.size(i + 2).constant();
      if (setting.stride[i] == 1)
        continue;
      if (!size || !out || !kernel)
        throw UnsupportedError("aten.convolution_backward with a stride over an axis of unknown size");
      int64_t least = (*out - 1) * setting.stride[i] - 2 * setting.padding[i] + setting.dilation[i] * (*kernel - 1) + 1;
      setting.output_padding[i] = *size - least;
    }
  return convolve(b, g, w, setting, opmath_of(x.dtype()));
}

/// sum over n and p of x[n, c, p * stride + k * dilation - padding] * g[n, o, p], as a convolution whose batch is x's
/// channels, whose channels are the batch, and whose kernel is g: result [O, C / groups, K…].
Term weight_gradient(GraphBuilder &b, Term x, Term g, const Shape &kernel, const Setting &setting) {
  size_t spatial = setting.stride.size();
  ExprContext &context = b.context();
  Expr groups = context.integer(setting.groups), n = x.size(0), channels = floor_div(x.size(1), setting.groups);
  Shape split{n, groups, channels}, merged{channels, groups * n};
  split.insert(split.end(), x.shape().begin() + 2, x.shape().end());
  merged.insert(merged.end(), x.shape().begin() + 2, x.shape().end());
  std::vector<int64_t> dims{2, 1, 0}, swapped{1, 0};
  for (size_t i = 0; i < spatial; ++i) {
    dims.push_back(static_cast<int64_t>(i) + 3);
    swapped.push_back(static_cast<int64_t>(i) + 2);
  }
  Term data = x.reshape(split).permute(dims).reshape(merged);
  Setting sliding{.stride = setting.dilation,
                  .padding = setting.padding,
                  .dilation = setting.stride,
                  .output_padding = {},
                  .groups = setting.groups,
                  .is_transposed = false};
  Term out = convolve(b, data, g.permute(swapped), sliding, opmath_of(x.dtype()));
  for (size_t i = 0; i < spatial; ++i)
    out = out.slice(static_cast<int>(i) + 2, context.integer(0), kernel[i + 2]);
  return out.permute(swapped);
}

/// convolution_backward(g, x, w, bias_sizes, stride, padding, dilation, transposed, output_padding, groups,
/// output_mask)
Values import_convolution_backward(GraphBuilder &b, const AtenCall &call) {
  Term g = term(b, call.value(0)), x = term(b, call.value(1)), w = term(b, call.value(2));
  size_t spatial = x.shape().size() - 2;
  if (is_complex(x.dtype()))
    throw UnsupportedError(call.overload + " of complex numbers");
  Setting setting{.stride = spatial_list(call, 4, spatial),
                  .padding = spatial_list(call, 5, spatial),
                  .dilation = spatial_list(call, 6, spatial),
                  .output_padding = spatial_list(call, 8, spatial),
                  .groups = call.integer(9),
                  .is_transposed = call.boolean(7)};
  std::vector<int64_t> mask = call.integers(10);
  Values results(3);
  if (mask.at(0)) {
    Term gradient = input_gradient(b, g, x, w, setting);
    for (size_t i = 0; i < spatial && setting.is_transposed; ++i)
      gradient = gradient.slice(static_cast<int>(i) + 2, b.context().integer(0), x.size(static_cast<int>(i) + 2));
    results[0] = gradient.to(call.results[0].dtype).value;
  }
  if (mask.at(1)) {
    Term gradient = setting.is_transposed ? weight_gradient(b, g, x, w.shape(), setting)
                                          : weight_gradient(b, x, g, w.shape(), setting);
    results[1] = gradient.to(call.results[1].dtype).value;
  }
  if (mask.at(2)) {
    std::vector<int64_t> axes = all_axes(g.rank());
    axes.erase(axes.begin() + 1);
    results[2] = wide(b, g.value).sum(axes, false).to(call.results[2].dtype).value;
  }
  return results;
}

constexpr AtenRule kRules[] = {
    {"aten.convolution.default", import_convolution},
    {"aten.convolution_backward.default", import_convolution_backward},
};

} // namespace

OpTable aten_convolution() { return {{}, kRules}; }

} // namespace oxyfuel
