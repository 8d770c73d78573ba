// Hyperbolic functions of float32 and their inverses: tanh in float32, since models use it at every element; the others
// in double.
#include "passes/loop/expand_math_internal.h"

namespace oxyfuel::math {

namespace {

Expr in_double(Expr x) { return cast(x, DType::kF64); }

} // namespace

/// 1 - 2 / (exp(2a) + 1), and from 0.55 down, where that cancels, a polynomial.
Expr expand_tanh(Expr x) {
  const Expr size = at_most(abs(x), 9.02); // tanh is 1 from there on
  const Expr rounded = fma(size, x.like(2 * kLog2E), x.like(kRound + 127));
  const Expr n = rounded - x.like(kRound + 127);
  Expr r = fma(n, x.like(-kLn2High / 2), size);
  r = fma(n, x.like(-kLn2Low / 2), r);
  // minimax.py tanh
  const Expr tail = polynomial(
      r, {1.9999998807907104, 1.3333237171173096, 0.6666789650917053, 0.26772069931030273, 0.08877245336771011});
  const Expr scale = power_of_two(rounded);
  const Expr exp = fma(fma(r * r, tail, r + r), scale, scale);
  const Expr large = x.like(1) - x.like(2) / (exp + x.like(1));
  const Expr s = size * size;
  // minimax.py tanh_small
  const Expr small =
      fma(size * s,
          polynomial(s, {-0.3333294689655304, 0.1332072615623474, -0.05267169699072838, 0.016437117010354996}), size);
  return with_sign_of(select(size < x.like(0.55), small, large), x);
}

/// (e^a - e^-a) / 2 by expm1, so that small a lose nothing.
Expr expand_sinh(Expr x) {
  const Expr expm1 = expm1_double(in_double(at_most(abs(x), 90)));
  const Expr value = expm1.like(0.5) * (expm1 + expm1 / (expm1 + expm1.like(1)));
  return with_sign_of(cast(value, DType::kF32), x);
}

Expr expand_cosh(Expr x) {
  const Expr exp = exp_double(in_double(at_most(abs(x), 90)));
  return cast(exp.like(0.5) * (exp + exp.like(1) / exp), DType::kF32);
}

/// log(a + sqrt(a^2 + 1)): in double the sum keeps 2^-41 of a result from 2^-12 up; below it asinh(x) is x.
Expr expand_asinh(Expr x) {
  const Expr size = abs(x), wide = in_double(size);
  const Expr value = cast(log_double(wide + sqrt(fma(wide, wide, wide.like(1)))), DType::kF32);
  const Expr is_ordinary = (size >= x.like(0x1p-12)) && (size < x.like(kInfinity));
  return select(is_ordinary, with_sign_of(value, x), x);
}

Expr expand_acosh(Expr x) {
  const Expr wide = in_double(x);
  const Expr value = cast(log_double(wide + sqrt(fma(wide, wide, wide.like(-1)))), DType::kF32);
  const Expr is_ordinary = (x >= x.like(1)) && (x < x.like(kInfinity));
  return select(is_ordinary, value, select(eq(x, x.like(kInfinity)), x, x.like(kNan)));
}

Expr expand_atanh(Expr x) {
  const Expr size = abs(x), wide = in_double(size);
  const Expr one = wide.like(1);
  Expr value = cast(wide.like(0.5) * log_double((one + wide) / (one - wide)), DType::kF32);
  value = select(size < x.like(1), value, select(eq(size, x.like(1)), x.like(kInfinity), x.like(kNan)));
  return select(size < x.like(0x1p-12), x, with_sign_of(value, x));
}

} // namespace oxyfuel::math
