// Arithmetic with eager's semantics: integers wrap, bool adds as `or` and multiplies as `and`, division by zero of
// integers raises, floor division and remainder follow c10's div_floor_floating and ATen's remainder.
#include "ops/pointwise.h"

namespace oxyfuel {

namespace {

struct Add : Pointwise<2> {
  static constexpr std::string_view name = "add", doc = "a + b; bool: a or b";
  static auto body(auto a, auto b) { return is_bool(a.dtype()) ? a || b : a + b; }
};

struct Sub : Pointwise<2> {
  static constexpr std::string_view name = "sub", doc = "a - b";
  static auto body(auto a, auto b) { return a - b; }
};

/// The form of add and sub with alpha.
struct AddScaled : Pointwise<3> {
  static constexpr std::string_view name = "add_scaled", doc = "a + b * c, rounded once on floats (fma)";
  static auto body(auto a, auto b, auto c) {
    if (is_bool(a.dtype()))
      return a || (b && c);
    return is_float(a.dtype()) ? fma(b, c, a) : a + b * c;
  }
};

struct Mul : Pointwise<2> {
  static constexpr std::string_view name = "mul", aten = "aten.mul.Tensor aten.mul.Scalar prims.mul.default",
                                    doc = "a * b; bool: a and b";
  static constexpr bool keeps_scalar = true;
  static auto body(auto a, auto b) { return is_bool(a.dtype()) ? a && b : a * b; }
};

struct Div : Pointwise<2> {
  static constexpr std::string_view name = "div", aten = "aten.div.Tensor aten.div.Scalar aten.true_divide.Tensor",
                                    doc = "a / b, true division";
  static constexpr DTypeRule dtype = DTypeRule::kFloat;
  static constexpr bool keeps_scalar = true;
  static constexpr int cost = 4;
  static auto body(auto a, auto b) { return a / b; }
};

/// A divisor that never traps: zero (the check raises for it) and, for signed types, -1 become 1.
auto safe_divisor(auto b) {
  auto is_bad = eq(b, b.like(0));
  if (is_signed_integer(b.dtype()))
    is_bad = is_bad || eq(b, b.like(-1));
  return select(is_bad, b.like(1), b);
}

/// `value` unless b is -1, where the quotient is -a, which wraps.
auto or_negated(auto a, auto b, auto value) {
  return is_signed_integer(b.dtype()) ? select(eq(b, b.like(-1)), a.like(0) - a, value) : value;
}

Expr divisor_not_zero(ExprContext &, const graph::Node &node, std::span<const Expr> index, const ReadOperand &read) {
  DType compute = compute_of(node);
  if (is_float(compute) || is_complex(compute))
    return {};
  std::vector<Expr> at = broadcast_index(node.operands[1]->type.shape, index);
  Expr divisor = read(1, at, {});
  return ne(divisor, divisor.like(0));
}

/// Eager's kernels on two tensors of half type round after every step; with a number as divisor they do not.
auto rounded_step(auto x, const graph::Node &node) { return node.has("rounds_steps") ? half_step(x, node) : x; }

/// c10::div_floor_floating: exact where floor(a / b) is not, because a / b may round up to an integer.
auto floor_div_float(auto a, auto b, const graph::Node &node) {
  auto mod = rem(a, b);
  auto zero = a.like(0), one = a.like(1);
  auto quotient = rounded_step(rounded_step(a - mod, node) / b, node);
  quotient = select(ne(mod, zero) && ne(b < zero, mod < zero), quotient - one, quotient);
  auto floored = floor(quotient);
  floored = select(quotient - floored > a.like(0.5), floored + one, floored);
  // A zero quotient takes the sign of a / b.
  auto true_quotient = a / b;
  auto signed_zero = select(true_quotient < zero, -zero, true_quotient * zero);
  floored = select(ne(quotient, zero), floored, signed_zero);
  return select(eq(b, zero), true_quotient, floored);
}

struct FloorDiv : Pointwise<2> {
  static constexpr std::string_view name = "floor_div", doc = "division rounded towards minus infinity";
  static constexpr bool keeps_scalar = true;
  static constexpr int cost = 12;
  static constexpr auto check = divisor_not_zero;
  static auto body(auto a, auto b, const graph::Node &node) {
    if (is_float(a.dtype()))
      return floor_div_float(a, b, node);
    return or_negated(a, b, floor_div(a, safe_divisor(b)));
  }
};

struct TruncDiv : Pointwise<2> {
  static constexpr std::string_view name = "trunc_div", doc = "division rounded towards zero";
  static constexpr bool keeps_scalar = true;
  static constexpr int cost = 4;
  static constexpr auto check = divisor_not_zero;
  static auto body(auto a, auto b, const graph::Node &node) {
    if (is_float(a.dtype()))
      return trunc(rounded_step(a / b, node));
    return or_negated(a, b, a / safe_divisor(b));
  }
};

struct Fmod : Pointwise<2> {
  static constexpr std::string_view name = "fmod", aten = "aten.fmod.Tensor aten.fmod.Scalar prims.fmod.default",
                                    doc = "remainder with the sign of a, as C's fmod and %";
  static constexpr int cost = 20;
  static constexpr auto check = divisor_not_zero;
  static auto body(auto a, auto b) {
    if (is_float(a.dtype()))
      return rem(a, b);
    return rem(a, safe_divisor(b)); // a % -1 is a % 1
  }
};

struct Remainder : Pointwise<2> {
  static constexpr std::string_view
      name = "remainder",
      aten = "aten.remainder.Tensor aten.remainder.Scalar aten.remainder.Scalar_Tensor prims.remainder.default",
      doc = "remainder with the sign of b, as Python's %";
  static constexpr int cost = 20;
  static constexpr auto check = divisor_not_zero;
  static auto body(auto a, auto b) {
    auto zero = a.like(0);
    if (is_float(a.dtype())) {
      auto mod = rem(a, b);
      return select(ne(mod, zero) && ne(b < zero, mod < zero), mod + b, mod);
    }
    auto mod = rem(a, safe_divisor(b));
    return select(ne(mod, zero) && ne(b < zero, mod < zero), mod + b, mod);
  }
};

struct Neg : Pointwise<1> {
  static constexpr std::string_view name = "neg", aten = "aten.neg.default aten._neg_view.default prims.neg.default",
                                    doc = "-x; integers wrap";
  static auto body(auto x) { return is_integer(x.dtype()) ? x.like(0) - x : -x; }
};

struct Positive : Pointwise<1> {
  static constexpr std::string_view name = "positive", aten = "aten.positive.default", doc = "x";
  static auto body(auto x) { return x; }
};

struct Abs : Pointwise<1> {
  static constexpr std::string_view name = "abs", aten = "aten.abs.default prims.abs.default", doc = "|x|";
  static constexpr DTypeRule dtype = DTypeRule::kReal;
  static auto body(auto x) {
    if (is_complex(x.dtype()))
      return hypot(real(x), imag(x));
    if (is_float(x.dtype()))
      return abs(x);
    return is_signed_integer(x.dtype()) ? select(x < x.like(0), x.like(0) - x, x) : x;
  }
};

struct Sign : Pointwise<1> {
  static constexpr std::string_view name = "sign", aten = "aten.sign.default prims.sign.default",
                                    doc = "-1, 0 or 1; 0 for NaN";
  static auto body(auto x) {
    if (is_bool(x.dtype()))
      return x;
    auto zero = x.like(0);
    auto positive = select(zero < x, x.like(1), zero);
    return is_float(x.dtype()) || is_signed_integer(x.dtype()) ? select(x < zero, x.like(-1), positive) : positive;
  }
};

struct Sgn : Pointwise<1> {
  static constexpr std::string_view name = "sgn", aten = "aten.sgn.default", doc = "sign; complex: x / |x|, 0 for 0";
  static auto body(auto x) {
    if (!is_complex(x.dtype()))
      return Sign::body(x);
    auto length = hypot(real(x), imag(x));
    auto zero = length.like(0);
    auto divisor = select(eq(length, zero), length.like(1), length);
    return complex(select(eq(length, zero), zero, real(x) / divisor),
                   select(eq(length, zero), zero, imag(x) / divisor));
  }
};

struct Maximum : Pointwise<2> {
  static constexpr std::string_view name = "maximum", aten = "aten.maximum.default prims.maximum.default",
                                    doc = "the larger; NaN if one is NaN";
  static auto body(auto a, auto b) {
    if (is_bool(a.dtype()))
      return a || b;
    // The first of two equal ones, as std::max in eager's scalar kernel: decides between zeros of either sign.
    return is_float(a.dtype()) ? select(is_nan(a) || a >= b, a, b) : max(a, b);
  }
};

struct Minimum : Pointwise<2> {
  static constexpr std::string_view name = "minimum", aten = "aten.minimum.default prims.minimum.default",
                                    doc = "the smaller; NaN if one is NaN";
  static auto body(auto a, auto b) {
    if (is_bool(a.dtype()))
      return a && b;
    return is_float(a.dtype()) ? select(is_nan(a) || a <= b, a, b) : min(a, b);
  }
};

/// Of two equal ones (zeros of either sign) the first, in half types the second, as eager's kernels.
auto takes_first(auto is_beyond, auto a, auto b, const graph::Node &node) {
  DType compute = compute_of(node);
  return opmath_of(compute) == compute ? is_beyond || eq(a, b) : is_beyond;
}

struct Fmax : Pointwise<2> {
  static constexpr std::string_view name = "fmax", aten = "aten.fmax.default prims.fmax.default",
                                    doc = "the larger; the other one of a NaN";
  static auto body(auto a, auto b, const graph::Node &node) {
    if (!is_float(a.dtype()))
      return Maximum::body(a, b);
    return select(is_nan(a), b, select(is_nan(b) || takes_first(a > b, a, b, node), a, b));
  }
};

struct Fmin : Pointwise<2> {
  static constexpr std::string_view name = "fmin", aten = "aten.fmin.default prims.fmin.default",
                                    doc = "the smaller; the other one of a NaN";
  static auto body(auto a, auto b, const graph::Node &node) {
    if (!is_float(a.dtype()))
      return Minimum::body(a, b);
    return select(is_nan(a), b, select(is_nan(b) || takes_first(a < b, a, b, node), a, b));
  }
};

struct Reciprocal : Pointwise<1> {
  static constexpr std::string_view name = "reciprocal", aten = "aten.reciprocal.default prims.reciprocal.default",
                                    doc = "1 / x";
  static constexpr DTypeRule dtype = DTypeRule::kFloat;
  static constexpr int cost = 4;
  static auto body(auto x) { return x.like(1) / x; }
};

struct Sqrt : Pointwise<1> {
  static constexpr std::string_view name = "sqrt", aten = "aten.sqrt.default prims.sqrt.default", doc = "square root";
  static constexpr DTypeRule dtype = DTypeRule::kFloat;
  static constexpr int cost = 4;
  static auto body(auto x) { return sqrt(x); }
};

struct Rsqrt : Pointwise<1> {
  static constexpr std::string_view name = "rsqrt", aten = "aten.rsqrt.default prims.rsqrt.default",
                                    doc = "1 / sqrt(x)";
  static constexpr DTypeRule dtype = DTypeRule::kFloat;
  static constexpr int ulps = 1, cost = 8;
  static auto body(auto x) { return x.like(1) / sqrt(x); }
};

struct Square : Pointwise<1> {
  static constexpr std::string_view name = "square", aten = "aten.square.default", doc = "x * x";
  static auto body(auto x) { return is_bool(x.dtype()) ? x : x * x; }
};

struct Cube : Pointwise<1> {
  static constexpr std::string_view name = "cube", doc = "x * x * x";
  static auto body(auto x) { return is_bool(x.dtype()) ? x : x * x * x; }
};

struct Floor : Pointwise<1> {
  static constexpr std::string_view name = "floor", aten = "aten.floor.default prims.floor.default",
                                    doc = "rounded towards minus infinity";
  static auto body(auto x) { return is_float(x.dtype()) ? floor(x) : x; }
};

struct Ceil : Pointwise<1> {
  static constexpr std::string_view name = "ceil", aten = "aten.ceil.default prims.ceil.default",
                                    doc = "rounded towards plus infinity";
  static auto body(auto x) { return is_float(x.dtype()) ? ceil(x) : x; }
};

struct Trunc : Pointwise<1> {
  static constexpr std::string_view name = "trunc", aten = "aten.trunc.default aten.fix.default prims.trunc.default",
                                    doc = "rounded towards zero";
  static auto body(auto x) { return is_float(x.dtype()) ? trunc(x) : x; }
};

struct Frac : Pointwise<1> {
  static constexpr std::string_view name = "frac", aten = "aten.frac.default", doc = "x - trunc(x)";
  static auto body(auto x) { return x - trunc(x); }
};

struct Round : Pointwise<1> {
  static constexpr std::string_view name = "round", aten = "aten.round.default prims.round.default",
                                    doc = "to nearest, ties to even";
  static auto body(auto x) { return is_float(x.dtype()) ? rint(x) : x; }
};

struct RoundDecimals : Pointwise<1> {
  static constexpr std::string_view name = "round_decimals", aten = "aten.round.decimals",
                                    doc = "rounded to `decimals` digits, ties to even after scaling, as eager";
  static Attributes attributes(const AtenCall &call) { return {{"decimals", call.integer(1)}}; }
  static auto body(auto x, const graph::Node &node) {
    int64_t decimals = node.get<int64_t>("decimals");
    if (!is_float(x.dtype()))
      return x;
    double power = 1;
    for (int64_t i = 0; i < (decimals < 0 ? -decimals : decimals); ++i)
      power *= 10;
    auto scale = x.like(power);
    return decimals == 0 ? rint(x) : decimals < 0 ? rint(x / scale) * scale : rint(x * scale) / scale;
  }
};

struct Lerp : Pointwise<3> {
  static constexpr std::string_view name = "lerp",
                                    doc = "a + w * (b - a) for |w| < 0.5, else b - (b - a) * (1 - w), products fused";
  static auto body(auto a, auto b, auto weight) {
    auto difference = b - a;
    if (is_complex(a.dtype()))
      return a + weight * difference;
    return select(abs(weight) < weight.like(0.5), fma(weight, difference, a),
                  fma(-difference, weight.like(1) - weight, b));
  }
};

struct Addcdiv : Pointwise<4> {
  static constexpr std::string_view name = "addcdiv", doc = "a + (value * b) / c";
  static constexpr int cost = 5;
  static auto body(auto a, auto b, auto c, auto value) { return a + value * b / c; }
};

struct Addcmul : Pointwise<4> {
  static constexpr std::string_view name = "addcmul", doc = "a + (value * b) * c, the last sum and product fused";
  static auto body(auto a, auto b, auto c, auto value) {
    return is_float(a.dtype()) ? fma(value * b, c, a) : a + value * b * c;
  }
};

using Table = PointwiseTable<Add, Sub, AddScaled, Mul, Div, FloorDiv, TruncDiv, Fmod, Remainder, Neg, Positive, Abs,
                             Sign, Sgn, Maximum, Minimum, Fmax, Fmin, Reciprocal, Sqrt, Rsqrt, Square, Cube, Floor,
                             Ceil, Trunc, Frac, Round, RoundDecimals, Lerp, Addcdiv, Addcmul>;

} // namespace

OpTable pointwise_arithmetic() { return Table::table(); }

} // namespace oxyfuel
