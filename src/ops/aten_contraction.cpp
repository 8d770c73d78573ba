// Matrix products and what eager fuses with them. Products of half types are summed in float32 and rounded once, after
// the addition of `input` where there is one.
#include "ops/compose.h"
#include "ops/table.h"
#include "support/error.h"

namespace oxyfuel {

namespace {

DType result_of(const AtenCall &call) { return call.results.at(0).dtype; }

/// beta * input + alpha * product, rounded to the result's type.
graph::Value *accumulate(GraphBuilder &b, const AtenCall &call, Term product, int input, int beta, int alpha) {
  auto factor = [&](int i) { return call.has(i) ? call.number(i) : 1.0; };
  if (factor(alpha) != 1)
    product = product * factor(alpha);
  // A zero beta ignores what is in the input, NaN too.
  if (factor(beta) != 0) {
    Term added = term(b, call.value(input)).to(product.dtype());
    if (factor(beta) != 1)
      added = added * factor(beta);
    product = product + added;
  }
  return b.expand(product.to(result_of(call)).value, call.results[0].shape);
}

Term product(GraphBuilder &b, graph::Value *x, graph::Value *y, DType result) {
  return {&b, b.matmul(x, y, opmath_of(result))};
}

Values import_mm(GraphBuilder &b, const AtenCall &call) {
  if (call.has(2))
    throw UnsupportedError(call.overload + " with an output type");
  return {b.matmul(call.value(0), call.value(1), result_of(call))};
}

Values import_addmm(GraphBuilder &b, const AtenCall &call) {
  return {accumulate(b, call, product(b, call.value(1), call.value(2), result_of(call)), 0, 3, 4)};
}

/// The sum over the batch too: the batch becomes part of the inner axis.
Values import_addbmm(GraphBuilder &b, const AtenCall &call) {
  Term x = term(b, call.value(1)), y = term(b, call.value(2));
  Term wide_x = x.permute({1, 0, 2}).reshape({x.size(1), x.size(0) * x.size(2)});
  Term tall_y = y.reshape({y.size(0) * y.size(1), y.size(2)});
  return {accumulate(b, call, product(b, wide_x.value, tall_y.value, result_of(call)), 0, 3, 4)};
}

graph::Value *column(GraphBuilder &b, graph::Value *x) { return b.unsqueeze(x, 1); }

Values import_mv(GraphBuilder &b, const AtenCall &call) {
  return {b.squeeze(b.matmul(call.value(0), column(b, call.value(1)), result_of(call)), 1)};
}

Values import_addmv(GraphBuilder &b, const AtenCall &call) {
  Term result = product(b, call.value(1), column(b, call.value(2)), result_of(call)).squeeze(1);
  return {accumulate(b, call, result, 0, 3, 4)};
}

Values import_dot(GraphBuilder &b, const AtenCall &call) {
  graph::Value *x = b.unsqueeze(call.value(0), 0);
  return {b.reshape(b.matmul(x, column(b, call.value(1)), result_of(call)), {})};
}

Values import_addr(GraphBuilder &b, const AtenCall &call) {
  DType type = opmath_of(result_of(call));
  Term x = term(b, call.value(1)).to(type).unsqueeze(1), y = term(b, call.value(2)).to(type).unsqueeze(0);
  return {accumulate(b, call, x * y, 0, 3, 4)};
}

/// numpy's matmul: vectors become matrices, batches broadcast.
Term general_product(GraphBuilder &b, Term x, Term y, DType result) {
  bool is_vector_x = x.rank() == 1, is_vector_y = y.rank() == 1;
  x = is_vector_x ? x.unsqueeze(0) : x;
  y = is_vector_y ? y.unsqueeze(1) : y;
  // A plain matrix on the right takes all rows of the left at once.
  if (y.rank() == 2 && x.rank() > 2) {
    Shape shape(x.shape().begin(), x.shape().end() - 1);
    Expr rows = graph::element_count(b.context(), shape);
    shape.push_back(y.size(1));
    Term flat = {&b, b.matmul(x.reshape({rows, x.size(x.rank() - 1)}).value, y.value, result)};
    Term out = flat.reshape(shape);
    return is_vector_y ? out.squeeze(out.rank() - 1) : out;
  }
  Shape batch = broadcast(Shape(x.shape().begin(), x.shape().end() - 2), Shape(y.shape().begin(), y.shape().end() - 2));
  auto batched = [&](Term t) {
    Shape shape = batch;
    shape.insert(shape.end(), t.shape().end() - 2, t.shape().end());
    return t.expand(shape);
  };
  Term out = {&b, b.matmul(batched(x).value, batched(y).value, result)};
  if (is_vector_y)
    out = out.squeeze(out.rank() - 1);
  return is_vector_x ? out.squeeze(out.rank() - (is_vector_y ? 1 : 2)) : out;
}

Values import_matmul(GraphBuilder &b, const AtenCall &call) {
  return {general_product(b, term(b, call.value(0)), term(b, call.value(1)), result_of(call)).value};
}

Values import_linear(GraphBuilder &b, const AtenCall &call) {
  DType result = result_of(call);
  Term weight = term(b, call.value(1));
  weight = weight.rank() == 2 ? weight.permute({1, 0}) : weight;
  Term out = general_product(b, term(b, call.value(0)), weight, call.has(2) ? opmath_of(result) : result);
  if (call.has(2))
    out = out + term(b, call.value(2)).to(out.dtype());
  return {out.to(result).value};
}

/// _trilinear(x, y, z, expand x, expand y, expand z, summed axes, unroll): new axes, the product of all three, sums.
Values import_trilinear(GraphBuilder &b, const AtenCall &call) {
  Term product;
  for (int i = 0; i < 3; ++i) {
    Term t = wide(b, call.value(i));
    for (int64_t axis : call.integers(3 + i))
      t = t.unsqueeze(static_cast<int>(axis));
    product = product ? product * t : t;
  }
  return {product.sum(call.integers(6), false).to(result_of(call)).value};
}

constexpr AtenRule kRules[] = {
    {"aten._trilinear.default", import_trilinear},
    {"aten.mm.default aten.bmm.default aten._int_mm.default", import_mm},
    {"aten.addmm.default aten.baddbmm.default", import_addmm},
    {"aten.addbmm.default", import_addbmm},
    {"aten.mv.default", import_mv},
    {"aten.addmv.default", import_addmv},
    {"aten.dot.default", import_dot},
    {"aten.addr.default", import_addr},
    {"aten.matmul.default", import_matmul},
    {"aten.linear.default", import_linear},
};

} // namespace

OpTable aten_contraction() { return {{}, kRules}; }

} // namespace oxyfuel
