#include "passes/graph/simplify_pointwise.h"

#include <cmath>
#include <optional>

#include "ops/op.h"

namespace oxyfuel::graph {

namespace {

bool is_view_of_all(const Node &node) {
  std::string_view name = node.op->name;
  return name == "expand" || name == "reshape" || name == "permute";
}

/// The constant of rank 0 whose value every element of `value` has, or null.
const Node *constant_behind(const Value *value) {
  while (value->producer && is_view_of_all(*value->producer))
    value = value->producer->operands[0];
  return value->producer && value->producer->op->name == "constant" ? value->producer : nullptr;
}

/// The number that a constant node holds; empty for complex ones.
std::optional<double> number_of(const Node *constant) {
  if (!constant)
    return std::nullopt;
  auto at = constant->attributes.find("value");
  if (at == constant->attributes.end())
    return std::nullopt;
  if (auto integer = std::get_if<int64_t>(&at->second))
    return static_cast<double>(*integer);
  if (auto boolean = std::get_if<bool>(&at->second))
    return *boolean;
  if (auto real = std::get_if<double>(&at->second))
    return *real;
  return std::nullopt;
}

bool is_number(const Value *value, double wanted) {
  std::optional<double> number = number_of(constant_behind(value));
  return number && *number == wanted && std::signbit(*number) == std::signbit(wanted);
}

/// Whether `value` can stand for the node's result as far as its type goes.
bool has_result_type(const Value *value, const Node &node) {
  return value->type.dtype == node.result()->type.dtype && value->type.shape == node.result()->type.shape;
}

/// No attribute changes the plain meaning of the operator, and its arithmetic keeps operands as they are.
bool is_plain(const Node &node) {
  for (const auto &[name, attribute] : node.attributes)
    if (name != "compute" && name != "dtype")
      return false;
  DType dtype = node.result()->type.dtype, compute = compute_of(node);
  return dtype == compute || is_exact_cast(dtype, compute);
}

Value *simplify_algebra(Node &node) {
  std::string_view name = node.op->name;
  if (!is_plain(node))
    return nullptr;
  auto keep = [&](int i) { return has_result_type(node.operands[i], node) ? node.operands[i] : nullptr; };
  bool is_floating = is_float(node.result()->type.dtype);
  if (node.operands.size() == 2 && node.operands[0] && node.operands[1]) {
    if (is_complex(node.result()->type.dtype))
      return nullptr;
    if (name == "mul" || name == "div") {
      if (is_number(node.operands[1], 1))
        if (Value *value = keep(0))
          return value;
      if (name == "mul" && is_number(node.operands[0], 1))
        return keep(1);
    }
    if (name == "sub" && is_number(node.operands[1], 0))
      return keep(0);
    // In floating point only -0 is neutral: -0 + 0 is 0.
    if (name == "add") {
      double neutral = is_floating ? -0.0 : 0.0;
      if (is_number(node.operands[1], neutral))
        if (Value *value = keep(0))
          return value;
      if (is_number(node.operands[0], neutral))
        return keep(1);
    }
  }
  if (name == "neg" || name == "logical_not" || name == "bitwise_not") {
    Node *inner = node.operands[0]->producer;
    if (inner && inner->op == node.op && is_plain(*inner) &&
        (name != "logical_not" || is_bool(inner->operands[0]->type.dtype)) &&
        has_result_type(inner->operands[0], node) && inner->result()->type.dtype == node.result()->type.dtype)
      return inner->operands[0];
  }
  if (name == "relu" || name == "abs") {
    Node *inner = node.operands[0]->producer;
    if (inner && inner->op == node.op && has_result_type(node.operands[0], node))
      return node.operands[0];
  }
  if (name == "where" && node.operands[1] == node.operands[2])
    return keep(1);
  return nullptr;
}

Value *simplify_cast(Graph &graph, Node &node) {
  Value *x = node.operands[0];
  DType to = node.result()->type.dtype;
  if (x->type.dtype == to)
    return x;
  Node *inner = x->producer;
  if (!inner || inner->op->name != "cast" || !x->layout.strides.empty())
    return nullptr;
  Value *origin = inner->operands[0];
  DType from = origin->type.dtype, between = x->type.dtype;
  // float64 to a small integer saturates at other places than float32 does, so that step stays.
  bool same_overflow = !is_float(from) || !is_integer(to) || between == opmath_of(from);
  if (!is_exact_cast(from, between) || !same_overflow)
    return nullptr;
  if (from == to)
    return origin;
  Node *made = graph.add_typed(node.op, {origin}, node.attributes, {node.result()->type}, &node);
  made->location = node.location;
  return made->result();
}

/// The constant that an operand of rank 0 is, as an expression.
Expr constant_expression(ExprContext &context, const Value *operand) {
  const Node *producer = operand->producer;
  if (!producer || operand->type.rank() != 0)
    return {};
  if (producer->op->name != "constant" || is_complex(operand->type.dtype))
    return {};
  return element_of(context, *producer, {}, [](int, std::span<const Expr>, Expr) -> Expr { return {}; });
}

/// A node of rank 0 whose operands are all constants.
Value *fold_constants(Graph &graph, Node &node) {
  const Type &type = node.result()->type;
  bool is_foldable = node.op->kind == OpKind::kPointwise || is_view_of_all(node) || node.op->name == "size_value";
  if (!is_foldable || type.rank() != 0 || is_complex(type.dtype))
    return nullptr;
  ExprContext &context = graph.context();
  std::vector<Expr> values;
  for (const Value *operand : node.operands) {
    Expr value = operand ? constant_expression(context, operand) : Expr();
    if (operand && value.is_empty())
      return nullptr;
    values.push_back(value);
  }
  auto read = [&](int i, std::span<const Expr>, Expr) { return values[i]; };
  if (Expr condition = check_of(context, node, {}, read); condition && !condition.is_const(1))
    return nullptr;
  Expr folded = element_of(context, node, {}, read);
  if (folded.is_empty() || !folded.is_const() || folded.dtype() != type.dtype)
    return nullptr;
  Attribute value = is_float(type.dtype) ? Attribute(folded->real) : Attribute(folded->integer);
  Node *made = graph.add_typed(op("constant"), {}, {{"dtype", type.dtype}, {"value", value}}, {type}, &node);
  made->location = node.location;
  return made->result();
}

} // namespace

bool is_exact_cast(DType from, DType to) {
  if (from == to || is_bool(from))
    return true;
  if (is_bool(to))
    return false;
  auto mantissa_bits = [](DType t) {
    return t == DType::kF16 ? 11 : t == DType::kBF16 ? 8 : t == DType::kF32 || t == DType::kC64 ? 24 : 53;
  };
  if (is_complex(from))
    return to == DType::kC128;
  if (is_float(from)) {
    if (is_complex(to))
      return is_exact_cast(from, real_of(to));
    return is_float(to) && mantissa_bits(to) > mantissa_bits(from) && opmath_of(to) == to;
  }
  int bits = static_cast<int>(8 * oxyfuel::size_of(from)) - (is_signed_integer(from) ? 1 : 0);
  if (is_integer(to)) {
    int to_bits = static_cast<int>(8 * oxyfuel::size_of(to)) - (is_signed_integer(to) ? 1 : 0);
    return to_bits >= bits && (is_signed_integer(to) || !is_signed_integer(from));
  }
  return mantissa_bits(to) >= bits;
}

Value *simplify_pointwise(Graph &graph, Node &node) {
  if (node.op->name == "cast")
    if (Value *value = simplify_cast(graph, node))
      return value;
  if (node.op->kind == OpKind::kPointwise)
    if (Value *value = simplify_algebra(node))
      return value;
  return fold_constants(graph, node);
}

bool drop_broadcasts(Graph &graph, Node &node) {
  if (node.op->kind != OpKind::kPointwise || !node.op->infer)
    return false;
  bool changed = false;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    Value *operand = node.operands[i];
    if (!operand || !operand->producer || operand->producer->op->name != "expand")
      continue;
    Node draft;
    draft.op = node.op;
    draft.operands = node.operands;
    draft.operands[i] = operand->producer->operands[0];
    draft.attributes = node.attributes;
    const Type wanted = node.result()->type;
    const Type inferred = node.op->infer(draft, graph.context())[0];
    if (inferred.dtype != wanted.dtype || inferred.shape != wanted.shape)
      continue;
    // Ranks take part in type promotion, which decides the type of the arithmetic where no attribute does.
    draft.results.push_back(std::make_unique<Value>());
    draft.result()->type = wanted;
    if (compute_of(draft) != compute_of(node))
      continue;
    graph.set_operand(&node, static_cast<int>(i), draft.operands[i]);
    changed = true;
  }
  return changed;
}

} // namespace oxyfuel::graph
