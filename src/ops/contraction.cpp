// Contractions: matrix multiply, convolution, attention. Their loops are made by passes/lower/contraction.
#include "ops/shape.h"
#include "ops/table.h"

namespace oxyfuel {

namespace {

using graph::Node;
using graph::Type;

/// a [batch…, M, K] x b [batch…, K, N]; batch sizes are equal. Products and sums are in the op-math type of the result.
std::vector<Type> infer_matmul(const Node &node, ExprContext &) {
  const Type &a = node.operands.at(0)->type, &b = node.operands.at(1)->type;
  if (a.rank() < 2 || a.rank() != b.rank())
    bad_operands(node, "two operands of one rank, at least 2");
  auto inner_a = a.shape.back().constant(), inner_b = b.shape[b.rank() - 2].constant();
  if (inner_a && inner_b && *inner_a != *inner_b)
    bad_operands(node, "equal inner sizes");
  Type result{node.get_or<DType>("dtype", a.dtype), a.shape};
  result.shape.back() = b.shape.back();
  return {result};
}

/// x [N, C, spatial…], w [O, C / groups, kernel…]; transposed: w [C, O / groups, kernel…].
std::vector<Type> infer_convolution(const Node &node, ExprContext &context) {
  const Type &x = node.operands.at(0)->type, &w = node.operands.at(1)->type;
  const auto &stride = integers_attribute(node, "stride"), &padding = integers_attribute(node, "padding"),
             &dilation = integers_attribute(node, "dilation");
  auto padding_end = node.get_or<std::vector<int64_t>>("padding_end", padding);
  size_t spatial = stride.size();
  if (x.shape.size() != spatial + 2 || w.shape.size() != spatial + 2 || padding.size() != spatial ||
      padding_end.size() != spatial || dilation.size() != spatial)
    bad_operands(node, "operands [N, C, spatial…] and [O, C / groups, kernel…] with one stride, padding and dilation a "
                       "spatial axis");
  bool is_transposed = node.get_or<bool>("transposed", false);
  int64_t groups = node.get_or<int64_t>("groups", 1);
  Type result{node.get_or<DType>("dtype", x.dtype), x.shape};
  result.shape[1] = is_transposed ? w.shape[1] * groups : w.shape[0];
  for (size_t i = 0; i < spatial; ++i) {
    Expr size = x.shape[i + 2], reach = (w.shape[i + 2] - 1) * dilation[i];
    if (is_transposed)
      size = (size - 1) * stride[i] + -2 * padding[i] + reach + 1 + integers_attribute(node, "output_padding").at(i);
    else
      size = floor_div(size + context.integer(padding[i] + padding_end[i]) - reach - 1, stride[i]) + 1;
    result.shape[i + 2] = size;
  }
  return {result};
}

/// q [B, H, L, E], k [B, Hk, S, E], v [B, Hk, S, Ev], mask broadcast to [B, H, L, S] or absent; H a multiple of Hk.
/// Results: out [B, H, L, Ev], and logsumexp [B, H, L] of the scores in the op-math type.
std::vector<Type> infer_attention(const Node &node, ExprContext &) {
  const Type &q = node.operands.at(0)->type, &v = node.operands.at(2)->type;
  if (q.rank() != 4 || v.rank() != 4 || node.operands.at(1)->type.rank() != 4)
    bad_operands(node, "q, k and v of rank 4");
  Type out{q.dtype, q.shape};
  out.shape.back() = v.shape.back();
  return {out, Type{opmath_of(q.dtype), {q.shape[0], q.shape[1], q.shape[2]}}};
}

constexpr OpInfo contraction(std::string_view name, OpKind kind, std::string_view doc, decltype(OpInfo::infer) infer) {
  OpInfo info;
  info.name = name, info.kind = kind, info.doc = doc, info.infer = infer, info.cost = 1000;
  return info;
}

constexpr OpInfo kOps[] = {
    contraction("matmul", OpKind::kContraction, "[batch…, M, K] times [batch…, K, N]", infer_matmul),
    contraction(
        "convolution", OpKind::kContraction,
        "`stride`, `padding`, `dilation` a spatial axis, `groups`; `padding_end` where it differs; `transposed` with "
        "`output_padding`; no bias",
        infer_convolution),
    contraction(
        "attention", OpKind::kAttention,
        "softmax(scale * q k^T + mask) v, `causal`: key j counts for query i when j <= i; and the scores' logsumexp",
        infer_attention),
};

} // namespace

OpTable contraction_ops() { return {kOps, {}}; }

} // namespace oxyfuel
