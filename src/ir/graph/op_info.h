// What Graph IR knows of an operator. The operators themselves are in ops/, which fills these in.
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
  kIndexed,     // an element is computed from elements at computed places (gather, concat, pad, iota, window maps):
                // `element`
  kReduction,   // folds axes: `reduction`
  kContraction, // matmul, convolution: passes/lower/contraction
  kAttention,
  kScatter, // base with elements replaced or combined at computed places
  kScan,    // running fold along an axis (cumsum, …)
  kSort,
  kRegion, // holds graphs: group, cond, while, recurrence
  kExtern, // runs in PyTorch; order among externs with effects is kept
};

/// Reads element `index` of operand `operand` as an expression of the operand's dtype. `mask` (optional, bool): where
/// false the memory is not touched and the value is zero.
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
  /// kPointwise: operands arrive cast to the op-math type of the node's compute dtype (`compute_of`); the result is
  /// cast to the node's dtype by the caller.
  Expr (*body)(std::span<const Expr> operands, const graph::Node &node) = nullptr;
  /// kView, kIndexed (kPointwise: made from body by `element_of`): element `index` of the result. `context` is the
  /// graph's, in which `index` is built too.
  Expr (*element)(ExprContext &context, const graph::Node &node, std::span<const Expr> index,
                  const ReadOperand &read) = nullptr;
  const ReductionRule *reduction = nullptr;
  /// Condition that must hold for element `index` of result 0, else the program raises (an index out of range, an
  /// integer division by zero); empty when nothing can go wrong. `element` and `body` stay memory-safe without it. For
  /// kScatter `index` is that of the update. Null: no condition.
  Expr (*check)(ExprContext &context, const graph::Node &node, std::span<const Expr> index,
                const ReadOperand &read) = nullptr;
  /// kPointwise: bit i set: operand i arrives in its own dtype, not in the op-math type (a condition, a cast's
  /// operand).
  unsigned raw_operands = 0;
  int ulps = 0;            ///< accuracy in float32 against the exact value, 0: exact or correctly rounded
  int cost = 1;            ///< of one element in units of an addition; drives recomputation choices
  bool has_effect = false; ///< never dropped, order kept
};

} // namespace oxyfuel
