// GraphBuilder: the vocabulary in which import rules are written.
#include <algorithm>

#include "ops/import.h"
#include "ops/shape.h"
#include "support/error.h"

namespace oxyfuel {

graph::Node *GraphBuilder::make_node(std::string_view name, std::vector<graph::Value *> operands,
                                     Attributes attributes) {
  graph::Node *node = graph_.add(op(name), std::move(operands), std::move(attributes));
  node->location = location_;
  return node;
}

graph::Value *GraphBuilder::make(std::string_view name, std::vector<graph::Value *> operands, Attributes attributes) {
  return make_node(name, std::move(operands), std::move(attributes))->result();
}

graph::Value *GraphBuilder::scalar(double value, DType dtype) {
  if (is_complex(dtype))
    return scalar_complex(value, dtype);
  if (!is_float(dtype))
    return scalar_integer(is_bool(dtype) ? value != 0 : static_cast<int64_t>(value), dtype);
  return make("constant", {}, {{"value", value}, {"dtype", opmath_of(dtype)}});
}

graph::Value *GraphBuilder::scalar_integer(int64_t value, DType dtype) {
  if (is_float(dtype) || is_complex(dtype))
    return scalar(static_cast<double>(value), dtype);
  return make("constant", {}, {{"value", is_bool(dtype) ? int64_t(value != 0) : value}, {"dtype", dtype}});
}

graph::Value *GraphBuilder::scalar_complex(std::complex<double> value, DType dtype) {
  DType part = real_of(dtype);
  return pointwise("complex", {scalar(value.real(), part), scalar(value.imag(), part)}, part, dtype);
}

graph::Value *GraphBuilder::scalar_size(Expr value, DType dtype) {
  if (auto constant = value.constant())
    return scalar_integer(*constant, dtype);
  return cast(make("size_value", {}, {{"value", value}}), opmath_of(dtype));
}

graph::Value *GraphBuilder::number(const AtenArgument &argument, DType dtype) {
  if (auto *value = std::get_if<graph::Value *>(&argument.data))
    return *value;
  if (auto *value = std::get_if<int64_t>(&argument.data))
    return scalar_integer(*value, dtype);
  if (auto *value = std::get_if<bool>(&argument.data))
    return scalar_integer(*value, dtype);
  if (auto *value = std::get_if<double>(&argument.data))
    return scalar(*value, dtype);
  if (auto *value = std::get_if<Expr>(&argument.data))
    return scalar_size(*value, dtype);
  if (auto *value = std::get_if<std::complex<double>>(&argument.data))
    if (is_complex(dtype))
      return scalar_complex(*value, dtype);
  throw UnsupportedError("an argument that is not a number");
}

graph::Value *GraphBuilder::full(std::vector<Expr> shape, graph::Value *scalar) {
  return expand(scalar, std::move(shape));
}

graph::Value *GraphBuilder::cast(graph::Value *x, DType dtype) {
  return x->type.dtype == dtype ? x : make("cast", {x}, {{"dtype", dtype}});
}

graph::Value *GraphBuilder::permute(graph::Value *x, std::vector<int64_t> dims) {
  return std::is_sorted(dims.begin(), dims.end()) ? x : make("permute", {x}, {{"dims", std::move(dims)}});
}

graph::Value *GraphBuilder::reshape(graph::Value *x, std::vector<Expr> shape) {
  return shape == x->type.shape ? x : make("reshape", {x}, {{"shape", std::move(shape)}});
}

graph::Value *GraphBuilder::expand(graph::Value *x, std::vector<Expr> shape) {
  return shape == x->type.shape ? x : make("expand", {x}, {{"shape", std::move(shape)}});
}

graph::Value *GraphBuilder::slice(graph::Value *x, int axis, Expr start, Expr length, int64_t step) {
  if (start.is_const(0) && length == x->type.shape[axis] && step == 1)
    return x;
  return make("slice", {x}, {{"axis", int64_t(axis)}, {"start", start}, {"length", length}, {"step", step}});
}

graph::Value *GraphBuilder::squeeze(graph::Value *x, int axis) {
  std::vector<Expr> shape = x->type.shape;
  shape.erase(shape.begin() + axis);
  return reshape(x, std::move(shape));
}

graph::Value *GraphBuilder::unsqueeze(graph::Value *x, int axis) {
  std::vector<Expr> shape = x->type.shape;
  shape.insert(shape.begin() + axis, context().integer(1));
  return reshape(x, std::move(shape));
}

graph::Value *GraphBuilder::reduce(std::string_view name, graph::Value *x, std::vector<int64_t> axes, bool keep,
                                   DType result) {
  std::sort(axes.begin(), axes.end());
  std::vector<Expr> kept = x->type.shape;
  for (int64_t axis : axes)
    kept[axis] = context().integer(1);
  graph::Value *value = make(name, {x}, {{"axes", std::move(axes)}, {"dtype", result}});
  return keep ? reshape(value, std::move(kept)) : value;
}

graph::Value *GraphBuilder::matmul(graph::Value *x, graph::Value *y, DType result) {
  if (!is_complex(result))
    return make("matmul", {x, y}, {{"dtype", result}});
  // Four real products.
  DType part = real_of(result);
  auto of = [&](std::string_view op, graph::Value *z) { return pointwise(op, {cast(z, result)}, result, part); };
  auto times = [&](graph::Value *p, graph::Value *q) { return make("matmul", {p, q}, {{"dtype", part}}); };
  graph::Value *xr = of("real", x), *xi = of("imag", x), *yr = of("real", y), *yi = of("imag", y);
  return pointwise("complex",
                   {pointwise("sub", {times(xr, yr), times(xi, yi)}, part, part),
                    pointwise("add", {times(xr, yi), times(xi, yr)}, part, part)},
                   part, result);
}

} // namespace oxyfuel
