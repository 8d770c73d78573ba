// Sums of overlapping windows (the converse of unfold and im2col) and the placing of elements that pooling has taken.
// Each element gathers from the windows that hold it, so nothing is scattered.
#include "ops/compose.h"
#include "ops/table.h"
#include "support/error.h"

namespace oxyfuel {

namespace {

/// How the windows of an axis lie: window w holds elements w * stride + k * dilation - padding.
struct Windows {
  int64_t stride = 1, dilation = 1, padding = 0;
};

/// x [.., windows at `axis`, .., places at `kernel_axis`, ..] to [.., size at `axis`, ..] without `kernel_axis`: sums
/// of the elements that windows give to one place. kernel_axis > axis.
Term fold_axis(Term x, int axis, int kernel_axis, Expr size, const Windows &windows) {
  GraphBuilder &b = *x.b;
  auto integer = [&](int64_t value) { return Term{&b, b.scalar_integer(value, DType::kI64)}; };
  // For element i and place k: the window that holds it, when one does.
  Term distance = numbers(b, size, 2, 0) - numbers(b, x.size(kernel_axis), 2, 1) * integer(windows.dilation) +
                  integer(windows.padding);
  Term window = windows.stride == 1 ? distance : combine("floor_div", distance, integer(windows.stride));
  Term count = {&b, b.scalar_size(x.size(axis), DType::kI64)};
  Term holds = both(window >= window.like(0), window < count);
  if (windows.stride != 1)
    holds = both(holds, equal(window * integer(windows.stride), distance));
  Values operands(x.rank() + 1);
  operands[0] = x.value;
  operands[1 + axis] = window.value; // clamped by the reader where no window holds the element
  operands[1 + kernel_axis] = numbers(b, x.size(kernel_axis), 2, 1).value;
  // The axes of the places come first, or stand where they were when they are neighbours.
  Term found = {&b, b.make("index", operands, {{"unchecked", true}})};
  int front = kernel_axis == axis + 1 ? axis : 0;
  std::vector<int64_t> dims(all_axes(found.rank()));
  if (front != axis) {
    dims = {0, 1};
    for (int i = 2; i < found.rank(); ++i)
      dims.insert(dims.begin() + (i < axis + 2 ? i - 2 : i), i);
    found = found.permute(dims);
  }
  Shape mask(found.rank(), b.context().integer(1));
  mask[axis] = size, mask[axis + 1] = x.size(kernel_axis);
  return choose(holds.reshape(mask), found, found.like(0)).sum({axis + 1}, false);
}

/// unfold_backward(g, input_sizes, axis, size, step)
Values import_unfold_backward(GraphBuilder &b, const AtenCall &call) {
  Term g = wide(b, call.value(0));
  const graph::Type &result = call.results.at(0);
  if (result.rank() == 0)
    return {g.reshape({}).to(result.dtype).value};
  int axis = wrap_axis(call.integer(2), result.rank());
  return {fold_axis(g, axis, g.rank() - 1, result.shape[axis], {.stride = call.integer(4)}).to(result.dtype).value};
}

std::vector<int64_t> both_axes(const AtenCall &call, int i) {
  std::vector<int64_t> list = call.integers(i);
  if (list.size() == 1)
    list.push_back(list[0]);
  if (list.size() != 2)
    throw UnsupportedError(call.overload + " over other than two axes");
  return list;
}

/// im2col(x, kernel, dilation, padding, stride): [N, C, H, W] → [N, C * kernel elements, windows]
Values import_im2col(GraphBuilder &b, const AtenCall &call) {
  Term x = term(b, call.value(0));
  bool is_batch = x.rank() == 4;
  x = is_batch ? x : x.unsqueeze(0);
  std::vector<int64_t> kernel = both_axes(call, 1), dilation = both_axes(call, 2), padding = both_axes(call, 3);
  if (is_complex(x.dtype()))
    throw UnsupportedError(call.overload + " of complex numbers");
  Shape lower{b.context().integer(padding[0]), b.context().integer(padding[1])};
  Term found = {&b, b.make("windows", {x.value},
                           {{"axes", std::vector<int64_t>{2, 3}},
                            {"kernel", kernel},
                            {"stride", both_axes(call, 4)},
                            {"dilation", dilation},
                            {"lower", lower},
                            {"upper", lower},
                            {"value", 0.0}})};
  return {found.permute({0, 1, 4, 5, 2, 3}).reshape(call.results.at(0).shape).value};
}

/// col2im(x, output_size, kernel, dilation, padding, stride)
Values import_col2im(GraphBuilder &b, const AtenCall &call) {
  Term x = wide(b, call.value(0));
  const graph::Type &result = call.results.at(0);
  std::vector<int64_t> kernel = both_axes(call, 2), dilation = both_axes(call, 3), padding = both_axes(call, 4),
                       stride = both_axes(call, 5);
  ExprContext &context = b.context();
  int rank = result.rank();
  Shape shape{rank == 4 ? result.shape[0] : context.integer(1), result.shape[rank - 3], context.integer(kernel[0]),
              context.integer(kernel[1])};
  for (int i = 0; i < 2; ++i)
    shape.push_back(window_count(result.shape[rank - 2 + i], context.integer(padding[i]), context.integer(padding[i]),
                                 kernel[i], stride[i], dilation[i]));
  Term apart = x.reshape(shape).permute({0, 1, 4, 2, 5, 3}); // [N, C, rows, kernel row, columns, kernel column]
  Term columns = fold_axis(apart, 4, 5, result.shape[rank - 1], {stride[1], dilation[1], padding[1]});
  Term rows = fold_axis(columns, 2, 3, result.shape[rank - 2], {stride[0], dilation[0], padding[0]});
  return {rows.reshape(result.shape).to(result.dtype).value};
}

/// max_unpool(x, places, output_size, …): elements at their places among zeros.
Values import_max_unpool(GraphBuilder &b, const AtenCall &call) {
  Term x = term(b, call.value(0)), places = term(b, call.value(1));
  const graph::Type &result = call.results.at(0);
  size_t spatial = call.overload.find("3d") != std::string::npos ? 3 : 2;
  auto merged = [&](const Shape &shape) {
    Shape lead(shape.begin(), shape.end() - spatial), rest(shape.end() - spatial, shape.end());
    lead.push_back(graph::element_count(b.context(), rest));
    return lead;
  };
  Term base = full(b, merged(result.shape), 0, x.dtype());
  graph::Value *placed =
      b.make("scatter", {base.value, places.reshape(merged(places.shape())).value, x.reshape(merged(x.shape())).value},
             {{"axis", int64_t(base.rank() - 1)}, {"mode", std::string("set")}});
  return {b.reshape(placed, result.shape)};
}

constexpr AtenRule kRules[] = {
    {"aten.unfold_backward.default", import_unfold_backward},
    {"aten.im2col.default", import_im2col},
    {"aten.col2im.default", import_col2im},
    {"aten.max_unpool2d.default aten.max_unpool3d.default", import_max_unpool},
};

} // namespace

OpTable aten_fold() { return {{}, kRules}; }

} // namespace oxyfuel
