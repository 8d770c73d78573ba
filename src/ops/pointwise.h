// How a pointwise operator is declared: one struct, from which its OpInfo and its import rules follow.
//
//   struct Silu : Pointwise<1> {
//     static constexpr std::string_view name = "silu", aten = "aten.silu.default", doc = "x * sigmoid(x)";
//     static constexpr DTypeRule dtype = DTypeRule::kFloat;
//     static constexpr int ulps = 4;
//     static auto body(auto x) { return x / (x.like(1) + exp(-x)); }
//   };
//
// `aten` lists overloads, separated by spaces, whose first arguments are the operands (tensors or numbers, in order)
// and that have no other argument, unless the struct has `attributes(const AtenCall &)`, which reads the rest. A body
// may take the node as a last parameter to see attributes and dtypes.
#pragma once

#include "ops/import.h"
#include "ops/shape.h"
#include "ops/table.h"
#include "support/error.h"

namespace oxyfuel {

enum class DTypeRule : uint8_t {
  kPromote, // computed in the promoted type of the operands, which the result has too
  kFloat,   // the same; integers and bool become the default floating type
  kBool,    // computed in the promoted type, the result is bool
  kReal,    // computed in the promoted type, the result has the type of its real part
  kGiven,   // the result's type is the attribute "dtype"
};

/// Base of declarations: what most of them leave as it is.
template <int N> struct Pointwise {
  static constexpr int arity = N;
  static constexpr std::string_view aten = "", doc = "";
  static constexpr DTypeRule dtype = DTypeRule::kPromote;
  static constexpr int ulps = 0, cost = 1;
  static constexpr unsigned raw_operands = 0;
  /// A number or rank-0 tensor as the second operand keeps its op-math precision in half arithmetic, as eager's kernels
  /// of these operators do; otherwise it is rounded to the common type first.
  static constexpr bool keeps_scalar = false;
  /// The body is not what eager computes on complex numbers.
  static constexpr bool is_real_only = false;
};

/// Result type of a pointwise node by its rule.
std::vector<graph::Type> infer_pointwise(const graph::Node &node, DTypeRule rule, unsigned raw_operands);
/// The import rule of most pointwise overloads.
std::vector<graph::Value *> import_pointwise(GraphBuilder &b, const AtenCall &call, const OpInfo *op, DTypeRule rule,
                                             int arity, bool keeps_scalar, Attributes attributes);

/// x rounded to the node's compute type when that is a half type: some of eager's kernels do so after every step.
inline Expr half_step(Expr x, const graph::Node &node) {
  DType compute = compute_of(node);
  return opmath_of(compute) == compute ? x : cast(cast(x, compute), x.dtype());
}

namespace detail {

template <typename T> Expr pointwise_body(std::span<const Expr> x, const graph::Node &node) {
  return [&]<size_t... I>(std::index_sequence<I...>) {
    if constexpr (requires { T::body(x[I]..., node); })
      return T::body(x[I]..., node);
    else
      return T::body(x[I]...);
  }(std::make_index_sequence<T::arity>());
}

template <typename T> std::vector<graph::Type> pointwise_infer(const graph::Node &node, ExprContext &) {
  return infer_pointwise(node, T::dtype, T::raw_operands);
}

template <typename T> constexpr OpInfo pointwise_info() {
  OpInfo info;
  info.name = T::name;
  info.kind = OpKind::kPointwise;
  info.doc = T::doc;
  info.infer = pointwise_infer<T>;
  info.body = pointwise_body<T>;
  if constexpr (requires { T::check; })
    info.check = T::check;
  info.raw_operands = T::raw_operands;
  info.ulps = T::ulps;
  info.cost = T::cost;
  return info;
}

template <typename T> std::vector<graph::Value *> pointwise_import(GraphBuilder &b, const AtenCall &call) {
  if (T::is_real_only && !call.results.empty() && is_complex(call.results[0].dtype))
    throw UnsupportedError(call.overload + " of complex numbers");
  Attributes attributes;
  if constexpr (requires { T::attributes(call); })
    attributes = T::attributes(call);
  else
    for (size_t i = T::arity; i < call.arguments.size(); ++i)
      if (!call.arguments[i].is_none())
        throw UnsupportedError(call.overload + " with an argument that has no rule");
  return import_pointwise(b, call, op(T::name), T::dtype, T::arity, T::keeps_scalar, std::move(attributes));
}

} // namespace detail

/// The table of a file of declarations.
template <typename... T> struct PointwiseTable {
  static constexpr OpInfo ops[] = {detail::pointwise_info<T>()...};
  static constexpr AtenRule rules[] = {AtenRule{T::aten, &detail::pointwise_import<T>}...};
  static constexpr OpTable table() { return {ops, rules}; }
};

} // namespace oxyfuel
