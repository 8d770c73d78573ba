// digamma.
#include "passes/loop/expand_math_internal.h"
#include "runtime/abi.h"

namespace oxyfuel::math {

namespace {

/// sum of 1 / (z + k) for first <= k < first + 4, as one quotient. Powers up to z^4 stay finite for what matters: from
/// 1e70 on the sum is nothing beside log z.
Expr sum_of_reciprocals(Expr z, int first) {
  Expr top, bottom;
  for (int k = first; k < first + 4; ++k) {
    const Expr term = z + z.like(k);
    top = top ? fma(top, term, bottom) : z.like(1);
    bottom = bottom ? bottom * term : term;
  }
  return top / bottom;
}

/// pi / tan(pi f), |f| <= 1/2, to 2^-34: 1 / f minus a polynomial, since pi cot(pi f) has its nearest other poles at -1
/// and 1.
Expr cotangent(Expr f) {
  const Expr s = f * f;
  // minimax.py cotangent
  return f.like(1) / f - f * polynomial(s, {3.289868133931816, 2.1646463194194223, 2.0347014288590906,
                                            2.007547343500362, 2.013988590247082, 1.8687771943886993, 2.832570467562,
                                            -0.943086096970561, 7.039526863420149});
}

} // namespace

/// Computed in double for float32 too. psi(z) = psi(z + 12) - sum 1 / (z + k) leads to the asymptotic series
/// psi(w) = log w - 1 / 2w - sum B_2k / (2k w^2k); negative x by the reflection psi(x) = psi(1 - x) - pi / tan(pi x).
Expr expand_digamma(Expr x) {
  const bool is_single = x.dtype() == DType::kF32;
  const Expr wide = cast(x, DType::kF64);
  const auto f64 = [&](double value) { return wide.like(value); };
  const Expr is_reflected = wide < f64(0);
  const Expr whole = select(is_reflected, f64(1) - wide, wide), z = at_most(whole, 1e70);
  const Expr w = z + f64(12);
  const Expr inverse = f64(1) / w, s = inverse * inverse;
  const Expr series = polynomial(s, {1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132, -691.0 / 32760, 1.0 / 12});
  const Expr log = is_single ? log_double(w) : host_call(whole + f64(12), kHostLog);
  const Expr sum = sum_of_reciprocals(z, 0) + (sum_of_reciprocals(z, 4) + sum_of_reciprocals(z, 8));
  const Expr positive = (log - fma(s, series, f64(0.5) * inverse)) - sum;

  const Expr fraction = wide - rint(wide);
  const Expr reflection = is_single ? cotangent(fraction) : f64(kPi) / host_call(fraction * f64(kPi), kHostTan);
  Expr value = cast(select(is_reflected, positive - reflection, positive), x.dtype());
  value = select(is_reflected && eq(fraction, f64(0)), x.like(kNan), value);
  value = select(eq(x, x.like(0)), with_sign_of(x.like(kInfinity), -x), value);
  return select(x < x.like(kInfinity), value, x); // inf and NaN
}

} // namespace oxyfuel::math
