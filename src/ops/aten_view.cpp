// Views, splits and joins.
#include <algorithm>

#include "ops/compose.h"
#include "ops/table.h"
#include "support/error.h"

namespace oxyfuel {

namespace {

const Shape &result_shape(const AtenCall &call) { return call.results.at(0).shape; }

/// view, reshape, squeeze, unsqueeze, flatten: the elements stay in order, PyTorch gives the shape.
Values import_reshape(GraphBuilder &b, const AtenCall &call) { return {b.reshape(call.value(0), result_shape(call))}; }

Values import_permute(GraphBuilder &b, const AtenCall &call) {
  graph::Value *x = call.value(0);
  std::vector<int64_t> dims = call.integers(1);
  for (int64_t &dim : dims)
    dim = wrap_axis(dim, x->type.rank());
  return {b.permute(x, std::move(dims))};
}

Values swapped(GraphBuilder &b, graph::Value *x, int first, int second) {
  std::vector<int64_t> dims = all_axes(x->type.rank());
  if (!dims.empty())
    std::swap(dims[first], dims[second]);
  return {b.permute(x, std::move(dims))};
}

Values import_transpose(GraphBuilder &b, const AtenCall &call) {
  graph::Value *x = call.value(0);
  return swapped(b, x, wrap_axis(call.integer(1), x->type.rank()), wrap_axis(call.integer(2), x->type.rank()));
}

Values import_t(GraphBuilder &b, const AtenCall &call) {
  graph::Value *x = call.value(0);
  return x->type.rank() < 2 ? Values{x} : swapped(b, x, 0, 1);
}

Values import_adjoint(GraphBuilder &b, const AtenCall &call) {
  graph::Value *x = call.value(0);
  return swapped(b, x, x->type.rank() - 2, x->type.rank() - 1);
}

Values import_expand(GraphBuilder &b, const AtenCall &call) { return {b.expand(call.value(0), result_shape(call))}; }

/// prims.broadcast_in_dim(x, shape, dimensions): axis i of x is axis dimensions[i] of the result.
Values import_broadcast_in_dim(GraphBuilder &b, const AtenCall &call) {
  graph::Value *x = call.value(0);
  Shape shape(result_shape(call).size(), b.context().integer(1));
  std::vector<int64_t> axes = call.integers(2);
  for (size_t i = 0; i < axes.size(); ++i)
    shape.at(axes[i]) = x->type.shape.at(i);
  return {b.expand(b.reshape(x, std::move(shape)), result_shape(call))};
}

/// A slice bound as eager takes it: negative ones count from the end, all are clamped to [0, size].
Expr slice_bound(Expr bound, Expr size) {
  ExprContext &context = size.context();
  Expr zero = context.integer(0);
  if (auto constant = bound.constant(); constant && *constant >= 0)
    return *constant == INT64_MAX ? size : min(bound, size);
  Expr wrapped = oxyfuel::select(bound < zero, bound + size, bound);
  return max(min(wrapped, size), zero);
}

Values import_slice(GraphBuilder &b, const AtenCall &call) {
  graph::Value *x = call.value(0);
  int axis = wrap_axis(call.has(1) ? call.integer(1) : 0, x->type.rank());
  Expr size = x->type.shape[axis];
  Expr start = call.has(2) ? slice_bound(call.size(2, b.context()), size) : b.context().integer(0);
  int64_t step = call.has(4) ? call.integer(4) : 1;
  return {b.slice(x, axis, start, result_shape(call).at(axis), step)};
}

/// The place of a select, counted from the end when negative.
Expr select_place(Expr place, Expr size) {
  if (auto constant = place.constant())
    return *constant < 0 ? size + *constant : place;
  return oxyfuel::select(place < place.like(0), place + size, place);
}

Values import_select(GraphBuilder &b, const AtenCall &call) {
  Term x = term(b, call.value(0));
  int axis = wrap_axis(call.integer(1), x.rank());
  return {x.select(axis, select_place(call.size(2, b.context()), x.size(axis))).value};
}

Values import_narrow(GraphBuilder &b, const AtenCall &call) {
  Term x = term(b, call.value(0));
  int axis = wrap_axis(call.integer(1), x.rank());
  return {x.slice(axis, select_place(call.size(2, b.context()), x.size(axis)), call.size(3, b.context())).value};
}

/// Pieces along `axis` with the sizes that PyTorch gives.
Values pieces(GraphBuilder &b, const AtenCall &call, int axis) {
  graph::Value *x = call.value(0);
  Expr start = b.context().integer(0);
  Values results;
  for (const graph::Type &type : call.results) {
    results.push_back(b.slice(x, axis, start, type.shape.at(axis)));
    start = start + type.shape.at(axis);
  }
  return results;
}

Values import_split(GraphBuilder &b, const AtenCall &call) {
  return pieces(b, call, wrap_axis(call.has(2) ? call.integer(2) : 0, call.value(0)->type.rank()));
}

Values import_unbind(GraphBuilder &b, const AtenCall &call) {
  Term x = term(b, call.value(0));
  int axis = wrap_axis(call.has(1) ? call.integer(1) : 0, x.rank());
  Values results;
  for (size_t i = 0; i < call.results.size(); ++i)
    results.push_back(x.select(axis, b.context().integer(static_cast<int64_t>(i))).value);
  return results;
}

bool is_legacy_empty(const graph::Type &type) { return type.rank() == 1 && type.shape[0].is_const(0); }

Values import_cat(GraphBuilder &b, const AtenCall &call) {
  Values parts;
  int rank = call.results.at(0).rank();
  for (graph::Value *value : call.values(0)) {
    if (!value)
      throw UnsupportedError("aten.cat of None");
    // Eager skips tensors of shape [0], whatever the rank of the others.
    if (is_legacy_empty(value->type) && rank != 1)
      continue;
    parts.push_back(b.cast(value, call.results[0].dtype));
  }
  if (parts.empty())
    return {b.expand(b.cast(b.scalar(0, call.results[0].dtype), call.results[0].dtype), result_shape(call))};
  int axis = wrap_axis(call.has(1) ? call.integer(1) : 0, rank);
  return {parts.size() == 1 ? parts[0] : b.make("concat", std::move(parts), {{"axis", int64_t(axis)}})};
}

Values import_stack(GraphBuilder &b, const AtenCall &call) {
  int axis = wrap_axis(call.has(1) ? call.integer(1) : 0, call.results.at(0).rank());
  Values parts;
  for (graph::Value *value : call.values(0))
    parts.push_back(b.unsqueeze(b.cast(value, call.results[0].dtype), axis));
  return {parts.size() == 1 ? parts[0] : b.make("concat", std::move(parts), {{"axis", int64_t(axis)}})};
}

Values import_flip(GraphBuilder &b, const AtenCall &call) {
  graph::Value *x = call.value(0);
  std::vector<int64_t> axes = wrap_axes(call.integers(1), x->type.rank(), false);
  return {axes.empty() ? x : b.make("flip", {x}, {{"axes", axes}})};
}

Values import_diagonal(GraphBuilder &b, const AtenCall &call) {
  graph::Value *x = call.value(0);
  int rank = x->type.rank();
  return {b.make("diagonal", {x},
                 {{"offset", call.has(1) ? call.integer(1) : int64_t(0)},
                  {"axis1", int64_t(wrap_axis(call.has(2) ? call.integer(2) : 0, rank))},
                  {"axis2", int64_t(wrap_axis(call.has(3) ? call.integer(3) : 1, rank))}})};
}

Values import_unfold(GraphBuilder &b, const AtenCall &call) {
  Term x = term(b, call.value(0));
  if (x.rank() == 0)
    x = x.unsqueeze(0);
  int axis = wrap_axis(call.integer(1), x.rank());
  graph::Value *windows =
      b.make("unfold", {x.value}, {{"axis", int64_t(axis)}, {"size", call.integer(2)}, {"step", call.integer(3)}});
  return {b.reshape(windows, result_shape(call))};
}

/// The operand with its axes in the order of eager's storage, when it is dense there; null otherwise.
graph::Value *storage_order(GraphBuilder &b, graph::Value *x, const std::vector<Expr> &strides) {
  const Shape &shape = x->type.shape;
  std::vector<int64_t> order = all_axes(x->type.rank());
  std::vector<int64_t> numbers;
  for (Expr stride : strides) {
    if (!stride.constant())
      return strides == graph::contiguous_strides(b.context(), shape) ? x : nullptr;
    numbers.push_back(*stride.constant());
  }
  if (numbers.size() != shape.size())
    return nullptr;
  std::stable_sort(order.begin(), order.end(), [&](int64_t i, int64_t j) {
    return shape[i].is_const(1) || shape[j].is_const(1) ? false : numbers[i] > numbers[j];
  });
  int64_t expected = 1;
  for (size_t i = order.size(); i-- > 0;) {
    auto size = shape[order[i]].constant();
    if (!size || (*size != 1 && numbers[order[i]] != expected))
      return nullptr;
    expected *= *size;
  }
  return b.permute(x, order);
}

/// Whether a strided view may see elements past `count`: what lies there is another tensor's.
bool reaches_outside(const Shape &shape, const Shape &strides, Expr offset, Expr count) {
  auto last = offset.constant(), bound = count.constant();
  if (!last || !bound)
    return true;
  for (size_t i = 0; i < shape.size(); ++i) {
    auto size = shape[i].constant(), stride = strides.at(i).constant();
    if (!size || !stride || *stride < 0)
      return true;
    if (*size == 0)
      return false;
    *last += (*size - 1) * *stride;
  }
  return *last >= *bound;
}

Values import_as_strided(GraphBuilder &b, const AtenCall &call) {
  graph::Value *x = call.value(0);
  graph::Value *stored = call.strides_of ? storage_order(b, x, call.strides_of(x)) : nullptr;
  if (!stored)
    throw UnsupportedError(call.overload + " on a tensor that is not dense in memory");
  Expr offset = call.has(3) ? call.size(3, b.context()) : b.context().integer(0);
  if (reaches_outside(call.sizes(1, b.context()), call.sizes(2, b.context()), offset,
                      graph::element_count(b.context(), x->type.shape)))
    throw UnsupportedError(call.overload + " beyond the tensor that it is called on");
  return {b.make("as_strided", {stored},
                 {{"size", call.sizes(1, b.context())}, {"stride", call.sizes(2, b.context())}, {"offset", offset}})};
}

Values import_view_as_real(GraphBuilder &b, const AtenCall &call) { return {b.make("view_as_real", {call.value(0)})}; }
Values import_view_as_complex(GraphBuilder &b, const AtenCall &call) {
  return {b.make("view_as_complex", {call.value(0)})};
}

/// Copies side by side: expanded axes in front of the operand's own, merged.
Values import_repeat(GraphBuilder &b, const AtenCall &call) {
  graph::Value *x = call.value(0);
  Shape repeats = call.sizes(1, b.context());
  Shape apart, wide;
  size_t lead = repeats.size() - x->type.shape.size();
  for (size_t i = 0; i < repeats.size(); ++i) {
    Expr one = b.context().integer(1), size = i < lead ? one : x->type.shape[i - lead];
    apart.insert(apart.end(), {one, size});
    wide.insert(wide.end(), {repeats[i], size});
  }
  return {b.reshape(b.expand(b.reshape(x, std::move(apart)), std::move(wide)), result_shape(call))};
}

Values import_roll(GraphBuilder &b, const AtenCall &call) {
  Term x = term(b, call.value(0));
  Shape shifts = call.sizes(1, b.context()), shape = x.shape();
  std::vector<int64_t> axes = call.has(2) ? call.integers(2) : std::vector<int64_t>();
  if (axes.empty()) {
    x = x.reshape({graph::element_count(b.context(), shape)});
    axes = {0};
  }
  for (size_t i = 0; i < axes.size(); ++i) {
    int axis = wrap_axis(axes[i], x.rank());
    Expr size = x.size(axis);
    if (size.is_const(0))
      continue;
    Expr moved = floor_mod(b.context().integer(0) - shifts.at(i), size);
    Term tail = x.slice(axis, moved, size - moved), head = x.slice(axis, b.context().integer(0), moved);
    x = {&b, b.make("concat", {tail.value, head.value}, {{"axis", int64_t(axis)}})};
  }
  return {x.reshape(shape).value};
}

/// [N, C r r, H, W] → [N, C, H r, W r] and back.
Values import_pixel_shuffle(GraphBuilder &b, const AtenCall &call) {
  Term x = term(b, call.value(0));
  int rank = x.rank();
  int64_t r = call.integer(1);
  ExprContext &context = b.context();
  Shape lead(x.shape().begin(), x.shape().end() - 3), apart = lead;
  apart.insert(apart.end(), {floor_div(x.size(rank - 3), r * r), context.integer(r), context.integer(r),
                             x.size(rank - 2), x.size(rank - 1)});
  std::vector<int64_t> dims = all_axes(rank - 3);
  int64_t first = rank - 3;
  dims.insert(dims.end(), {first, first + 3, first + 1, first + 4, first + 2});
  return {x.reshape(apart).permute(dims).reshape(result_shape(call)).value};
}

Values import_pixel_unshuffle(GraphBuilder &b, const AtenCall &call) {
  Term x = term(b, call.value(0));
  int rank = x.rank();
  int64_t r = call.integer(1);
  ExprContext &context = b.context();
  Shape apart(x.shape().begin(), x.shape().end() - 2);
  apart.insert(apart.end(), {floor_div(x.size(rank - 2), r), context.integer(r), floor_div(x.size(rank - 1), r),
                             context.integer(r)});
  std::vector<int64_t> dims = all_axes(rank - 2);
  int64_t first = rank - 2;
  dims.insert(dims.end(), {first + 1, first + 3, first, first + 2});
  return {x.reshape(apart).permute(dims).reshape(result_shape(call)).value};
}

constexpr AtenRule kRules[] = {
    {"aten.view.default aten._unsafe_view.default aten.reshape.default aten.view_copy.default aten.unsqueeze.default "
     "aten.squeeze.default aten.squeeze.dim aten.squeeze.dims aten.flatten.using_ints aten._reshape_alias.default "
     "aten.unsqueeze_copy.default aten.squeeze_copy.default aten.squeeze_copy.dim aten.squeeze_copy.dims "
     "aten.unflatten.int prims.view_of.default prims.collapse_view.default prims.split_dim.default "
     "prims.squeeze.default aten._reshape_copy.default",
     import_reshape},
    {"aten.permute.default aten.permute_copy.default prims.transpose.default", import_permute},
    {"aten.transpose.int aten.transpose_copy.int", import_transpose},
    {"aten.t.default aten.t_copy.default", import_t},
    {"aten.mT.default", import_adjoint},
    {"aten.expand.default aten.expand_copy.default aten.broadcast_to.default", import_expand},
    {"prims.broadcast_in_dim.default", import_broadcast_in_dim},
    {"aten.slice.Tensor aten.slice_copy.Tensor", import_slice},
    {"aten.select.int aten.select_copy.int", import_select},
    {"aten.narrow.default aten.narrow_copy.default", import_narrow},
    {"aten.split.Tensor aten.split.sizes aten.split_with_sizes.default aten.chunk.default aten.unsafe_split.Tensor "
     "aten.split_copy.Tensor aten.split_with_sizes_copy.default aten.unsafe_chunk.default aten.tensor_split.sections "
     "aten.unsafe_split_with_sizes.default",
     import_split},
    {"aten.unbind.int aten.unbind_copy.int", import_unbind},
    {"aten.cat.default", import_cat},
    {"aten.stack.default", import_stack},
    {"aten.flip.default", import_flip},
    {"aten.diagonal.default aten.diagonal_copy.default", import_diagonal},
    {"aten.unfold.default aten.unfold_copy.default", import_unfold},
    {"aten.as_strided.default aten.as_strided_copy.default", import_as_strided},
    {"aten.view_as_real.default aten.view_as_real_copy.default", import_view_as_real},
    {"aten.view_as_complex.default aten.view_as_complex_copy.default", import_view_as_complex},
    {"aten.repeat.default", import_repeat},
    {"aten.roll.default", import_roll},
    {"aten.pixel_shuffle.default", import_pixel_shuffle},
    {"aten.pixel_unshuffle.default", import_pixel_unshuffle},
};

} // namespace

OpTable aten_view() { return {{}, kRules}; }

} // namespace oxyfuel
