// The expansions behind expand_math.h, one file a family, and what they share. Each takes operands of one dtype and
// gives the function's value in that dtype.
#pragma once

#include <cmath>
#include <initializer_list>
#include <limits>

#include "ir/expr.h"

namespace oxyfuel::math {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Constants as the sum of a float32 (or a double) and what its rounding leaves.
inline constexpr double kLn2 = 0x1.62e42fefa39efp-1;
inline constexpr double kLog2E = 0x1.71547652b82fep+0;
inline constexpr double kPi = 0x1.921fb54442d18p+1;
inline constexpr double kLn2High = 0x1.62e43p-1, kLn2Low = -0x1.05c610ca86c39p-29;
inline constexpr double kHalfPiHigh = 0x1.921fb6p+0, kHalfPiLow = -0x1.777a5cf72cecep-25;

/// Adding and subtracting 1.5 * 2^23 rounds a small float32 to an integer, and leaves that integer in the low bits of
/// the sum; 1.5 * 2^52 does so in double. No conversion between floats and integers is needed, which NaN would make
/// undefined.
inline constexpr double kRound = 0x1.8p+23, kRoundDouble = 0x1.8p+52;

/// c[0] + x * (c[1] + x * (…)).
Expr polynomial(Expr x, std::initializer_list<double> coefficients);

/// The bits of a float16, float32 or float64 as a signed integer of its size.
Expr bits_of(Expr x);
/// `magnitude` (sign bit clear) with the sign bit of `sign`.
Expr with_sign_of(Expr magnitude, Expr sign);
/// `x`, its sign flipped where the sign bit of `sign` is set.
Expr flip_sign_by(Expr x, Expr sign);
/// The lesser of `x` and `limit`; NaN stays NaN. The form that targets have one instruction for.
Expr at_most(Expr x, double limit);
Expr at_least(Expr x, double limit);

/// 2^n for the integer n in `rounded` = n + kRound + 127 (float32) or n + kRoundDouble + 1023 (float64).
Expr power_of_two(Expr rounded);

/// x = 2^exponent * (1 + fraction) with sqrt(1/2) <= 1 + fraction < sqrt(2), for finite x > 0 (denormals too); any
/// other x gives numbers without meaning.
struct Decomposed {
  Expr exponent, fraction;
};
Decomposed decompose(Expr x);
/// log(1 + f) in float32, for the fractions of `decompose`.
Expr log_of_fraction(Expr fraction);

/// exp(x) = scale * (1 + tail), in double to 2^-37, for |x| < 700.
struct Exponential {
  Expr scale, tail;
};
Exponential exp_parts_double(Expr x);
Expr exp_double(Expr x);
/// expm1(x), relative to itself to 2^-37.
Expr expm1_double(Expr x);
/// log(x) in double to 2^-38, relative to itself; x positive, normal and finite.
Expr log_double(Expr x);
/// log of a float32 that is positive and finite, in double to 2^-38.
Expr log_double_of_float(Expr x);

/// atan(z) in float32, 0 <= z <= 1.
Expr atan_of_fraction(Expr z);

/// A function of runtime/abi.h's host table (OxyfuelHostFunction, OxyfuelHostFunction2), on float64.
Expr host_call(Expr x, int function);
Expr host_call(Expr x, Expr y, int function);

// float32 → float32.
Expr expand_exp(Expr x);
Expr expand_exp2(Expr x);
Expr expand_expm1(Expr x);
Expr expand_log(Expr x);
Expr expand_log2(Expr x);
Expr expand_log10(Expr x);
Expr expand_log1p(Expr x);
Expr expand_sin(Expr x);
Expr expand_cos(Expr x);
Expr expand_tan(Expr x);
Expr expand_asin(Expr x);
Expr expand_acos(Expr x);
Expr expand_atan(Expr x);
Expr expand_atan2(Expr y, Expr x);
Expr expand_sinh(Expr x);
Expr expand_cosh(Expr x);
Expr expand_tanh(Expr x);
Expr expand_asinh(Expr x);
Expr expand_acosh(Expr x);
Expr expand_atanh(Expr x);
Expr expand_erf(Expr x);
Expr expand_erfc(Expr x);
Expr expand_pow(Expr x, Expr y);
Expr expand_hypot(Expr x, Expr y);

// float32 or float64.
Expr expand_erfinv(Expr x);
Expr expand_digamma(Expr x);

/// Any float type; half types move in their own grid.
Expr expand_nextafter(Expr x, Expr y);

} // namespace oxyfuel::math
