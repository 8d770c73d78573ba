// Adaptive pooling: window i of an axis of n elements in m windows is [floor(i n / m), ceil((i + 1) n / m)).
#include <algorithm>

#include "ops/compose.h"
#include "ops/table.h"
#include "support/error.h"

namespace oxyfuel {

namespace {

int64_t constant_size(const AtenCall &call, Expr size) {
  auto constant = size.constant();
  if (!constant || *constant == 0)
    throw UnsupportedError(call.overload + " over an axis of unknown or no size");
  return *constant;
}

size_t spatial_of(const AtenCall &call) { return call.overload.find("3d") != std::string::npos ? 3 : 2; }

/// Windows of one axis: the longest length, first elements and lengths as i64 [m].
struct Bins {
  int64_t longest = 0;
  Term start, length;
};

Bins bins_of(GraphBuilder &b, int64_t n, int64_t m) {
  Bins bins;
  for (int64_t i = 0; i < m; ++i)
    bins.longest = std::max(bins.longest, ((i + 1) * n + m - 1) / m - i * n / m);
  Term i = numbers(b, b.context().integer(m), 1, 0);
  auto divided = [&](Term t) { return combine("floor_div", t, t.like(double(m))); };
  bins.start = divided(i * double(n));
  bins.length = divided((i + 1) * double(n) + double(m - 1)) - bins.start;
  return bins;
}

/// Axis `axis` of x [.., n, ..] becomes two: window, place in it; `outside` past a window's end.
Term binned(GraphBuilder &b, Term x, int axis, int64_t m, double outside) {
  int64_t n = *x.size(axis).constant();
  ExprContext &context = b.context();
  Shape shape = x.shape();
  if (n % m == 0) {
    shape[axis] = context.integer(m);
    shape.insert(shape.begin() + axis + 1, context.integer(n / m));
    return x.reshape(shape);
  }
  Bins bins = bins_of(b, n, m);
  Term k = numbers(b, context.integer(bins.longest), 2, 1);
  Term place = combine("minimum", bins.start.unsqueeze(1) + k, k.like(double(n - 1)));
  Term found = {&b, b.make("index_select", {x.value, place.value}, {{"axis", int64_t(axis)}, {"unchecked", true}})};
  Shape mask(found.rank(), context.integer(1));
  mask[axis] = context.integer(m), mask[axis + 1] = context.integer(bins.longest);
  Term inside = (bins.length.unsqueeze(1) > k).reshape(mask);
  return choose(inside, found, found.like(outside));
}

Term bin_length(GraphBuilder &b, int64_t n, int64_t m, int rank, int axis, DType dtype) {
  if (n % m == 0)
    return {&b, b.scalar(double(n / m), dtype)};
  Shape shape(rank, b.context().integer(1));
  shape[axis] = b.context().integer(m);
  return bins_of(b, n, m).length.to(dtype).reshape(shape);
}

Values import_average(GraphBuilder &b, const AtenCall &call) {
  Term x = wide(b, call.value(0));
  const Shape &out = call.results.at(0).shape;
  int rank = x.rank();
  for (int axis = rank - static_cast<int>(spatial_of(call)); axis < rank; ++axis) {
    int64_t n = constant_size(call, x.size(axis)), m = constant_size(call, out[axis]);
    x = binned(b, x, axis, m, 0).sum({axis + 1}, false) / bin_length(b, n, m, rank, axis, x.dtype());
  }
  return {x.to(call.results[0].dtype).value};
}

/// For each input element the sum over the windows that hold it: windows are few and long, so all of them are asked.
Values import_average_backward(GraphBuilder &b, const AtenCall &call) {
  Term g = wide(b, call.value(0));
  const Shape &in = call.value(1)->type.shape;
  int rank = g.rank();
  for (int axis = rank - static_cast<int>(spatial_of(call)); axis < rank; ++axis) {
    int64_t n = constant_size(call, in[axis]), m = constant_size(call, g.size(axis));
    g = g / bin_length(b, n, m, rank, axis, g.dtype());
    if (n % m == 0) {
      Shape apart = g.shape(), merged = g.shape();
      apart.insert(apart.begin() + axis + 1, b.context().integer(n / m));
      merged[axis] = in[axis];
      g = g.unsqueeze(axis + 1).expand(apart).reshape(merged);
      continue;
    }
    Bins bins = bins_of(b, n, m);
    Term place = numbers(b, in[axis], 2, 0), start = bins.start.unsqueeze(0), end = start + bins.length.unsqueeze(0);
    Term holds = both(place >= start, place < end);
    Shape mask(rank + 1, b.context().integer(1));
    mask[axis] = in[axis], mask[axis + 1] = b.context().integer(m);
    Term all = g.unsqueeze(axis);
    g = choose(holds.reshape(mask), all, all.like(0)).sum({axis + 1}, false);
  }
  return {g.to(call.results.at(0).dtype).value};
}

/// Values and places; the first of equals, in row-major order of the window.
Values import_maximum(GraphBuilder &b, const AtenCall &call) {
  Term x = term(b, call.value(0));
  if (!is_float(x.dtype()) || spatial_of(call) != 2)
    throw UnsupportedError(call.overload + " of integers or over three axes");
  const Shape &out = call.results.at(0).shape;
  ExprContext &context = b.context();
  int rank = x.rank(), h = rank - 2, w = rank - 1;
  int64_t rows = constant_size(call, x.size(h)), columns = constant_size(call, x.size(w));
  int64_t row_bins = constant_size(call, out[h]), column_bins = constant_size(call, out[w]);
  Term apart = binned(b, binned(b, x, w, column_bins, -__builtin_inf()), h, row_bins, -__builtin_inf());
  // [.., row bin, row, column bin, column] → [.., row bin, column bin, row, column]
  std::vector<int64_t> dims = all_axes(rank + 2);
  std::swap(dims[h + 1], dims[h + 2]);
  Term ordered = apart.permute(dims);
  Expr row_length = ordered.size(h + 2), column_length = ordered.size(h + 3);
  Shape merged(ordered.shape().begin(), ordered.shape().end() - 2);
  merged.push_back(row_length * column_length);
  Term flat = ordered.reshape(merged);
  Term best = {&b, b.reduce("argmax", flat.value, {rank}, false, DType::kI64)};
  Term width{&b, b.scalar_size(column_length, DType::kI64)};
  auto start = [&](int64_t n, int64_t m, int axis) {
    Shape shape(rank, context.integer(1));
    shape[axis] = context.integer(m);
    return bins_of(b, n, m).start.reshape(shape);
  };
  Term row = combine("floor_div", best, width) + start(rows, row_bins, h);
  Term column = combine("remainder", best, width) + start(columns, column_bins, w);
  return {flat.max({rank}, false).value, (row * double(columns) + column).value};
}

/// adaptive_max_pool2d_backward(g, x, indices): windows overlap, so gradients are added at their places.
Values import_maximum_backward(GraphBuilder &b, const AtenCall &call) {
  Term g = wide(b, call.value(0)), x = term(b, call.value(1)), places = term(b, call.value(2));
  size_t spatial = spatial_of(call);
  auto merged = [&](const Shape &shape) {
    Shape lead(shape.begin(), shape.end() - spatial), rest(shape.end() - spatial, shape.end());
    lead.push_back(graph::element_count(b.context(), rest));
    return lead;
  };
  Term base = full(b, merged(x.shape()), 0, g.dtype());
  graph::Value *sum =
      b.make("scatter", {base.value, places.reshape(merged(g.shape())).value, g.reshape(merged(g.shape())).value},
             {{"axis", int64_t(base.rank() - 1)}, {"mode", std::string("add")}});
  return {b.reshape(b.cast(sum, call.results.at(0).dtype), x.shape())};
}

constexpr AtenRule kRules[] = {
    {"aten._adaptive_avg_pool2d.default aten._adaptive_avg_pool3d.default", import_average},
    {"aten._adaptive_avg_pool2d_backward.default aten._adaptive_avg_pool3d_backward.default", import_average_backward},
    {"aten.adaptive_max_pool2d.default", import_maximum},
    {"aten.adaptive_max_pool2d_backward.default aten.adaptive_max_pool3d_backward.default", import_maximum_backward},
};

} // namespace

OpTable aten_adaptive_pool() { return {{}, kRules}; }

} // namespace oxyfuel
