// pow of float32, and hypot and nextafter.
#include "passes/loop/expand_math_internal.h"

namespace oxyfuel::math {

/// exp(y log|x|) in double, where 2^-31 of the exponent is left; then the cases of IEEE 754's pow, later ones first in
/// rank.
Expr expand_pow(Expr x, Expr y) {
  ExprContext &context = x.context();
  const auto f64 = [&](double value) { return context.real(value, DType::kF64); };
  const Expr size = abs(x), zero = x.like(0), one = x.like(1), infinity = x.like(kInfinity);

  // log 0 = -inf and log inf = inf turn into the right limits, NaN into NaN.
  Expr log = select(size < infinity, log_double_of_float(size), cast(size, DType::kF64));
  log = select(eq(size, zero), f64(-kInfinity), log);
  const Expr exponent = cast(y, DType::kF64) * log;
  Expr value = cast(exp_double(at_least(at_most(exponent, 90), -110)), DType::kF32);

  const Expr is_integer = eq(trunc(y), y);
  const Expr half = y * x.like(0.5);
  const Expr is_odd = is_integer && ne(trunc(half), half);
  value = select(is_odd, flip_sign_by(value, x), value);
  const Expr has_no_real_value = (x < zero) && (x > -infinity) && ne(trunc(y), y);
  value = select(has_no_real_value, x.like(kNan), value);
  const Expr is_one = eq(x, one) || eq(y, zero) || (eq(size, one) && eq(abs(y), infinity));
  return select(is_one, one, value);
}

/// float32 squares neither overflow nor underflow in double.
Expr expand_hypot(Expr x, Expr y) {
  const Expr infinity = x.like(kInfinity);
  const Expr wide_x = cast(x, DType::kF64), wide_y = cast(y, DType::kF64);
  const Expr length = cast(sqrt(fma(wide_x, wide_x, wide_y * wide_y)), x.dtype());
  return select(eq(abs(x), infinity) || eq(abs(y), infinity), infinity, length);
}

/// The bits of floats of one sign are in the order of their sizes.
Expr expand_nextafter(Expr x, Expr y) {
  ExprContext &context = x.context();
  const Expr bits = bits_of(x);
  const DType integer = bits.dtype();
  const auto constant = [&](int64_t value) { return context.integer(value, integer); };
  const Expr zero = x.like(0);
  const Expr shrinks = (bits < constant(0)) ^ (y < x); // towards zero
  const Expr moved = bitcast(bits + select(shrinks, constant(-1), constant(1)), x.dtype());
  const Expr smallest = with_sign_of(bitcast(constant(1), x.dtype()), y);
  const Expr value = select(eq(x, y), y, select(eq(x, zero), smallest, moved));
  return select(eq(x, x) && eq(y, y), value, x + y);
}

} // namespace oxyfuel::math
