// What an attention group computes, the choice of its form, and what both forms share.
#include "passes/lower/attention.h"

#include <cmath>

#include "ops/op.h"
#include "ops/shape.h"
#include "passes/graph/strided.h"
#include "support/error.h"

namespace oxyfuel {

namespace {

int64_t constant_size(Expr size, const char *what) {
  auto constant = size.constant();
  if (!constant)
    throw UnsupportedError(std::string("attention with an unknown ") + what);
  return *constant;
}

AttentionPlan analyse(const graph::Node &group, Evaluator &evaluator) {
  AttentionPlan plan;
  plan.group = &group;
  plan.anchor = anchor_of(group, OpKind::kAttention);
  const graph::Node &node = *plan.anchor.node;
  ExprContext &context = const_cast<graph::Graph &>(region_of(group)).context();
  const graph::Value *q = node.operands[0], *k = node.operands[1], *v = node.operands[2];
  const graph::Value *mask = node.operands.size() > 3 ? node.operands[3] : nullptr;
  plan.batches = q->type.shape[0];
  plan.queries = q->type.shape[2];
  plan.keys = k->type.shape[2];
  plan.heads = constant_size(q->type.shape[1], "number of heads");
  plan.key_heads = constant_size(k->type.shape[1], "number of heads");
  plan.size = constant_size(q->type.shape[3], "head size");
  plan.value_size = constant_size(v->type.shape[3], "head size");
  if (plan.key_heads == 0 || plan.heads % plan.key_heads != 0)
    throw UnsupportedError("attention whose query heads are no multiple of its key heads");
  plan.accumulator = opmath_of(q->type.dtype);
  if (plan.accumulator != DType::kF32 && plan.accumulator != DType::kF64)
    throw UnsupportedError("attention of " + std::string(name_of(q->type.dtype)));
  plan.scale = node.has("scale") ? number_attribute(node, "scale") : 1 / std::sqrt(static_cast<double>(plan.size));
  plan.is_causal = node.get_or<bool>("causal", false);

  auto place = [&](Var *&var, const char *name, Expr extent) {
    var = context.new_var(name, DType::kI64, 0, extent.constant());
    var->upper_expr = extent.node();
    return extent.is_const(1) ? context.integer(0) : context.var(var);
  };
  Expr batch = place(plan.batch, "batch", plan.batches), head = place(plan.head, "head", q->type.shape[1]);
  Expr key_head = place(plan.key_head, "key_head", k->type.shape[1]), query = place(plan.query, "query", plan.queries);
  plan.key = context.new_var("key", DType::kI64, 0), plan.element = context.new_var("e", DType::kI64, 0);
  Expr key = context.var(plan.key), element = context.var(plan.element);
  plan.q = evaluator.element(q, std::vector<Expr>{batch, head, query, element});
  plan.k = evaluator.element(k, std::vector<Expr>{batch, key_head, key, element});
  plan.v = evaluator.element(v, std::vector<Expr>{batch, key_head, key, element});
  if (mask)
    plan.mask = evaluator.element(mask, broadcast_index(mask->type.shape, std::vector<Expr>{batch, head, query, key}));
  if (!evaluator.take_checks().empty())
    throw UnsupportedError("attention whose operands are computed at checked places");

  auto flat = [&](int i, std::vector<Expr> index) {
    if (plan.anchor.result(i) < 0)
      return Expr();
    const graph::Value &result = *group.result(plan.anchor.result(i));
    return flat_index(context, result.type, result.layout, index);
  };
  plan.out_index = flat(0, {batch, head, query, element});
  plan.logsumexp_index = flat(1, {batch, head, query});
  if (plan.out_index.is_empty())
    throw UnsupportedError("attention of which only the logsumexp is used");
  return plan;
}

/// Read as it lies: a plain load, elements of the head side by side when `is_dense`.
bool can_read(const AttentionPlan &plan, Expr operand, bool is_dense) {
  return operand.kind() == ExprKind::kLoad && operand->operand_count == 1 &&
         (!is_dense || stride_in(operand.operand(0), plan.element) == 1) &&
         graph::stride_along(operand.operand(0), plan.key).has_value() &&
         graph::stride_along(operand.operand(0), plan.element).has_value();
}

AttentionProblem describe(const AttentionPlan &plan) {
  AttentionProblem problem;
  problem.heads = plan.key_heads * hint_of(plan.batches).value_or(1);
  problem.group = plan.shared();
  problem.queries = hint_of(plan.queries).value_or(128);
  problem.keys = hint_of(plan.keys).value_or(512);
  problem.size = plan.size;
  problem.value_size = plan.value_size;
  problem.has_static_queries = plan.queries.is_const();
  problem.has_static_keys = plan.keys.is_const();
  problem.is_causal = plan.is_causal;
  problem.can_read_keys = can_read(plan, plan.k, false);
  problem.can_read_values = can_read(plan, plan.v, true);
  problem.is_narrow = plan.k.dtype() != plan.accumulator || plan.v.dtype() != plan.accumulator;
  problem.has_unit_key_stride = can_read(plan, plan.k, true);
  problem.accumulator_bytes = static_cast<int>(size_of(plan.accumulator));
  return problem;
}

} // namespace

void AttentionKernel::lanes(Expr first, Expr count, const std::function<void(Expr)> &f) {
  Expr width = integer(width_), extent = count ? min(width, count - first) : width;
  if (auto known = extent.constant(); known && *known <= 0)
    return;
  b_.vector("v", extent, width_, [&](Expr lane) { f(first + lane); });
}

AttentionKernel::Source AttentionKernel::source(Expr operand, const VarMap &at) {
  Expr element = frame_.emit(operand, at);
  OXYFUEL_CHECK(element.kind() == ExprKind::kLoad, "an operand of attention that does not lie in memory");
  return {element.buffer(), element.operand(0)};
}

void AttentionKernel::copy_rows(Expr operand, int64_t size, int64_t stride, const VarMap &at, Expr first_key,
                                Expr count, const Buffer *into) {
  b_.serial("row", integer(0), count, 1, [&](Expr row) {
    VarMap here = with(at, plan_.key, first_key + row);
    for (int64_t first = 0; first < size; first += width_)
      lanes(integer(first), integer(size), [&](Expr e) {
        b_.store(into, row * stride + e, wide(frame_.emit(operand, with(here, plan_.element, e))));
      });
  });
}

Expr AttentionKernel::masked(Expr score, const VarMap &at) {
  if (plan_.mask) {
    Expr mask = frame_.emit(plan_.mask, at);
    score = is_bool(mask.dtype()) ? select(mask, score, real(-INFINITY)) : score + wide(mask);
  }
  if (plan_.is_causal)
    score = select(at.at(plan_.key) <= at.at(plan_.query), score, real(-INFINITY));
  return score;
}

LoweredGroup lower_attention(const graph::Node &group, const Machine &machine) {
  Evaluator evaluator(region_of(group));
  AttentionPlan plan = analyse(group, evaluator);
  AttentionSchedule schedule = choose(describe(plan), machine);
  LoweredGroup lowered;
  if (schedule.is_rows)
    emit_attention_rows(plan, schedule, evaluator, lowered);
  else
    emit_attention_blocks(plan, schedule, evaluator, lowered);
  lowered.schedule = schedule.text();
  return lowered;
}

} // namespace oxyfuel
