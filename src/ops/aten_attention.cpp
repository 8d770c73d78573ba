// Scaled dot-product attention and its gradient.
#include <cmath>

#include "ops/compose.h"
#include "ops/table.h"
#include "support/error.h"

namespace oxyfuel {

namespace {

double scale_of(const AtenCall &call, int i, Expr width) {
  if (call.has(i))
    return call.number(i);
  auto size = width.constant();
  if (!size)
    throw UnsupportedError(call.overload + " over heads of unknown width");
  return 1 / std::sqrt(static_cast<double>(*size));
}

/// (q, k, v, dropout_p, is_causal, attn_mask, scale) → out, logsumexp
Values import_attention(GraphBuilder &b, const AtenCall &call) {
  graph::Value *q = call.value(0), *k = call.value(1), *v = call.value(2), *mask = call.value_or_null(5);
  if (call.has(3) && call.number(3) != 0)
    throw UnsupportedError(call.overload + " with dropout");
  graph::Node *node =
      b.make_node("attention", {q, k, v, mask},
                  {{"scale", scale_of(call, 6, q->type.shape.at(3))}, {"causal", call.has(4) && call.boolean(4)}});
  return {node->result(0), node->result(1)};
}

/// Heads of k and v repeated for groups of query heads.
Term repeat_heads(Term x, Expr heads) {
  if (x.size(1) == heads)
    return x;
  auto have = x.size(1).constant(), want = heads.constant();
  if (!have || !want)
    throw UnsupportedError("attention with an unknown number of heads");
  ExprContext &context = x.context();
  Shape apart{x.size(0), x.size(1), context.integer(*want / *have), x.size(2), x.size(3)};
  return x.unsqueeze(2).expand(apart).reshape({x.size(0), heads, x.size(2), x.size(3)});
}

Term sum_heads(Term gradient, Expr heads) {
  if (gradient.size(1) == heads)
    return gradient;
  Expr group = floor_div(gradient.size(1), heads);
  return gradient.reshape({gradient.size(0), heads, group, gradient.size(2), gradient.size(3)}).sum({2}, false);
}

Term product(Term x, Term y) { return {x.b, x.b->matmul(x.value, y.value, x.dtype())}; }

/// (g, q, k, v, out, logsumexp, dropout_p, is_causal, attn_mask, scale) → dq, dk, dv. Probabilities are made again from
/// the logsumexp; P = exp(S - lse), dS = P * (g v^T - sum(g * out)).
Values import_attention_backward(GraphBuilder &b, const AtenCall &call) {
  Term g = wide(b, call.value(0)), q = wide(b, call.value(1)), k = wide(b, call.value(2)), v = wide(b, call.value(3)),
       out = wide(b, call.value(4)), lse = wide(b, call.value(5)).to(g.dtype());
  if (call.has(6) && call.number(6) != 0)
    throw UnsupportedError(call.overload + " with dropout");
  double scale = scale_of(call, 9, q.size(3));
  Expr heads = q.size(1), key_heads = k.size(1), value_heads = v.size(1);
  k = repeat_heads(k, heads), v = repeat_heads(v, heads);
  Term scores = product(q, k.transpose()) * scale;
  if (call.has(8))
    scores = scores + wide(b, call.value(8));
  Term probability = (scores - lse.unsqueeze(3)).apply("exp");
  if (call.has(7) && call.boolean(7)) {
    Term row = numbers(b, q.size(2), 4, 2), column = numbers(b, k.size(2), 4, 3);
    probability = choose(column <= row, probability, probability.like(0));
  }
  Term value_gradient = product(probability.transpose(), g);
  Term row_sum = (g * out).sum({3}, true);
  Term score_gradient = probability * (product(g, v.transpose()) - row_sum) * scale;
  Term query_gradient = product(score_gradient, k), key_gradient = product(score_gradient.transpose(), q);
  return {query_gradient.to(call.results.at(0).dtype).value,
          sum_heads(key_gradient, key_heads).to(call.results.at(1).dtype).value,
          sum_heads(value_gradient, value_heads).to(call.results.at(2).dtype).value};
}

constexpr AtenRule kRules[] = {
    {"aten._scaled_dot_product_flash_attention_for_cpu.default", import_attention},
    {"aten._scaled_dot_product_flash_attention_for_cpu_backward.default", import_attention_backward},
};

} // namespace

OpTable aten_attention() { return {{}, kRules}; }

} // namespace oxyfuel
