// What an operator is: the one source of truth for import, type inference, lowering, interpretation, tests and docs.
//
// An operator of Graph IR is one OpInfo (ir/graph/op_info.h), declared in the file of its kind in ops/. ATen overloads
// map to Graph IR through AtenRule entries (import.h), beside the operators that they make. Tables are plain arrays,
// joined in table.cpp.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/graph/op_info.h"

namespace oxyfuel {

/// Element `index` of result 0 of a pointwise, view or indexed node, in the result's dtype. `context` is the graph's.
Expr element_of(ExprContext &context, const graph::Node &node, std::span<const Expr> index, const ReadOperand &read);
/// The condition that must hold for that element (OpInfo::check); empty when there is none.
Expr check_of(ExprContext &context, const graph::Node &node, std::span<const Expr> index, const ReadOperand &read);
/// Pointwise: the dtype that operands are promoted to (attribute "compute", else the result's).
DType compute_of(const graph::Node &node);
/// Reductions: the accumulator's dtype (attribute "accumulator", else the op-math type of the result).
DType accumulator_of(const graph::Node &node);

/// The operator of that name, or null.
const OpInfo *find_op(std::string_view name);
/// The same, InternalError when there is none.
const OpInfo *op(std::string_view name);
std::vector<const OpInfo *> all_ops();

namespace graph {
/// Parses one graph whose operators are those of the table. Throws CompileError with line and column.
std::unique_ptr<Graph> parse(const std::string &text);
} // namespace graph

} // namespace oxyfuel
