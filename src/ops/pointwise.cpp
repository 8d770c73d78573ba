// Type rule, elements and import of pointwise operators.
#include "ops/pointwise.h"

#include "ops/promote.h"
#include "support/error.h"

namespace oxyfuel {

namespace {

/// Promoted type of the operands that are computed with.
DType operand_type(const graph::Node &node) {
  Promotion promotion;
  bool is_any = false;
  for (size_t i = 0; i < node.operands.size(); ++i)
    if (node.operands[i] && !(node.op->raw_operands >> i & 1)) {
      promotion.add_tensor(node.operands[i]->type);
      is_any = true;
    }
  return is_any ? promotion.result() : DType::kBool;
}

DType rule_result(DTypeRule rule, DType compute) {
  switch (rule) {
  case DTypeRule::kFloat: return is_float(compute) || is_complex(compute) ? compute : DType::kF32;
  case DTypeRule::kBool: return DType::kBool;
  case DTypeRule::kReal: return real_of(compute);
  default: return compute;
  }
}

/// True when casting to `half` first and to its op-math type after differs from casting to the latter at once.
bool loses_bits(DType from, DType half) {
  return opmath_of(half) != half && from != half && !is_bool(from) && size_of(from) > 1;
}

/// Builds the body once on variables: the functions that have no complex form throw UnsupportedError.
void require_complex_form(const OpInfo &info, const std::vector<graph::Value *> &operands, DType compute,
                          const Attributes &attributes) {
  graph::Graph graph;
  graph::Node *node = graph.add_typed(&info, {}, attributes, {graph::Type{compute, {}}});
  std::vector<Expr> values;
  for (size_t i = 0; i < operands.size(); ++i)
    values.push_back(graph.context().var(
        graph.context().new_var("x", info.raw_operands >> i & 1 ? operands[i]->type.dtype : compute)));
  info.body(values, *node);
}

DType number_type(const AtenArgument &argument) {
  if (std::holds_alternative<bool>(argument.data))
    return DType::kBool;
  if (std::holds_alternative<double>(argument.data))
    return DType::kF32;
  if (std::holds_alternative<std::complex<double>>(argument.data))
    return DType::kC64;
  return DType::kI64;
}

} // namespace

std::vector<graph::Type> infer_pointwise(const graph::Node &node, DTypeRule rule, unsigned) {
  graph::Type type;
  for (const graph::Value *operand : node.operands) {
    if (!operand)
      bad_operands(node, "all of its operands");
    type.shape = broadcast(type.shape, operand->type.shape);
  }
  DType compute = node.has("compute") ? node.get<DType>("compute") : operand_type(node);
  type.dtype = node.has("dtype") ? node.get<DType>("dtype") : rule_result(rule, compute);
  return {type};
}

DType compute_of(const graph::Node &node) {
  if (node.has("compute"))
    return node.get<DType>("compute");
  DType result = node.result()->type.dtype;
  DType operands = operand_type(node);
  return is_bool(result) || (is_complex(operands) && !is_complex(result)) ? operands : result;
}

Expr element_of(ExprContext &context, const graph::Node &node, std::span<const Expr> index, const ReadOperand &read) {
  const OpInfo &op = *node.op;
  if (op.element)
    return op.element(context, node, index, read);
  OXYFUEL_CHECK(op.body, "no element rule for " + std::string(op.name));
  DType compute = opmath_of(compute_of(node));
  std::vector<Expr> operands(node.operands.size());
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!node.operands[i])
      continue;
    std::vector<Expr> at = broadcast_index(node.operands[i]->type.shape, index);
    operands[i] = read(static_cast<int>(i), at, {});
    if (!(op.raw_operands >> i & 1) && operands[i].dtype() != compute)
      operands[i] = cast(operands[i], compute);
  }
  Expr value = op.body(operands, node);
  DType result = node.result()->type.dtype;
  return value.dtype() == result ? value : cast(value, result);
}

Expr check_of(ExprContext &context, const graph::Node &node, std::span<const Expr> index, const ReadOperand &read) {
  return node.op->check ? node.op->check(context, node, index, read) : Expr();
}

std::vector<graph::Value *> import_pointwise(GraphBuilder &b, const AtenCall &call, const OpInfo *op, DTypeRule rule,
                                             int arity, bool keeps_scalar, Attributes attributes) {
  if (call.results.size() != 1)
    throw UnsupportedError(call.overload + " with several results");
  DType result = call.results[0].dtype;
  auto is_raw = [&](int i) { return op->raw_operands >> i & 1; };
  Promotion promotion;
  for (int i = 0; i < arity; ++i) {
    if (is_raw(i))
      continue;
    if (graph::Value *value = call.tensor_or_null(i))
      promotion.add_tensor(value->type);
    else
      promotion.add_number(number_type(call.arguments.at(i)));
  }
  DType compute = result;
  if (rule == DTypeRule::kBool || (rule == DTypeRule::kReal && is_complex(promotion.result())))
    compute = promotion.result();
  std::vector<graph::Value *> operands;
  for (int i = 0; i < arity; ++i) {
    graph::Value *value = call.tensor_or_null(i);
    bool is_kept = keeps_scalar && i == 1 && (!value || value->type.rank() == 0);
    if (is_raw(i)) {
      value = call.value(i);
    } else if (!value) {
      value = b.number(call.arguments[i], compute);
      if (!is_kept && loses_bits(value->type.dtype, compute))
        value = b.cast(value, compute);
    } else if (!is_kept && loses_bits(value->type.dtype, compute)) {
      value = b.cast(value, compute);
    }
    operands.push_back(value);
  }
  return {b.pointwise(op->name, std::move(operands), compute, result, std::move(attributes))};
}

graph::Value *GraphBuilder::pointwise(std::string_view name, std::vector<graph::Value *> operands, DType compute,
                                      DType result, Attributes attributes) {
  const OpInfo *info = op(name);
  if (is_complex(compute))
    require_complex_form(*info, operands, compute, attributes);
  graph::Node draft;
  draft.op = info;
  draft.operands = operands;
  draft.attributes = attributes;
  // Types are written down only where the rule would not find them by itself.
  if (compute != result || operand_type(draft) != compute)
    draft.attributes["compute"] = compute;
  if (info->infer(draft, context())[0].dtype != result)
    draft.attributes["dtype"] = result;
  return make(name, std::move(operands), std::move(draft.attributes));
}

} // namespace oxyfuel
