// Views: index maps that move nothing by themselves.
#include <algorithm>

#include "ops/shape.h"
#include "ops/table.h"
#include "support/error.h"

namespace oxyfuel {

namespace {

using graph::Node;
using graph::Type;
using Index = std::span<const Expr>;

const Type &input(const Node &node) {
  if (node.operands.empty() || !node.operands[0])
    bad_operands(node, "an operand");
  return node.operands[0]->type;
}

int axis_attribute(const Node &node, std::string_view name, int rank) {
  int64_t axis = node.get<int64_t>(name);
  if (axis < 0 || axis >= rank)
    bad_operands(node, std::string(name) + " in [0, " + std::to_string(rank) + ")");
  return static_cast<int>(axis);
}

std::vector<Type> infer_permute(const Node &node, ExprContext &) {
  const Type &x = input(node);
  const auto &dims = integers_attribute(node, "dims");
  std::vector<int64_t> sorted = dims;
  std::sort(sorted.begin(), sorted.end());
  Type result{x.dtype, {}};
  for (size_t i = 0; i < dims.size(); ++i) {
    if (sorted[i] != static_cast<int64_t>(i))
      bad_operands(node, "dims that are a permutation");
    result.shape.push_back(x.shape.at(dims[i]));
  }
  if (result.rank() != x.rank())
    bad_operands(node, "one of dims for each axis");
  return {result};
}

Expr permute_element(ExprContext &, const Node &node, Index index, const ReadOperand &read) {
  const auto &dims = integers_attribute(node, "dims");
  std::vector<Expr> at(index.size());
  for (size_t i = 0; i < dims.size(); ++i)
    at[dims[i]] = index[i];
  return read(0, at, {});
}

std::vector<Type> infer_expand(const Node &node, ExprContext &context) {
  const Type &x = input(node);
  Shape shape = sizes_attribute(node, "shape", context);
  if (shape.size() < x.shape.size())
    bad_operands(node, "a shape of at least the operand's rank");
  broadcast(shape, x.shape);
  return {Type{x.dtype, std::move(shape)}};
}

Expr expand_element(ExprContext &, const Node &node, Index index, const ReadOperand &read) {
  return read(0, broadcast_index(node.operands[0]->type.shape, index), {});
}

std::vector<Type> infer_reshape(const Node &node, ExprContext &context) {
  const Type &x = input(node);
  Shape shape = sizes_attribute(node, "shape", context);
  auto before = graph::element_count(context, x.shape).constant(),
       after = graph::element_count(context, shape).constant();
  if (before && after && *before != *after)
    bad_operands(node, "a shape of as many elements");
  return {Type{x.dtype, std::move(shape)}};
}

/// Index maps group by group: a group is a run of input axes and a run of result axes with the same number of elements,
/// so that an axis that a reshape leaves alone keeps its plain index.
Expr reshape_element(ExprContext &context, const Node &node, Index index, const ReadOperand &read) {
  const Shape &in = node.operands[0]->type.shape, &out = node.result()->type.shape;
  std::vector<Expr> at(in.size()), out_product{context.integer(1)};
  for (Expr size : out)
    out_product.push_back(out_product.back() * size);
  Expr product = context.integer(1);
  size_t in_begin = 0, out_begin = 0;
  for (size_t i = 0; i < in.size(); ++i) {
    product = product * in[i];
    size_t out_end = out_begin;
    if (i + 1 == in.size())
      out_end = out.size();
    else
      while (out_end < out.size() && !(out_product[out_end] == product))
        ++out_end;
    if (!(out_product[out_end] == product) && i + 1 < in.size())
      continue;
    Shape group_in(in.begin() + in_begin, in.begin() + i + 1),
        group_out(out.begin() + out_begin, out.begin() + out_end);
    Expr flat =
        group_out.empty() ? context.integer(0) : flatten(index.subspan(out_begin, out_end - out_begin), group_out);
    std::vector<Expr> group = unflatten(flat, group_in);
    for (size_t k = 0; k < group.size(); ++k)
      at[in_begin + k] = group_in[k].is_const(1) ? context.integer(0) : group[k];
    in_begin = i + 1, out_begin = out_end;
  }
  return read(0, at, {});
}

std::vector<Type> infer_slice(const Node &node, ExprContext &context) {
  Type result = input(node);
  result.shape[axis_attribute(node, "axis", result.rank())] = size_attribute(node, "length", context);
  return {result};
}

Expr slice_element(ExprContext &context, const Node &node, Index index, const ReadOperand &read) {
  std::vector<Expr> at(index.begin(), index.end());
  Expr &position = at[node.get<int64_t>("axis")];
  position = position * node.get_or<int64_t>("step", 1) + size_attribute(node, "start", context);
  return read(0, at, {});
}

std::vector<Type> infer_flip(const Node &node, ExprContext &) {
  for (int64_t axis : integers_attribute(node, "axes"))
    if (axis < 0 || axis >= input(node).rank())
      bad_operands(node, "axes of the operand");
  return {input(node)};
}

Expr flip_element(ExprContext &, const Node &node, Index index, const ReadOperand &read) {
  std::vector<Expr> at(index.begin(), index.end());
  for (int64_t axis : integers_attribute(node, "axes"))
    at[axis] = node.operands[0]->type.shape[axis] - 1 - at[axis];
  return read(0, at, {});
}

/// The diagonal axis comes last.
std::vector<Type> infer_diagonal(const Node &node, ExprContext &context) {
  const Type &x = input(node);
  int first = axis_attribute(node, "axis1", x.rank()), second = axis_attribute(node, "axis2", x.rank());
  if (first == second)
    bad_operands(node, "two different axes");
  int64_t offset = node.get<int64_t>("offset");
  Type result{x.dtype, {}};
  for (int i = 0; i < x.rank(); ++i)
    if (i != first && i != second)
      result.shape.push_back(x.shape[i]);
  Expr rows = offset < 0 ? x.shape[first] + offset : x.shape[first];
  Expr columns = offset > 0 ? x.shape[second] - offset : x.shape[second];
  result.shape.push_back(max(min(rows, columns), context.integer(0)));
  return {result};
}

Expr diagonal_element(ExprContext &, const Node &node, Index index, const ReadOperand &read) {
  int64_t first = node.get<int64_t>("axis1"), second = node.get<int64_t>("axis2"), offset = node.get<int64_t>("offset");
  std::vector<Expr> at(index.size() + 1);
  size_t next = 0;
  for (int64_t i = 0; i < static_cast<int64_t>(at.size()); ++i)
    if (i != first && i != second)
      at[i] = index[next++];
  at[first] = offset < 0 ? index.back() - offset : index.back();
  at[second] = offset > 0 ? index.back() + offset : index.back();
  return read(0, at, {});
}

/// Windows of `size` every `step` along `axis`; the place within the window is a new last axis.
std::vector<Type> infer_unfold(const Node &node, ExprContext &context) {
  Type result = input(node);
  int64_t size = node.get<int64_t>("size"), step = node.get<int64_t>("step");
  Expr &length = result.shape[axis_attribute(node, "axis", result.rank())];
  length = floor_div(length - size, step) + 1;
  result.shape.push_back(context.integer(size));
  return {result};
}

Expr unfold_element(ExprContext &, const Node &node, Index index, const ReadOperand &read) {
  std::vector<Expr> at(index.begin(), index.end() - 1);
  Expr &position = at[node.get<int64_t>("axis")];
  position = position * node.get<int64_t>("step") + index.back();
  return read(0, at, {});
}

std::vector<Type> infer_as_strided(const Node &node, ExprContext &context) {
  return {Type{input(node).dtype, sizes_attribute(node, "size", context)}};
}

Expr as_strided_element(ExprContext &context, const Node &node, Index index, const ReadOperand &read) {
  Shape strides = sizes_attribute(node, "stride", context);
  Expr flat = size_attribute(node, "offset", context);
  for (size_t i = 0; i < index.size(); ++i)
    flat = flat + index[i] * strides[i];
  return read(0, unflatten(flat, node.operands[0]->type.shape), {});
}

std::vector<Type> infer_view_as_real(const Node &node, ExprContext &context) {
  Type result = input(node);
  if (!is_complex(result.dtype))
    bad_operands(node, "a complex operand");
  result.dtype = real_of(result.dtype);
  result.shape.push_back(context.integer(2));
  return {result};
}

Expr view_as_real_element(ExprContext &, const Node &, Index index, const ReadOperand &read) {
  Expr value = read(0, index.first(index.size() - 1), {});
  return select(eq(index.back(), index.back().like(0)), real(value), imag(value));
}

std::vector<Type> infer_view_as_complex(const Node &node, ExprContext &) {
  Type result = input(node);
  if (result.rank() == 0 || (result.dtype != DType::kF32 && result.dtype != DType::kF64))
    bad_operands(node, "an operand of float32 or float64 with a last axis of two");
  result.dtype = result.dtype == DType::kF64 ? DType::kC128 : DType::kC64;
  result.shape.pop_back();
  return {result};
}

Expr view_as_complex_element(ExprContext &context, const Node &, Index index, const ReadOperand &read) {
  std::vector<Expr> at(index.begin(), index.end());
  at.push_back(context.integer(0));
  Expr re = read(0, at, {});
  at.back() = context.integer(1);
  return complex(re, read(0, at, {}));
}

constexpr OpInfo view(std::string_view name, std::string_view doc, decltype(OpInfo::infer) infer,
                      decltype(OpInfo::element) element) {
  OpInfo info;
  info.name = name, info.kind = OpKind::kView, info.doc = doc, info.infer = infer, info.element = element,
  info.cost = 0;
  return info;
}

constexpr OpInfo kOps[] = {
    view("permute", "axes in the order `dims`", infer_permute, permute_element),
    view("expand", "axes of size 1, and new leading ones, repeated to `shape`", infer_expand, expand_element),
    view("reshape", "the same elements in row-major order as `shape`", infer_reshape, reshape_element),
    view("slice", "elements start, start + step, … (`length` of them) along `axis`", infer_slice, slice_element),
    view("flip", "`axes` in reverse order", infer_flip, flip_element),
    view("diagonal", "elements (i, i + offset) of `axis1` and `axis2`, as a last axis", infer_diagonal,
         diagonal_element),
    view("unfold", "windows of `size` every `step` along `axis`, as a last axis", infer_unfold, unfold_element),
    view("as_strided", "elements offset + sum(index * stride) of the operand in row-major order", infer_as_strided,
         as_strided_element),
    view("view_as_real", "real and imaginary part as a last axis", infer_view_as_real, view_as_real_element),
    view("view_as_complex", "pairs along the last axis as complex numbers", infer_view_as_complex,
         view_as_complex_element),
};

} // namespace

OpTable view_ops() { return {kOps, {}}; }

} // namespace oxyfuel
