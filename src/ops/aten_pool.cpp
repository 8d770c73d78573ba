// Pooling: reductions over windows. Gradients gather, for each input element, from the windows that hold it: the
// gradient is spread out by the stride (zeros in between) and windowed with stride 1, so nothing is scattered.
#include "ops/compose.h"
#include "ops/table.h"
#include "support/error.h"

namespace oxyfuel {

namespace {

/// Geometry of a pooling over the last axes.
struct Window {
  std::vector<int64_t> axes, kernel, stride, padding, dilation;

  size_t count() const { return axes.size(); }
};

std::vector<int64_t> repeated(const AtenCall &call, int i, size_t n, const std::vector<int64_t> &otherwise) {
  std::vector<int64_t> list = call.has(i) ? call.integers(i) : std::vector<int64_t>();
  if (list.empty())
    return otherwise;
  if (list.size() == 1)
    list.assign(n, list[0]);
  if (list.size() != n)
    throw UnsupportedError(call.overload + " with lists of different lengths");
  return list;
}

size_t spatial_of(const AtenCall &call) {
  for (size_t n = 1; n <= 3; ++n)
    if (call.overload.find("pool" + std::to_string(n) + "d") != std::string::npos)
      return n;
  throw InternalError("pooling without a number of axes: " + call.overload);
}

/// Arguments kernel, stride, padding and (dilation >= 0) dilation at the given places.
Window window_of(const AtenCall &call, int rank, int kernel, int dilation) {
  size_t n = spatial_of(call);
  Window w;
  for (size_t i = 0; i < n; ++i)
    w.axes.push_back(rank - static_cast<int64_t>(n) + static_cast<int64_t>(i));
  w.kernel = repeated(call, kernel, n, {});
  w.stride = repeated(call, kernel + 1, n, w.kernel);
  w.padding = repeated(call, kernel + 2, n, std::vector<int64_t>(n, 0));
  w.dilation = dilation < 0 ? std::vector<int64_t>(n, 1) : repeated(call, dilation, n, std::vector<int64_t>(n, 1));
  return w;
}

/// Windows of x, as many as `out` has along the pooled axes: with ceil_mode the last may hang over the edge.
Term windows(Term x, const Window &w, const Shape &out, double value) {
  Shape lower, upper;
  ExprContext &context = x.context();
  for (size_t i = 0; i < w.count(); ++i) {
    int axis = static_cast<int>(w.axes[i]);
    Expr reach = (out[axis] - 1) * w.stride[i] + (w.dilation[i] * (w.kernel[i] - 1) + 1);
    lower.push_back(context.integer(w.padding[i]));
    upper.push_back(reach - x.size(axis) - w.padding[i]);
  }
  return {x.b, x.b->make("windows", {x.value},
                         {{"axes", w.axes},
                          {"kernel", w.kernel},
                          {"stride", w.stride},
                          {"dilation", w.dilation},
                          {"lower", lower},
                          {"upper", upper},
                          {"value", value}})};
}

std::vector<int64_t> kernel_axes(const Term &windows, size_t n) {
  std::vector<int64_t> axes;
  for (size_t i = 0; i < n; ++i)
    axes.push_back(windows.rank() - static_cast<int64_t>(n) + static_cast<int64_t>(i));
  return axes;
}

/// max_pool_with_indices(x, kernel, stride, padding, dilation, ceil_mode) → values, places in the pooled axes.
Values import_max_pool(GraphBuilder &b, const AtenCall &call) {
  Term x = term(b, call.value(0));
  if (!is_float(x.dtype()))
    throw UnsupportedError(call.overload + " of integers");
  Window w = window_of(call, x.rank(), 1, 4);
  const Shape &out = call.results.at(0).shape;
  Term found = windows(x, w, out, -__builtin_inf());
  Values results{found.max(kernel_axes(found, w.count()), false).value};
  if (call.results.size() == 1)
    return results;
  int64_t kernel_size = 1;
  for (int64_t length : w.kernel)
    kernel_size *= length;
  Shape merged = out;
  merged.push_back(b.context().integer(kernel_size));
  Term best = {&b, b.reduce("argmax", found.reshape(merged).value, {x.rank()}, false, DType::kI64)};
  Term place = best.like(0);
  for (size_t i = 0; i < w.count(); ++i) {
    kernel_size /= w.kernel[i];
    int axis = static_cast<int>(w.axes[i]);
    Term k = combine("remainder", combine("floor_div", best, best.like(double(kernel_size))),
                     best.like(double(w.kernel[i])));
    Term start = numbers(b, out[axis], x.rank(), axis) * double(w.stride[i]) - double(w.padding[i]);
    Term at = k * double(w.dilation[i]) + start;
    // A window of nothing but minus infinity counts its first element inside.
    Term inside = combine("remainder", at, at.like(double(w.dilation[i])));
    at = choose(at < at.like(0), inside, at);
    place = place * Term{&b, b.scalar_size(x.size(axis), DType::kI64)} + at;
  }
  results.push_back(b.expand(place.value, call.results[1].shape));
  return results;
}

/// Each element of `g` followed by stride - 1 elements of `value` along the pooled axes.
Term spread_out(Term g, const Window &w, double value) {
  ExprContext &context = g.context();
  for (size_t i = 0; i < w.count(); ++i) {
    if (w.stride[i] == 1)
      continue;
    int axis = static_cast<int>(w.axes[i]);
    Term apart = g.unsqueeze(axis + 1);
    Shape lower(apart.rank(), context.integer(0)), upper = lower, merged = g.shape();
    upper[axis + 1] = context.integer(w.stride[i] - 1);
    merged[axis] = merged[axis] * w.stride[i];
    g = Term{g.b, g.b->make("pad", {apart.value}, {{"lower", lower}, {"upper", upper}, {"value", value}})}.reshape(
        merged);
  }
  return g;
}

/// For each element of an input of shape `in`, the elements of `g` whose windows hold it, as last axes; `value` where
/// none.
Term holding_windows(Term g, const Window &w, const Shape &in, double value) {
  Term spread = spread_out(g, w, value);
  Shape lower, upper;
  for (size_t i = 0; i < w.count(); ++i) {
    int axis = static_cast<int>(w.axes[i]);
    int64_t reach = w.dilation[i] * (w.kernel[i] - 1);
    lower.push_back(g.context().integer(reach - w.padding[i]));
    upper.push_back(in[axis] + w.padding[i] - spread.size(axis));
  }
  return {g.b, g.b->make("windows", {spread.value},
                         {{"axes", w.axes},
                          {"kernel", w.kernel},
                          {"stride", std::vector<int64_t>(w.count(), 1)},
                          {"dilation", w.dilation},
                          {"lower", lower},
                          {"upper", upper},
                          {"value", value}})};
}

/// max_pool_with_indices_backward(g, x, kernel, stride, padding, dilation, ceil_mode, indices)
Values import_max_pool_backward(GraphBuilder &b, const AtenCall &call) {
  Term g = wide(b, call.value(0)), x = term(b, call.value(1)), indices = term(b, call.value(7));
  Window w = window_of(call, x.rank(), 2, 5);
  Term gradients = holding_windows(g, w, x.shape(), 0), places = holding_windows(indices, w, x.shape(), -1);
  Term own = places.like(0);
  for (size_t i = 0; i < w.count(); ++i) {
    int axis = static_cast<int>(w.axes[i]);
    own = own * Term{&b, b.scalar_size(x.size(axis), DType::kI64)} + numbers(b, x.size(axis), gradients.rank(), axis);
  }
  Term chosen = choose(equal(places, own), gradients, gradients.like(0));
  return {chosen.sum(kernel_axes(chosen, w.count()), false).to(call.results.at(0).dtype).value};
}

/// What each window of an average divides by, with size 1 along other axes.
Term divisor(GraphBuilder &b, const Window &w, const Shape &in, const Shape &out, bool include_pad, DType dtype) {
  Term product;
  int rank = static_cast<int>(in.size());
  for (size_t i = 0; i < w.count(); ++i) {
    int axis = static_cast<int>(w.axes[i]);
    Term start = numbers(b, out[axis], rank, axis) * double(w.stride[i]) - double(w.padding[i]);
    auto size = [&](Expr e) { return Term{&b, b.scalar_size(e, DType::kI64)}; };
    Term end = combine("minimum", start + double(w.kernel[i]), size(in[axis] + w.padding[i]));
    if (!include_pad) {
      start = combine("maximum", start, start.like(0));
      end = combine("minimum", end, size(in[axis]));
    }
    Term length = end - start;
    product = product ? product * length : length;
  }
  return product.to(dtype);
}

Term average_divisor(GraphBuilder &b, const AtenCall &call, const Window &w, const Shape &in, const Shape &out,
                     int include_pad, DType dtype) {
  if (call.has(include_pad + 1))
    return {&b, b.scalar(call.number(include_pad + 1), dtype)};
  bool is_included = !call.has(include_pad) || call.boolean(include_pad);
  // All windows lie inside: one number for all.
  bool is_plain = true;
  for (size_t i = 0; i < w.count(); ++i) {
    auto size = in[w.axes[i]].constant(), last = out[w.axes[i]].constant();
    is_plain = is_plain && w.padding[i] == 0 && size && last && (*last - 1) * w.stride[i] + w.kernel[i] <= *size;
  }
  double kernel_size = 1;
  for (int64_t length : w.kernel)
    kernel_size *= static_cast<double>(length);
  if (is_plain)
    return {&b, b.scalar(kernel_size, dtype)};
  return divisor(b, w, in, out, is_included, dtype);
}

/// avg_pool(x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)
Values import_avg_pool(GraphBuilder &b, const AtenCall &call) {
  Term x = wide(b, call.value(0));
  Window w = window_of(call, x.rank(), 1, -1);
  const Shape &out = call.results.at(0).shape;
  Term found = windows(x, w, out, 0);
  Term sum = found.sum(kernel_axes(found, w.count()), false);
  if (!is_float(x.dtype()))
    throw UnsupportedError(call.overload + " of integers");
  return {(sum / average_divisor(b, call, w, x.shape(), out, 5, x.dtype())).to(call.results[0].dtype).value};
}

/// avg_pool_backward(g, x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)
Values import_avg_pool_backward(GraphBuilder &b, const AtenCall &call) {
  Term g = wide(b, call.value(0)), x = term(b, call.value(1));
  Window w = window_of(call, x.rank(), 2, -1);
  Term share = g / average_divisor(b, call, w, x.shape(), g.shape(), 6, g.dtype());
  Term found = holding_windows(share, w, x.shape(), 0);
  return {found.sum(kernel_axes(found, w.count()), false).to(call.results.at(0).dtype).value};
}

constexpr AtenRule kRules[] = {
    {"aten.max_pool2d_with_indices.default aten.max_pool3d_with_indices.default aten.max_pool1d.default "
     "aten.max_pool2d.default aten.max_pool3d.default aten.max_pool1d_with_indices.default",
     import_max_pool},
    {"aten.max_pool2d_with_indices_backward.default aten.max_pool3d_with_indices_backward.default",
     import_max_pool_backward},
    {"aten.avg_pool1d.default aten.avg_pool2d.default aten.avg_pool3d.default", import_avg_pool},
    {"aten.avg_pool2d_backward.default aten.avg_pool3d_backward.default", import_avg_pool_backward},
};

} // namespace

OpTable aten_pool() { return {{}, kRules}; }

} // namespace oxyfuel
