// exp, exp2, expm1, log, log2, log10, log1p in float32, and the double versions that other families build on.
//
// exp: x = n ln 2 + r, exp(x) = 2^n * exp(r) with a polynomial for exp(r). log: x = 2^e * (1 + f), log(x) = e ln 2 +
// log1p(f) with a polynomial for log1p(f).
#include "passes/loop/expand_math_internal.h"

namespace oxyfuel::math {

namespace {

/// x < 0 gives NaN, 0 gives -inf, +inf and NaN stay; `y` elsewhere.
Expr with_log_limits(Expr x, Expr y) {
  y = select(x < x.like(kInfinity), y, x);
  y = select(x < x.like(0), x.like(kNan), y);
  return select(eq(x, x.like(0)), x.like(-kInfinity), y);
}

} // namespace

Expr power_of_two(Expr rounded) {
  const bool is_double = rounded.dtype() == DType::kF64;
  const Expr bits = bits_of(rounded);
  return bitcast(shl(bits, bits.context().integer(is_double ? 52 : 23, bits.dtype())), rounded.dtype());
}

/// n is even: with 2^(n/2) multiplied in twice, neither the largest nor denormal results need a case of their own.
Expr expand_exp(Expr x) {
  const Expr clamped = at_least(at_most(x, 89), -104);
  const Expr rounded = fma(clamped, x.like(kLog2E / 2), x.like(kRound + 127));
  const Expr half_n = rounded - x.like(kRound + 127);
  Expr r = fma(half_n, x.like(-2 * kLn2High), clamped);
  r = fma(half_n, x.like(-2 * kLn2Low), r);
  // minimax.py exp
  const Expr tail = polynomial(r, {0.5000003576278687, 0.1666661649942398, 0.04166119545698166, 0.008335963822901249,
                                   0.0014105556765571237, 0.00019631025497801602});
  const Expr value = fma(r, fma(r, tail, x.like(1)), x.like(1));
  const Expr scale = power_of_two(rounded);
  return value * scale * scale;
}

Expr expand_exp2(Expr x) {
  const Expr clamped = at_least(at_most(x, 128.5), -151);
  // Denormal results come from a normal number times 2^-64; the other results from their half, so that 2^128 is in
  // reach.
  const Expr is_small = clamped < x.like(-100);
  const Expr bias = select(is_small, x.like(kRound + 127 + 64), x.like(kRound + 126));
  const Expr rounded = clamped + bias;
  const Expr r = clamped - (rounded - bias);
  // minimax.py exp2
  const Expr tail = polynomial(r, {0.6931471824645996, 0.24022647738456726, 0.05550359562039375, 0.009618503041565418,
                                   0.0013390997191891074, 0.00015327802975662053});
  const Expr value = fma(r, tail, x.like(1));
  return value * power_of_two(rounded) * select(is_small, x.like(0x1p-64), x.like(2));
}

/// 2^n * expm1(r) + (2^n - 1), at half its size so that n = 128 is in reach.
Expr expand_expm1(Expr x) {
  const Expr clamped = at_least(at_most(x, 89), -18);
  const Expr rounded = fma(clamped, x.like(kLog2E), x.like(kRound + 126));
  const Expr n = rounded - x.like(kRound + 126);
  Expr r = fma(n, x.like(-kLn2High), clamped);
  r = fma(n, x.like(-kLn2Low), r);
  // minimax.py expm1
  const Expr tail = polynomial(
      r, {0.4999999701976776, 0.1666654646396637, 0.04166743531823158, 0.00836627185344696, 0.0013870695838704705});
  const Expr value = fma(r * r, tail, r);
  const Expr scale = power_of_two(rounded);
  const Expr half = fma(value, scale, scale - x.like(0.5));
  return select(abs(x) < x.like(0x1p-24), x, half + half);
}

Decomposed decompose(Expr x) {
  ExprContext &context = x.context();
  const auto i32 = [&](int64_t value) { return context.integer(value, DType::kI32); };
  const Expr is_denormal = x < x.like(0x1p-126);
  const Expr bits = bits_of(select(is_denormal, x * x.like(0x1p+23), x));
  const Expr exponent = shr(bits - i32(0x3f3504f3), i32(23)); // the bits of sqrt(1/2)
  const Expr mantissa = bitcast(bits - shl(exponent, i32(23)), DType::kF32);
  return {cast(exponent - select(is_denormal, i32(23), i32(0)), DType::kF32), mantissa - x.like(1)};
}

Expr log_of_fraction(Expr f) {
  // minimax.py log
  const Expr tail =
      polynomial(f, {-0.5, 0.3333333134651184, -0.2500081956386566, 0.2000124156475067, -0.16623404622077942,
                     0.1420157551765442, -0.13159683346748352, 0.1276230812072754, -0.07636309415102005});
  return fma(f * f, tail, f);
}

Expr expand_log(Expr x) {
  const auto [exponent, fraction] = decompose(x);
  return with_log_limits(x, fma(exponent, x.like(kLn2), log_of_fraction(fraction)));
}

Expr expand_log2(Expr x) {
  constexpr double high = 0x1.715476p+0, low = kLog2E - high;
  const auto [exponent, fraction] = decompose(x);
  const Expr log = log_of_fraction(fraction);
  return with_log_limits(x, fma(log, x.like(high), fma(log, x.like(low), exponent)));
}

Expr expand_log10(Expr x) {
  constexpr double two_high = 0x1.344136p-2, two_low = -0x1.ec10cp-27;
  constexpr double e_high = 0x1.bcb7b2p-2, e_low = -0x1.5b235ep-27;
  const auto [exponent, fraction] = decompose(x);
  const Expr log = log_of_fraction(fraction);
  const Expr low = fma(log, x.like(e_low), exponent * x.like(two_low));
  return with_log_limits(x, fma(exponent, x.like(two_high), fma(log, x.like(e_high), low)));
}

/// The exponent comes from the rounded 1 + x, the fraction from x itself: f = x 2^-e + (2^-e - 1).
Expr expand_log1p(Expr x) {
  ExprContext &context = x.context();
  const auto i32 = [&](int64_t value) { return context.integer(value, DType::kI32); };
  const Expr exponent = shr(bits_of(x + x.like(1)) - i32(0x3f3504f3), i32(23));
  const Expr scale = bitcast(i32(0x40800000) - shl(exponent, i32(23)), DType::kF32) * x.like(0.25);
  const Expr fraction = fma(x, scale, scale - x.like(1));
  Expr y = fma(cast(exponent, DType::kF32), x.like(kLn2), log_of_fraction(fraction));
  y = select(x < x.like(kInfinity), y, x);
  y = select(x < x.like(-1), x.like(kNan), y);
  y = select(eq(x, x.like(-1)), x.like(-kInfinity), y);
  return select(abs(x) < x.like(0x1p-24), x, y);
}

Exponential exp_parts_double(Expr x) {
  const Expr rounded = fma(x, x.like(kLog2E), x.like(kRoundDouble + 1023));
  const Expr n = rounded - x.like(kRoundDouble + 1023);
  Expr r = fma(n, x.like(-kLn2), x);
  // minimax.py exp_double
  const Expr tail = polynomial(r, {0.5000000000105715, 0.16666666754391757, 0.04166666595042372, 0.008333288965749044,
                                   0.0013888985532325526, 0.00019904973057584006, 2.4796345665811117e-05});
  return {power_of_two(rounded), fma(r * r, tail, r)};
}

Expr exp_double(Expr x) {
  const auto [scale, tail] = exp_parts_double(x);
  return fma(tail, scale, scale);
}

Expr expm1_double(Expr x) {
  const auto [scale, tail] = exp_parts_double(x);
  return fma(tail, scale, scale - x.like(1));
}

static Expr log_double_of(Expr exponent, Expr f) {
  // minimax.py log_double
  const Expr tail =
      polynomial(f, {-0.5, 0.3333333339925363, -0.25000001126996774, 0.1999998925133288, -0.1666653233297954,
                     0.14286179411019775, -0.12505717715928022, 0.11105469875243648, -0.09889328608026711,
                     0.09040150487523833, -0.09287208917335042, 0.0911618745429743, -0.04822685030050212});
  return fma(exponent, f.like(kLn2), fma(f * f, tail, f));
}

Expr log_double(Expr x) {
  ExprContext &context = x.context();
  const auto i64 = [&](int64_t value) { return context.integer(value, DType::kI64); };
  const Expr bits = bits_of(x);
  const Expr exponent = shr(bits - i64(0x3fe6a09e667f3bcd), i64(52)); // the bits of sqrt(1/2)
  const Expr mantissa = bitcast(bits - shl(exponent, i64(52)), DType::kF64);
  return log_double_of(cast(cast(exponent, DType::kI32), DType::kF64), mantissa - x.like(1));
}

Expr log_double_of_float(Expr x) {
  const auto [exponent, fraction] = decompose(x); // the subtraction in it is exact
  return log_double_of(cast(exponent, DType::kF64), cast(fraction, DType::kF64));
}

} // namespace oxyfuel::math
