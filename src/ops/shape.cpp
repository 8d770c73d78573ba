#include "ops/shape.h"

#include <algorithm>

#include "support/error.h"

namespace oxyfuel {

namespace {

Expr broadcast_size(Expr a, Expr b) {
  if (a == b || b.is_const(1))
    return a;
  if (a.is_const(1))
    return b;
  if (a.is_const() && b.is_const())
    throw CompileError("sizes " + print(a) + " and " + print(b) + " do not broadcast");
  return a.is_const() ? a : b.is_const() ? b : a;
}

} // namespace

Shape broadcast(const Shape &a, const Shape &b) {
  const Shape &longer = a.size() >= b.size() ? a : b, &shorter = a.size() >= b.size() ? b : a;
  Shape result = longer;
  size_t lead = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i)
    result[lead + i] = broadcast_size(longer[lead + i], shorter[i]);
  return result;
}

std::vector<Expr> broadcast_index(const Shape &shape, std::span<const Expr> index) {
  OXYFUEL_CHECK(index.size() >= shape.size(), "operand of a higher rank than the result");
  size_t lead = index.size() - shape.size();
  std::vector<Expr> result(shape.size());
  for (size_t i = 0; i < shape.size(); ++i)
    result[i] = shape[i].is_const(1) ? shape[i].context().integer(0) : index[lead + i];
  return result;
}

Expr size_attribute(const graph::Node &node, std::string_view name, ExprContext &context) {
  auto at = node.attributes.find(name);
  OXYFUEL_CHECK(at != node.attributes.end(), "no attribute " + std::string(name) + " on " + std::string(node.op->name));
  if (auto *value = std::get_if<int64_t>(&at->second))
    return context.integer(*value);
  return node.get<Expr>(name);
}

Shape sizes_attribute(const graph::Node &node, std::string_view name, ExprContext &context) {
  auto at = node.attributes.find(name);
  OXYFUEL_CHECK(at != node.attributes.end(), "no attribute " + std::string(name) + " on " + std::string(node.op->name));
  if (auto *values = std::get_if<std::vector<int64_t>>(&at->second)) {
    Shape result;
    for (int64_t value : *values)
      result.push_back(context.integer(value));
    return result;
  }
  return node.get<std::vector<Expr>>(name);
}

const std::vector<int64_t> &integers_attribute(const graph::Node &node, std::string_view name) {
  return node.get<std::vector<int64_t>>(name);
}

double number_attribute(const graph::Node &node, std::string_view name) {
  auto at = node.attributes.find(name);
  OXYFUEL_CHECK(at != node.attributes.end(), "no attribute " + std::string(name) + " on " + std::string(node.op->name));
  if (auto *value = std::get_if<int64_t>(&at->second))
    return static_cast<double>(*value);
  return node.get<double>(name);
}

Expr flatten(std::span<const Expr> index, const Shape &shape) {
  OXYFUEL_CHECK(index.size() == shape.size() && !shape.empty(), "flatten");
  Expr flat = index[0];
  for (size_t i = 1; i < shape.size(); ++i)
    flat = flat * shape[i] + index[i];
  return flat;
}

std::vector<Expr> unflatten(Expr flat, const Shape &shape) {
  std::vector<Expr> index(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    if (i == 0) {
      index[i] = flat;
    } else {
      index[i] = floor_mod(flat, shape[i]);
      flat = floor_div(flat, shape[i]);
    }
  }
  return index;
}

Expr window_count(Expr size, Expr lower, Expr upper, int64_t kernel, int64_t stride, int64_t dilation) {
  return floor_div(size + lower + upper - (dilation * (kernel - 1) + 1), stride) + 1;
}

Expr wrap_index(Expr index, Expr size) {
  if (index.dtype() != DType::kI64)
    index = cast(index, DType::kI64);
  return select(index < index.like(0), index + size, index);
}

Expr clamp_index(Expr index, Expr size) { return max(min(wrap_index(index, size), size - 1), size.like(0)); }

Expr index_in_range(Expr index, Expr size) {
  if (index.dtype() != DType::kI64)
    index = cast(index, DType::kI64);
  return size.like(0) - size <= index && index < size;
}

void bad_operands(const graph::Node &node, const std::string &wanted) {
  throw CompileError(std::string(node.op->name) + " wants " + wanted);
}

} // namespace oxyfuel
