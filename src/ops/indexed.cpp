// Operators whose elements are computed from the index: constants, ranges, concatenation, padding.
#include "ops/shape.h"
#include "ops/table.h"
#include "support/error.h"

namespace oxyfuel {

namespace {

using graph::Node;
using graph::Type;
using Index = std::span<const Expr>;

/// An i64 or double attribute as a constant of `dtype`.
Expr constant_attribute(ExprContext &context, const Node &node, std::string_view name, DType dtype) {
  auto at = node.attributes.find(name);
  if (at != node.attributes.end())
    if (auto *value = std::get_if<int64_t>(&at->second); value && !is_float(dtype) && !is_complex(dtype))
      return is_bool(dtype) ? context.boolean(*value != 0) : context.integer(*value, dtype);
  return context.constant(number_attribute(node, name), dtype);
}

std::vector<Type> infer_constant(const Node &node, ExprContext &) { return {Type{node.get<DType>("dtype"), {}}}; }

Expr constant_element(ExprContext &context, const Node &node, Index, const ReadOperand &) {
  return constant_attribute(context, node, "value", node.get<DType>("dtype"));
}

std::vector<Type> infer_size_value(const Node &, ExprContext &) { return {Type{DType::kI64, {}}}; }

Expr size_value_element(ExprContext &context, const Node &node, Index, const ReadOperand &) {
  return size_attribute(node, "value", context);
}

std::vector<Type> infer_iota(const Node &node, ExprContext &context) {
  return {Type{node.get<DType>("dtype"), {size_attribute(node, "length", context)}}};
}

/// Integers: i64 arithmetic that wraps into the result's type. Floats: float64 arithmetic rounded once, as eager's
/// arange.
Expr iota_element(ExprContext &context, const Node &node, Index index, const ReadOperand &) {
  DType dtype = node.get<DType>("dtype");
  if (is_float(dtype)) {
    auto number = [&](std::string_view name) {
      auto at = node.attributes.find(name);
      if (auto *size = std::get_if<Expr>(&at->second))
        return cast(*size, DType::kF64);
      return context.constant(number_attribute(node, name), DType::kF64);
    };
    return cast(number("start") + number("step") * cast(index[0], DType::kF64), dtype);
  }
  Expr value = size_attribute(node, "start", context) + size_attribute(node, "step", context) * index[0];
  return dtype == DType::kI64 ? value : cast(value, dtype);
}

std::vector<Type> infer_concat(const Node &node, ExprContext &) {
  if (node.operands.empty())
    bad_operands(node, "operands");
  Type result = node.operands[0]->type;
  int64_t axis = node.get<int64_t>("axis");
  if (axis < 0 || axis >= result.rank())
    bad_operands(node, "an axis of its operands");
  for (size_t i = 1; i < node.operands.size(); ++i) {
    const Type &other = node.operands[i]->type;
    if (other.rank() != result.rank() || other.dtype != result.dtype)
      bad_operands(node, "operands of one type and rank");
    result.shape[axis] = result.shape[axis] + other.shape[axis];
  }
  return {result};
}

Expr concat_element(ExprContext &context, const Node &node, Index index, const ReadOperand &read) {
  int64_t axis = node.get<int64_t>("axis");
  Expr begin = context.integer(0), result;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    Expr end = begin + node.operands[i]->type.shape[axis];
    std::vector<Expr> at(index.begin(), index.end());
    at[axis] = index[axis] - begin;
    Expr inside = index[axis] < end;
    if (i > 0)
      inside = begin <= index[axis] && inside;
    Expr value = read(static_cast<int>(i), at, inside.is_const(1) ? Expr() : inside);
    result = result ? select(index[axis] < begin, result, value) : value;
    begin = end;
  }
  return result;
}

std::vector<Type> infer_pad(const Node &node, ExprContext &context) {
  Type result = node.operands.at(0)->type;
  Shape lower = sizes_attribute(node, "lower", context), upper = sizes_attribute(node, "upper", context);
  if (lower.size() != result.shape.size() || upper.size() != result.shape.size())
    bad_operands(node, "lower and upper of every axis");
  for (size_t i = 0; i < lower.size(); ++i)
    result.shape[i] = result.shape[i] + lower[i] + upper[i];
  return {result};
}

Expr pad_element(ExprContext &context, const Node &node, Index index, const ReadOperand &read) {
  const Type &x = node.operands[0]->type;
  Shape lower = sizes_attribute(node, "lower", context);
  std::vector<Expr> at(index.begin(), index.end());
  Expr inside = context.boolean(true);
  for (size_t i = 0; i < at.size(); ++i) {
    at[i] = index[i] - lower[i];
    inside = inside && context.integer(0) <= at[i] && at[i] < x.shape[i];
  }
  if (inside.is_const(1))
    return read(0, at, {});
  return select(inside, read(0, at, inside), constant_attribute(context, node, "value", x.dtype));
}

/// Places outside of the operand mirror at its edges (reflect), repeat them (replicate) or wrap around (circular).
Expr pad_map_element(ExprContext &context, const Node &node, Index index, const ReadOperand &read) {
  const Type &x = node.operands[0]->type;
  const std::string &mode = node.get<std::string>("mode");
  Shape lower = sizes_attribute(node, "lower", context), upper = sizes_attribute(node, "upper", context);
  std::vector<Expr> at(index.begin(), index.end());
  Expr zero = context.integer(0);
  for (size_t i = 0; i < at.size(); ++i) {
    if (lower[i].is_const(0) && upper[i].is_const(0))
      continue;
    Expr place = index[i] - lower[i], last = x.shape[i] - 1;
    if (mode == "reflect") {
      Expr from_start = max(place, zero - place), from_end = last - from_start;
      place = last - max(from_end, zero - from_end);
    } else if (mode == "replicate") {
      place = max(min(place, last), zero);
    } else {
      place = floor_mod(place, x.shape[i]);
    }
    at[i] = place;
  }
  return read(0, at, {});
}

constexpr OpInfo indexed(std::string_view name, std::string_view doc, decltype(OpInfo::infer) infer,
                         decltype(OpInfo::element) element) {
  OpInfo info;
  info.name = name, info.kind = OpKind::kIndexed, info.doc = doc, info.infer = infer, info.element = element;
  return info;
}

constexpr OpInfo kOps[] = {
    indexed("constant", "a number `value` of type `dtype`, rank 0", infer_constant, constant_element),
    indexed("size_value", "a size expression `value` as an i64, rank 0", infer_size_value, size_value_element),
    indexed("iota", "start + step * i for i in [0, length), of type `dtype`", infer_iota, iota_element),
    indexed("concat", "operands one after the other along `axis`", infer_concat, concat_element),
    indexed("pad", "`lower` and `upper` elements of `value` around every axis; negative ones crop", infer_pad,
            pad_element),
    indexed("pad_map", "padding from the operand itself, `mode`: reflect, replicate or circular", infer_pad,
            pad_map_element),
};

} // namespace

OpTable indexed_ops() { return {kOps, {}}; }

} // namespace oxyfuel
