// Pointwise overloads that are more than their operands: scaled sums, rounding modes, powers, clamps.
#include "ops/compose.h"
#include "ops/promote.h"
#include "ops/table.h"
#include "support/error.h"

namespace oxyfuel {

namespace {

DType result_of(const AtenCall &call) { return call.results.at(0).dtype; }

bool is_half(DType t) { return t == DType::kF16 || t == DType::kBF16; }

/// Operand i brought to the common type: numbers and tensors of another type are rounded to it first, as eager does.
graph::Value *operand(GraphBuilder &b, const AtenCall &call, int i, DType dtype) {
  graph::Value *value = b.number(call.arguments.at(i), dtype);
  return is_half(dtype) || value->type.rank() > 0 ? b.cast(value, dtype) : value;
}

/// A number that eager's kernel keeps in op-math precision.
graph::Value *exact_number(GraphBuilder &b, const AtenCall &call, int i, DType dtype) {
  return b.number(call.arguments.at(i), opmath_of(dtype));
}

bool is_number(const AtenCall &call, int i, double value) {
  const auto &data = call.arguments.at(i).data;
  if (auto *integer = std::get_if<int64_t>(&data))
    return static_cast<double>(*integer) == value;
  if (auto *real = std::get_if<double>(&data))
    return *real == value;
  if (auto *flag = std::get_if<bool>(&data))
    return *flag == value;
  return false;
}

graph::Value *negated(GraphBuilder &b, graph::Value *value) {
  DType t = value->type.dtype;
  return b.pointwise("neg", {value}, t, t);
}

/// a + alpha * b, or a - alpha * b; operands at the given places.
Values scaled_sum(GraphBuilder &b, const AtenCall &call, int left, int right, bool is_difference) {
  DType dtype = result_of(call);
  graph::Value *x = operand(b, call, left, dtype), *y = operand(b, call, right, dtype);
  if (!call.has(2) || is_number(call, 2, 1))
    return {b.pointwise(is_difference ? "sub" : "add", {x, y}, dtype, dtype)};
  graph::Value *alpha = b.number(call.arguments[2], dtype);
  if (is_half(dtype))
    alpha = b.cast(alpha, dtype);
  if (is_difference)
    alpha = negated(b, alpha);
  return {b.pointwise("add_scaled", {x, y, alpha}, dtype, dtype)};
}

Values import_add(GraphBuilder &b, const AtenCall &call) { return scaled_sum(b, call, 0, 1, false); }
Values import_sub(GraphBuilder &b, const AtenCall &call) { return scaled_sum(b, call, 0, 1, true); }
Values import_rsub(GraphBuilder &b, const AtenCall &call) { return scaled_sum(b, call, 1, 0, true); }

Values quotient(GraphBuilder &b, const AtenCall &call, std::string_view op) {
  DType dtype = result_of(call);
  bool is_scalar = !call.tensor_or_null(1) || call.value(1)->type.rank() == 0;
  graph::Value *divisor = is_scalar ? exact_number(b, call, 1, dtype) : operand(b, call, 1, dtype);
  Attributes attributes;
  if (is_half(dtype) && !is_scalar && op != "div")
    attributes["rounds_steps"] = true;
  return {b.pointwise(op, {operand(b, call, 0, dtype), divisor}, dtype, dtype, std::move(attributes))};
}

Values import_div_mode(GraphBuilder &b, const AtenCall &call) {
  return quotient(b, call, !call.has(2) ? "div" : call.text(2) == "floor" ? "floor_div" : "trunc_div");
}

Values import_floor_divide(GraphBuilder &b, const AtenCall &call) { return quotient(b, call, "floor_div"); }

/// prims.div truncates on integers.
Values import_prims_div(GraphBuilder &b, const AtenCall &call) {
  return quotient(b, call, is_integer(result_of(call)) ? "trunc_div" : "div");
}

/// polygamma(n, x), the n-th derivative of digamma: for n = 0 and 1.
Values import_polygamma(GraphBuilder &b, const AtenCall &call) {
  DType dtype = result_of(call);
  int64_t n = call.integer(0);
  if (n > 1)
    throw UnsupportedError(call.overload + " of a higher order than 1");
  return {b.pointwise(n ? "trigamma" : "digamma", {operand(b, call, 1, dtype)}, dtype, dtype)};
}

Values import_pow_number(GraphBuilder &b, const AtenCall &call) {
  DType dtype = result_of(call);
  graph::Value *x = operand(b, call, 0, dtype);
  auto unary = [&](std::string_view op, Attributes attributes = {}) {
    return Values{b.pointwise(op, {x}, dtype, dtype, std::move(attributes))};
  };
  if (is_number(call, 1, 0))
    return {b.expand(b.cast(b.scalar(1, dtype), dtype), x->type.shape)};
  if (is_number(call, 1, 1))
    return {b.cast(x, dtype)};
  if (is_number(call, 1, 2))
    return unary("square");
  if (is_number(call, 1, 3)) // bfloat16 rounds the square too
    return dtype == DType::kBF16 ? Values{b.pointwise("mul", {unary("square")[0], x}, dtype, dtype)} : unary("cube");
  if (is_integer(dtype) || is_bool(dtype)) {
    int64_t exponent = call.integer(1);
    if (exponent < 0)
      throw UnsupportedError("an integer to a negative power");
    return unary("integer_pow", {{"exponent", exponent}});
  }
  bool is_plain = dtype != DType::kF16; // for float16 eager calls pow, which gives +0 for the root of -0
  if (is_plain && is_number(call, 1, 0.5))
    return unary("sqrt");
  if (is_plain && is_number(call, 1, -0.5))
    return unary("rsqrt");
  if (is_number(call, 1, -1))
    return unary("reciprocal");
  if (is_plain && is_number(call, 1, -2)) {
    Term square = term(b, unary("square")[0]);
    return {square.apply("reciprocal").value};
  }
  return {b.pointwise("pow", {x, operand(b, call, 1, dtype)}, dtype, dtype)};
}

Values import_pow_base(GraphBuilder &b, const AtenCall &call) {
  DType dtype = result_of(call);
  graph::Value *exponent = operand(b, call, 1, dtype);
  if (is_number(call, 0, 1))
    return {b.expand(b.cast(b.scalar(1, dtype), dtype), exponent->type.shape)};
  std::string_view op = is_number(call, 0, 2) && is_float(dtype) ? "exp2" : "pow";
  if (op == "exp2")
    return {b.pointwise(op, {exponent}, dtype, dtype)};
  return {b.pointwise(op, {operand(b, call, 0, dtype), exponent}, dtype, dtype)};
}

/// Bounds at the given places, either absent.
Values clamp(GraphBuilder &b, const AtenCall &call, int low, int high) {
  DType dtype = result_of(call);
  graph::Value *x = b.cast(operand(b, call, 0, dtype), dtype);
  for (auto [place, op] : {std::pair(low, "maximum"), std::pair(high, "minimum")})
    if (place >= 0 && call.has(place))
      x = b.pointwise(op, {x, operand(b, call, place, dtype)}, dtype, dtype);
  return {x};
}

Values import_clamp(GraphBuilder &b, const AtenCall &call) { return clamp(b, call, 1, 2); }
Values import_clamp_min(GraphBuilder &b, const AtenCall &call) { return clamp(b, call, 1, -1); }
Values import_clamp_max(GraphBuilder &b, const AtenCall &call) { return clamp(b, call, -1, 1); }

Values with_value(GraphBuilder &b, const AtenCall &call, std::string_view op) {
  DType dtype = result_of(call);
  graph::Value *value = call.has(3) ? exact_number(b, call, 3, dtype) : b.scalar(1, dtype);
  return {b.pointwise(op, {operand(b, call, 0, dtype), operand(b, call, 1, dtype), operand(b, call, 2, dtype), value},
                      dtype, dtype)};
}

Values import_addcmul(GraphBuilder &b, const AtenCall &call) { return with_value(b, call, "addcmul"); }

/// a * b + c, rounded once.
Values import_fma(GraphBuilder &b, const AtenCall &call) {
  DType dtype = result_of(call);
  graph::Value *x = operand(b, call, 0, dtype), *y = operand(b, call, 1, dtype), *z = operand(b, call, 2, dtype);
  return {b.pointwise("addcmul", {z, x, y, b.scalar(1, dtype)}, dtype, dtype)};
}
Values import_addcdiv(GraphBuilder &b, const AtenCall &call) { return with_value(b, call, "addcdiv"); }

Values import_lerp(GraphBuilder &b, const AtenCall &call) {
  DType dtype = result_of(call);
  bool is_scalar = !call.tensor_or_null(2) || call.value(2)->type.rank() == 0;
  graph::Value *weight = is_scalar ? exact_number(b, call, 2, dtype) : operand(b, call, 2, dtype);
  return {b.pointwise("lerp", {operand(b, call, 0, dtype), operand(b, call, 1, dtype), weight}, dtype, dtype)};
}

/// x * 2**y. Of a floating x with an integer exponent this is one scaling, which the power of two alone may not
/// survive: in double it does, for float32 and half types, once exponents that give zero or infinity anyhow are brought
/// near. Otherwise eager computes pow(2.0, y) with its own type and rounding, then the product.
Values import_ldexp(GraphBuilder &b, const AtenCall &call) {
  DType exponent_type = call.value(1)->type.dtype, dtype = result_of(call);
  if (is_complex(dtype))
    throw UnsupportedError(call.overload + " of complex numbers");
  if (is_float(call.value(0)->type.dtype) && !is_float(exponent_type)) {
    if (dtype == DType::kF64)
      throw UnsupportedError(call.overload + " in double precision with an integer exponent");
    constexpr double kFar = 600; // float32 spans 2^-149 to 2^128
    Term wanted = term(b, call.value(1)).to(DType::kF64);
    Term exponent = combine("minimum", combine("maximum", wanted, wanted.like(-kFar)), wanted.like(kFar));
    Term scaled = term(b, call.value(0)).to(DType::kF64) * exponent.apply("exp2");
    return {scaled.to(dtype).value};
  }
  DType power_type = is_float(exponent_type) ? exponent_type : DType::kF32;
  graph::Value *power = b.pointwise("exp2", {call.value(1)}, power_type, power_type);
  return {b.pointwise("mul", {operand(b, call, 0, dtype), b.cast(power, dtype)}, dtype, dtype)};
}

Values import_masked_fill(GraphBuilder &b, const AtenCall &call) {
  DType dtype = result_of(call);
  graph::Value *x = call.value(0), *value = b.cast(b.number(call.arguments.at(2), dtype), dtype);
  return {b.pointwise("where", {call.value(1), value, x}, dtype, dtype)};
}

Values import_nan_to_num(GraphBuilder &b, const AtenCall &call) {
  Term x = term(b, call.value(0));
  DType dtype = result_of(call);
  if (!is_float(dtype))
    return {x.value};
  double largest = dtype == DType::kF64    ? 1.7976931348623157e308
                   : dtype == DType::kF32  ? 3.4028234663852886e38
                   : dtype == DType::kBF16 ? 3.3895313892515355e38
                                           : 65504.0;
  auto number = [&](int i, double otherwise) { return x.like(call.has(i) ? call.number(i) : otherwise); };
  Term infinity = x.like(__builtin_inf());
  Term result = choose(is_nan(x), number(1, 0), x);
  result = choose(equal(x, infinity), number(2, largest), result);
  return {choose(equal(x, x.like(-__builtin_inf())), number(3, -largest), result).value};
}

Values import_elu_backward(GraphBuilder &b, const AtenCall &call) {
  DType dtype = result_of(call);
  return {b.pointwise("elu_backward", {call.value(0), call.value(5)}, dtype, dtype,
                      {{"alpha", call.number(1)},
                       {"scale", call.number(2)},
                       {"input_scale", call.number(3)},
                       {"is_result", call.boolean(4)}})};
}

/// The second result is a buffer that only eager's gradient reads.
Values import_log_sigmoid(GraphBuilder &b, const AtenCall &call) {
  DType dtype = result_of(call);
  graph::Value *x = call.value(0);
  graph::Value *buffer =
      b.cast(b.pointwise("exp", {negated(b, b.pointwise("abs", {x}, dtype, dtype))}, dtype, dtype), dtype);
  if (call.results.size() > 1 && call.results[1].rank() != x->type.rank())
    buffer = b.expand(b.cast(b.scalar(0, dtype), dtype), call.results[1].shape);
  return {b.pointwise("log_sigmoid", {x}, dtype, dtype), buffer};
}

Values import_log_sigmoid_backward(GraphBuilder &b, const AtenCall &call) {
  DType dtype = result_of(call);
  return {b.pointwise("log_sigmoid_backward", {call.value(0), call.value(1)}, dtype, dtype)};
}

/// First half times sigmoid of the second.
Values import_glu(GraphBuilder &b, const AtenCall &call) {
  Term x = wide(b, call.value(0));
  int axis = wrap_axis(call.has(1) ? call.integer(1) : -1, x.rank());
  Expr half = floor_div(x.size(axis), 2);
  Term first = x.slice(axis, x.context().integer(0), half), second = x.slice(axis, half, half);
  return {(first * second.apply("sigmoid")).to(result_of(call)).value};
}

Values import_glu_backward(GraphBuilder &b, const AtenCall &call) {
  Term g = wide(b, call.value(0)), x = wide(b, call.value(1));
  int axis = wrap_axis(call.has(2) ? call.integer(2) : -1, x.rank());
  Expr half = floor_div(x.size(axis), 2);
  Term first = x.slice(axis, x.context().integer(0), half), gate = x.slice(axis, half, half).apply("sigmoid");
  Term left = g * gate, right = (gate.like(1) - gate) * gate * g * first;
  DType dtype = result_of(call);
  return {b.make("concat", {left.to(dtype).value, right.to(dtype).value}, {{"axis", int64_t(axis)}})};
}

Values import_prelu_backward(GraphBuilder &b, const AtenCall &call) {
  Term g = wide(b, call.value(0)), x = wide(b, call.value(1)), weight = wide(b, call.value(2));
  Term is_positive = x > x.like(0);
  return {choose(is_positive, g, weight * g).to(call.results[0].dtype).value,
          choose(is_positive, g.like(0), x * g).to(call.results[1].dtype).value};
}

Values import_nextafter(GraphBuilder &b, const AtenCall &call) {
  DType dtype = result_of(call);
  if (is_half(dtype))
    throw UnsupportedError("aten.nextafter in half precision");
  return {b.pointwise("nextafter", {operand(b, call, 0, dtype), operand(b, call, 1, dtype)}, dtype, dtype)};
}

constexpr AtenRule kRules[] = {
    {"aten.add.Tensor aten.add.Scalar prims.add.default", import_add},
    {"aten.sub.Tensor aten.sub.Scalar aten.subtract.Tensor prims.sub.default", import_sub},
    {"aten.rsub.Tensor aten.rsub.Scalar", import_rsub},
    {"aten.div.Tensor_mode aten.div.Scalar_mode", import_div_mode},
    {"aten.floor_divide.default aten.floor_divide.Scalar", import_floor_divide},
    {"prims.div.default", import_prims_div},
    {"aten.polygamma.default aten.special_polygamma.default", import_polygamma},
    {"aten.pow.Tensor_Scalar", import_pow_number},
    {"aten.pow.Scalar", import_pow_base},
    {"aten.clamp.default aten.clamp.Tensor", import_clamp},
    {"aten.clamp_min.default aten.clamp_min.Tensor", import_clamp_min},
    {"aten.clamp_max.default aten.clamp_max.Tensor", import_clamp_max},
    {"aten.addcmul.default", import_addcmul},
    {"prims.fma.default", import_fma},
    {"aten.addcdiv.default", import_addcdiv},
    {"aten.lerp.Scalar aten.lerp.Tensor", import_lerp},
    {"aten.ldexp.Tensor", import_ldexp},
    {"aten.masked_fill.Scalar aten.masked_fill.Tensor", import_masked_fill},
    {"aten.nan_to_num.default", import_nan_to_num},
    {"aten.elu_backward.default", import_elu_backward},
    {"aten.log_sigmoid_forward.default", import_log_sigmoid},
    {"aten.log_sigmoid_backward.default", import_log_sigmoid_backward},
    {"aten.glu.default", import_glu},
    {"aten.glu_backward.default", import_glu_backward},
    {"aten._prelu_kernel_backward.default", import_prelu_backward},
    {"aten.nextafter.default", import_nextafter},
};

} // namespace

OpTable aten_arithmetic() { return {{}, kRules}; }

} // namespace oxyfuel
