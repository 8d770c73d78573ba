// Shape arithmetic that type rules and index maps share. Sizes that PyTorch has proven equal may be different
// expressions here; a rule takes one of them and relies on PyTorch's guards.
#pragma once

#include <string>
#include <vector>

#include "ir/graph/op_info.h"

namespace oxyfuel {

using Attributes = std::map<std::string, graph::Attribute, std::less<>>;
using Shape = std::vector<Expr>;

/// Numpy's broadcasting of two shapes. CompileError when constant sizes disagree.
Shape broadcast(const Shape &a, const Shape &b);

/// Index of an operand of shape `shape` for the element `index` of a result that it broadcasts to.
std::vector<Expr> broadcast_index(const Shape &shape, std::span<const Expr> index);

/// A size attribute, given as an integer or an expression.
Expr size_attribute(const graph::Node &node, std::string_view name, ExprContext &context);
/// A list of sizes, given as integers or expressions.
Shape sizes_attribute(const graph::Node &node, std::string_view name, ExprContext &context);
/// A list of axes or other constants.
const std::vector<int64_t> &integers_attribute(const graph::Node &node, std::string_view name);

/// A number attribute, given as an integer or a double.
double number_attribute(const graph::Node &node, std::string_view name);

/// Flat row-major position of an index, and back.
Expr flatten(std::span<const Expr> index, const Shape &shape);
std::vector<Expr> unflatten(Expr flat, const Shape &shape);

/// Length of a window or convolution axis: (size + lower + upper - dilation * (kernel - 1) - 1) / stride + 1.
Expr window_count(Expr size, Expr lower, Expr upper, int64_t kernel, int64_t stride, int64_t dilation);

/// An index as eager takes it: negative values count from the end.
Expr wrap_index(Expr index, Expr size);
/// The same, clamped into [0, size) so that memory stays safe when the check fails.
Expr clamp_index(Expr index, Expr size);
/// -size <= index < size.
Expr index_in_range(Expr index, Expr size);

[[noreturn]] void bad_operands(const graph::Node &node, const std::string &wanted);

} // namespace oxyfuel
