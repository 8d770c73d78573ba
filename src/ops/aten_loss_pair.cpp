// Losses of pairs (input, target), element by element. Formulas follow ATen/native/Loss.cpp and
// cpu/BinaryOpsKernel.cpp.
#include "ops/loss.h"
#include "ops/pointwise.h"

namespace oxyfuel {

namespace {

/// Eager raises for inputs that are no probabilities.
Expr is_probability(ExprContext &, const graph::Node &node, std::span<const Expr> index, const ReadOperand &read) {
  Expr x = read(0, broadcast_index(node.operands[0]->type.shape, index), {});
  return x.like(0) <= x && x <= x.like(1);
}

struct BinaryCrossEntropy : Pointwise<2> {
  static constexpr std::string_view name = "binary_cross_entropy",
                                    doc = "-(y log x + (1 - y) log(1 - x)), logarithms at least -100; x in [0, 1]";
  static constexpr int ulps = 4, cost = 40;
  static constexpr auto check = is_probability;
  static auto body(auto x, auto y) {
    auto least = x.like(-100), of_x = log(x), of_rest = log1p(-x);
    return (y - x.like(1)) * select(of_rest < least, least, of_rest) - y * select(of_x < least, least, of_x);
  }
};

/// Two operands in op-math precision.
struct Pair {
  Term x, y;
};

Pair pair_of(GraphBuilder &b, const AtenCall &call, int i) {
  return {wide(b, call.value(i)), wide(b, call.value(i + 1))};
}

graph::Value *finish(const AtenCall &call, Term t) { return t.to(call.results.at(0).dtype).value; }

Term distance(const Pair &pair) { return (pair.x - pair.y).apply("abs"); }

/// smooth_l1_loss(x, y, reduction, beta): quadratic closer than beta, and linear beyond.
Values import_smooth_l1(GraphBuilder &b, const AtenCall &call) {
  Term z = distance(pair_of(b, call, 0));
  double beta = call.number(3);
  if (beta == 0)
    return reduced_loss(call, z, 2);
  return reduced_loss(call, choose(z < z.like(beta), z * z * 0.5 / beta, z - 0.5 * beta), 2);
}

/// (g, x, y, reduction, beta)
Values import_smooth_l1_backward(GraphBuilder &b, const AtenCall &call) {
  Pair pair = pair_of(b, call, 1);
  Term g = share_of_gradient(call, wide(b, call.value(0)), pair.x.shape(), 3), difference = pair.x - pair.y;
  double beta = call.number(4);
  Term inside = difference * g / beta;
  Term slope = choose(difference <= difference.like(-beta), -g.expand(difference.shape()),
                      choose(difference >= difference.like(beta), g.expand(difference.shape()), inside));
  return {finish(call, slope)};
}

/// huber_loss(x, y, reduction, delta)
Values import_huber(GraphBuilder &b, const AtenCall &call) {
  Term z = distance(pair_of(b, call, 0));
  double delta = call.number(3);
  return reduced_loss(call, choose(z <= z.like(delta), z * z * 0.5, (z - 0.5 * delta) * delta), 2);
}

/// (g, x, y, reduction, delta)
Values import_huber_backward(GraphBuilder &b, const AtenCall &call) {
  Pair pair = pair_of(b, call, 1);
  Term g = share_of_gradient(call, wide(b, call.value(0)), pair.x.shape(), 3), difference = pair.x - pair.y;
  double delta = call.number(4);
  Term steep = (g * delta).expand(difference.shape());
  return {finish(call, choose(difference <= difference.like(-delta), -steep,
                              choose(difference >= difference.like(delta), steep, difference * g)))};
}

/// binary_cross_entropy(x, y, weight, reduction)
Values import_cross_entropy(GraphBuilder &b, const AtenCall &call) {
  Pair pair = pair_of(b, call, 0);
  Term loss = combine("binary_cross_entropy", pair.x, pair.y);
  if (call.has(2))
    loss = loss * wide(b, call.value(2));
  return reduced_loss(call, loss, 3);
}

/// (g, x, y, weight, reduction)
Values import_cross_entropy_backward(GraphBuilder &b, const AtenCall &call) {
  Pair pair = pair_of(b, call, 1);
  Term g = wide(b, call.value(0)), x = pair.x;
  Term variance = (x.like(1) - x) * x;
  Term slope = g * (x - pair.y) / combine("maximum", variance, x.like(1e-12));
  if (call.has(3))
    slope = slope * wide(b, call.value(3));
  return {finish(call, share_of_gradient(call, slope, x.shape(), 4))};
}

/// binary_cross_entropy_with_logits(x, y, weight, pos_weight, reduction)
Values import_cross_entropy_of_logits(GraphBuilder &b, const AtenCall &call) {
  Pair pair = pair_of(b, call, 0);
  Term x = pair.x, y = pair.y, log_sigmoid = x.apply("log_sigmoid");
  if (call.has(3))
    log_sigmoid = log_sigmoid * ((wide(b, call.value(3)) - 1) * y + 1);
  Term loss = (y.like(1) - y) * x - log_sigmoid;
  if (call.has(2))
    loss = loss * wide(b, call.value(2));
  return reduced_loss(call, loss, 4);
}

/// soft_margin_loss(x, y, reduction): log(1 + exp(-x y))
Values import_soft_margin(GraphBuilder &b, const AtenCall &call) {
  Pair pair = pair_of(b, call, 0);
  return reduced_loss(call, (-(pair.y * pair.x)).apply("exp").apply("log1p"), 2);
}

/// (g, x, y, reduction)
Values import_soft_margin_backward(GraphBuilder &b, const AtenCall &call) {
  Pair pair = pair_of(b, call, 1);
  Term g = share_of_gradient(call, wide(b, call.value(0)), pair.x.shape(), 3);
  Term z = (-(pair.y * pair.x)).apply("exp");
  return {finish(call, -(pair.y * z / (z + 1) * g))};
}

/// multi_margin_loss(x, target, p, margin, weight, reduction): the sum over all other classes of how far their score
/// comes closer than margin to that of the target, to the power p (1 or 2), divided by the number of classes
Values import_multi_margin(GraphBuilder &b, const AtenCall &call) {
  Term x = wide(b, call.value(0)), target = term(b, call.value(1));
  ExprContext &context = b.context();
  x = x.rank() == 2 ? x : x.reshape({context.integer(1), graph::element_count(context, x.shape())});
  target = target.reshape({graph::element_count(context, target.shape()), context.integer(1)});
  Term own = {&b, b.make("gather", {x.value, target.value}, {{"axis", int64_t(1)}})};
  Term z = own.like(call.number(3)) - own + x;
  Term loss = choose(equal(numbers(b, x.size(1), 2, 1), target), z.like(0), combine("maximum", z, z.like(0)));
  if (call.number(2) == 2)
    loss = loss * loss;
  if (call.has(4))
    loss = loss * wide(b, b.make("index_select", {call.value(4), target.value}, {{"axis", int64_t(0)}}));
  loss = loss.sum({1}, false) / count(b, x.shape(), {1}, loss.dtype());
  return reduced_loss(call, call.value(1)->type.rank() == 0 ? loss.reshape({}) : loss, 5);
}

constexpr AtenRule kRules[] = {
    {"aten.smooth_l1_loss.default", import_smooth_l1},
    {"aten.smooth_l1_loss_backward.default", import_smooth_l1_backward},
    {"aten.huber_loss.default", import_huber},
    {"aten.huber_loss_backward.default", import_huber_backward},
    {"aten.binary_cross_entropy.default", import_cross_entropy},
    {"aten.binary_cross_entropy_backward.default", import_cross_entropy_backward},
    {"aten.binary_cross_entropy_with_logits.default", import_cross_entropy_of_logits},
    {"aten.soft_margin_loss.default", import_soft_margin},
    {"aten.soft_margin_loss_backward.default", import_soft_margin_backward},
    {"aten.multi_margin_loss.default", import_multi_margin},
};

} // namespace

OpTable aten_loss_pair() { return {PointwiseTable<BinaryCrossEntropy>::ops, kRules}; }

} // namespace oxyfuel
