// Sliding windows: what pooling reduces over. Padding is a value, so a window may hang over the edge.
#include "ops/shape.h"
#include "ops/table.h"

namespace oxyfuel {

namespace {

using graph::Node;
using graph::Type;

std::vector<Type> infer_windows(const Node &node, ExprContext &context) {
  Type result = node.operands.at(0)->type;
  const auto &axes = integers_attribute(node, "axes"), &kernel = integers_attribute(node, "kernel"),
             &stride = integers_attribute(node, "stride"), &dilation = integers_attribute(node, "dilation");
  Shape lower = sizes_attribute(node, "lower", context), upper = sizes_attribute(node, "upper", context);
  for (size_t i = 0; i < axes.size(); ++i) {
    Expr &size = result.shape.at(axes[i]);
    size = window_count(size, lower.at(i), upper.at(i), kernel.at(i), stride.at(i), dilation.at(i));
  }
  for (int64_t length : kernel)
    result.shape.push_back(context.integer(length));
  return {result};
}

Expr windows_element(ExprContext &context, const Node &node, std::span<const Expr> index, const ReadOperand &read) {
  const Type &x = node.operands[0]->type;
  const auto &axes = integers_attribute(node, "axes"), &stride = integers_attribute(node, "stride"),
             &dilation = integers_attribute(node, "dilation");
  Shape lower = sizes_attribute(node, "lower", context);
  std::vector<Expr> at(index.begin(), index.begin() + x.rank());
  Expr inside = context.boolean(true);
  for (size_t i = 0; i < axes.size(); ++i) {
    Expr &place = at[axes[i]];
    place = place * stride[i] + index[x.rank() + i] * dilation[i] - lower[i];
    inside = inside && context.integer(0) <= place && place < x.shape[axes[i]];
  }
  if (inside.is_const(1))
    return read(0, at, {});
  return select(inside, read(0, at, inside), context.constant(number_attribute(node, "value"), x.dtype));
}

constexpr OpInfo windows() {
  OpInfo info;
  info.name = "windows", info.kind = OpKind::kIndexed, info.infer = infer_windows, info.element = windows_element;
  info.doc =
      "windows of `kernel` elements, `dilation` apart, every `stride` along `axes` padded by `lower` and `upper` "
      "elements of `value`; places within the window are new last axes";
  info.cost = 2;
  return info;
}

constexpr OpInfo kOps[] = {windows()};

} // namespace

OpTable window_ops() { return {kOps, {}}; }

} // namespace oxyfuel
