// Trigonometric functions of float32 and their inverses.
//
// Argument reduction: a quarter turn is pi / 2; x = (n + f) quarter turns with |f| <= 1/2, in double. For |x| < 2^51
// the product x * 2/pi with 2/pi as the sum of two doubles has 2^-55 left below the point, enough for the float32 that
// comes closest to a multiple of pi / 2 (2^-29 off). Larger x are integers times 2^28, 2^56 or 2^84, so 2/pi times that
// power, less a multiple of 4, takes the place of 2/pi: whole turns vanish exactly.
#include "passes/loop/expand_math_internal.h"

namespace oxyfuel::math {

namespace {

struct Reduced {
  Expr angle;    ///< f64, within [-pi/4, pi/4]
  Expr quarters; ///< f32, an integer within [-3, 3], equal to n modulo 4
};

/// One range of |x| and what 2/pi is there: 2/pi * 2^shift modulo 4 = high + low.
struct TurnRange {
  double from, scale, high, low;
};
constexpr TurnRange kTurnRanges[] = {
    {0, 1, 0x1.45f306dc9c883p-1, -0x1.6b01ec5417056p-55},
    {0x1p+51, 0x1p-28, -0x1.1b1bbead603d9p+0, 0x1.5f47d4d377037p-54},
    {0x1p+79, 0x1p-56, 0x1.29fc2757d1f53p+0, 0x1.377036d8a5665p-54},
    {0x1p+107, 0x1p-84, 0x1.7d1f534ddc0dbp+0, 0x1.8a5664f10e410p-54},
};

Reduced reduce_angle(Expr x) {
  ExprContext &context = x.context();
  const auto f64 = [&](double value) { return context.real(value, DType::kF64); };
  const Expr size = abs(x);
  Expr scale = x.like(kTurnRanges[0].scale), high = f64(kTurnRanges[0].high), low = f64(kTurnRanges[0].low);
  for (size_t i = 1; i < std::size(kTurnRanges); ++i) {
    const Expr reached = size >= x.like(kTurnRanges[i].from);
    scale = select(reached, x.like(kTurnRanges[i].scale), scale);
    high = select(reached, f64(kTurnRanges[i].high), high);
    low = select(reached, f64(kTurnRanges[i].low), low);
  }
  const Expr wide = cast(x * scale, DType::kF64);
  // The product rounds to halves when it is near 2^52, so n may be one off, which a second rounding mends.
  const Expr n = rint(wide * high);
  const Expr near = fma(wide, low, fma(wide, high, -n));
  const Expr more = rint(near);
  const Expr quarters = fma(rint(n * f64(0.25)), f64(-4), n) + more;
  return {(near - more) * f64(kPi / 2), cast(quarters, DType::kF32)};
}

Expr sin_of_angle(Expr r) {
  const Expr s = r * r;
  // minimax.py sin
  return fma(r * s, polynomial(s, {-0.16666655242443085, 0.008332187309861183, -0.00019517907639965415}), r);
}

Expr cos_of_angle(Expr r) {
  const Expr s = r * r;
  // minimax.py cos
  return fma(s, polynomial(s, {-0.5, 0.04166664555668831, -0.0013887309469282627, 2.4432329155388288e-05}), r.like(1));
}

/// sin(x + first * pi / 2).
Expr sin_from(Expr x, int first) {
  ExprContext &context = x.context();
  const auto i32 = [&](int64_t value) { return context.integer(value, DType::kI32); };
  const Reduced reduced = reduce_angle(x);
  const Expr quarters = bits_of(reduced.quarters + x.like(kRound + first)); // the low two bits count quarter turns
  const Expr is_odd = ne(quarters & i32(1), i32(0));
  const Expr angle = cast(reduced.angle, DType::kF32);
  const Expr value = select(is_odd, cos_of_angle(angle), sin_of_angle(angle));
  return bitcast(bits_of(value) ^ shl(quarters & i32(2), i32(30)), DType::kF32);
}

/// asin(z) for z = |x| up to 1/2; for larger ones asin(sqrt((1 - |x|) / 2)), half the angle from the pole.
struct Arc {
  Expr is_large, value;
};
Arc arc_sine(Expr size) {
  const Expr is_large = size > size.like(0.5);
  const Expr s = select(is_large, fma(size, size.like(-0.5), size.like(0.5)), size * size);
  const Expr z = select(is_large, sqrt(s), size);
  // minimax.py asin
  return {is_large, fma(z * s,
                        polynomial(s, {0.16666752099990845, 0.074953094124794, 0.04546914994716644,
                                       0.024184778332710266, 0.042158305644989014}),
                        z)};
}

} // namespace

Expr expand_sin(Expr x) { return select(abs(x) < x.like(0x1p-13), x, sin_from(x, 0)); }

Expr expand_cos(Expr x) { return sin_from(x, 1); }

/// The polynomial and the reciprocal stay in double: in float32 the roundings of the angle and of the tangent add up
/// to 2.5 units.
Expr expand_tan(Expr x) {
  ExprContext &context = x.context();
  const auto i32 = [&](int64_t value) { return context.integer(value, DType::kI32); };
  const Reduced reduced = reduce_angle(x);
  const Expr r = reduced.angle, s = r * r;
  // minimax.py tan
  const Expr value =
      fma(r * s,
          polynomial(s, {0.33333349227905273, 0.1333267241716385, 0.054059434682130814, 0.021282905712723732,
                         0.010837140493094921, 8.483014244120568e-05, 0.004379772115498781}),
          r);
  const Expr is_odd = ne(bits_of(reduced.quarters + x.like(kRound)) & i32(1), i32(0));
  return select(abs(x) < x.like(0x1p-13), x, cast(select(is_odd, value.like(-1) / value, value), DType::kF32));
}

Expr expand_asin(Expr x) {
  const auto [is_large, arc] = arc_sine(abs(x));
  const Expr large = fma(arc, x.like(-2), x.like(kHalfPiHigh)) + x.like(kHalfPiLow);
  return with_sign_of(select(is_large, large, arc), x);
}

Expr expand_acos(Expr x) {
  const auto [is_large, arc] = arc_sine(abs(x));
  const Expr twice = arc + arc;
  const Expr left = x.like(2 * kHalfPiHigh) - (twice - x.like(2 * kHalfPiLow));
  const Expr middle = x.like(kHalfPiHigh) - (flip_sign_by(arc, x) - x.like(kHalfPiLow));
  return select(is_large, select(x < x.like(0), left, twice), middle);
}

Expr atan_of_fraction(Expr z) {
  const Expr s = z * z;
  // minimax.py atan
  return fma(z * s,
             polynomial(s, {-0.33333152532577515, 0.19993767142295837, -0.14211003482341766, 0.10665786266326904,
                            -0.07551728934049606, 0.043205972760915756, -0.016364237293601036, 0.002919756341725588}),
             z);
}

Expr expand_atan(Expr x) {
  const Expr size = abs(x);
  const Expr is_large = size > x.like(1);
  const Expr arc = atan_of_fraction(select(is_large, x.like(-1) / size, size));
  const Expr value = select(is_large, x.like(kHalfPiHigh) + (arc + x.like(kHalfPiLow)), arc);
  return with_sign_of(value, x);
}

Expr expand_atan2(Expr y, Expr x) {
  ExprContext &context = x.context();
  const Expr high = abs(y), wide = abs(x);
  const Expr is_steep = high > wide;
  const Expr least = select(is_steep, wide, high), most = select(is_steep, high, wide);
  // Equal ones include 0 / 0 and inf / inf.
  const Expr quotient = select(eq(least, most), select(eq(most, x.like(0)), x.like(0), x.like(1)), least / most);
  const Expr arc = atan_of_fraction(quotient);
  const Expr is_left = bits_of(x) < context.integer(0, DType::kI32);
  // arc, pi / 2 - arc, pi / 2 + arc, pi - arc.
  const Expr signed_arc = select(is_steep ^ is_left, -arc, arc);
  const Expr base_high = select(is_steep, x.like(kHalfPiHigh), select(is_left, x.like(2 * kHalfPiHigh), x.like(0)));
  const Expr base_low = select(is_steep, x.like(kHalfPiLow), select(is_left, x.like(2 * kHalfPiLow), x.like(0)));
  return with_sign_of(base_high + (signed_arc + base_low), y);
}

} // namespace oxyfuel::math
