// What an operator is: the one source of truth for import, type inference, lowering, interpretation, tests and docs.
//
// An operator of Graph IR is one OpInfo, declared in the file of its kind in ops/. ATen overloads map to Graph IR through
// AtenRule entries (import.h), beside the operators that they make. Tables are plain arrays, joined in table.cpp.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "ir/graph/graph.h"

namespace oxyfuel {

enum class OpKind : uint8_t {
  kPointwise,   // one element of each operand (broadcast) gives one element: `body`
  kView,        // an element is one element of operand 0: `element`; moves nothing by itself
  kIndexed,     // an element is computed from elements at computed places (gather, concat, pad, iota, window maps): `element`
  kReduction,   // folds axes: `reduction`
  kContraction, // matmul, convolution: passes/lower/contraction
  kAttention,
  kScatter,     // base with elements replaced or combined at computed places
  kScan,        // running fold along an axis (cumsum, …)
  kSort,
  kRegion,      // holds graphs: group, cond, while, recurrence
  kExtern,      // runs in PyTorch; order among externs with effects is kept
};

/// Reads element `index` of operand `operand` as an expression of the operand's dtype. `mask` (optional, bool): where false the
/// memory is not touched and the value is zero.
using ReadOperand = std::function<Expr(int operand, std::span<const Expr> index, Expr mask)>;

/// How a reduction folds. The accumulator has the type `accumulator_of(node)`.
struct ReductionRule {
  Expr (*identity)(ExprContext &, DType accumulator);
  Expr (*combine)(Expr accumulator, Expr element); ///< associative; element already of the accumulator's type
  /// For argmax / argmin: folds (value, position) pairs; `better(a, b)`: b replaces a. Null otherwise.
  Expr (*better)(Expr value, Expr candidate) = nullptr;
};

struct OpInfo {
  std::string_view name;
  OpKind kind = OpKind::kPointwise;
  std::string_view doc;
  /// Types of the results. Throws CompileError. Null: the node is made with given types (add_typed).
  std::vector<graph::Type> (*infer)(const graph::Node &node, ExprContext &context) = nullptr;
  /// kPointwise: operands arrive cast to the op-math type of the node's compute dtype (`compute_of`); the result is cast to
  /// the node's dtype by the caller.
  Expr (*body)(std::span<const Expr> operands, const graph::Node &node) = nullptr;
  /// kView, kIndexed (kPointwise: made from body by `element_of`): element `index` of the result.
  Expr (*element)(const graph::Node &node, std::span<const Expr> index, const ReadOperand &read) = nullptr;
  const ReductionRule *reduction = nullptr;
  int ulps = 0;             ///< accuracy in float32 against the exact value, 0: exact or correctly rounded
  int cost = 1;             ///< of one element in units of an addition; drives recomputation choices
  bool has_effect = false;  ///< never dropped, order kept
};

/// Element `index` of result 0 of a pointwise, view or indexed node, in the result's dtype.
Expr element_of(const graph::Node &node, std::span<const Expr> index, const ReadOperand &read);
/// Pointwise: the dtype that operands are promoted to (attribute "compute", else the result's).
DType compute_of(const graph::Node &node);
/// Reductions: the accumulator's dtype (attribute "accumulator", else the op-math type of the result).
DType accumulator_of(const graph::Node &node);

/// The operator of that name, or null.
const OpInfo *find_op(std::string_view name);
/// The same, InternalError when there is none.
const OpInfo *op(std::string_view name);
std::vector<const OpInfo *> all_ops();

} // namespace oxyfuel
