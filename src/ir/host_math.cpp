#include "ir/host_math.h"

#include <cmath>
#include <limits>

#include "runtime/abi.h"
#include "support/error.h"
#include "support/half.h"

namespace oxyfuel {

namespace {

constexpr double kPi = 3.14159265358979323846;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

/// Reflection below zero, recurrence up to 10, then the asymptotic series. At the poles as eager: -0 gives +inf, 0
/// gives -inf, negative integers NaN.
double digamma(double x) {
  if (x == 0)
    return std::copysign(kInfinity, -x);
  double result = 0;
  if (x < 0) {
    if (x == std::trunc(x))
      return kNan;
    double whole;
    result = -kPi / std::tan(kPi * std::modf(x, &whole));
    x = 1 - x;
  }
  for (; x < 10; x += 1)
    result -= 1 / x;
  if (x >= 1e17)
    return result + std::log(x);
  // Bernoulli numbers over 2n: Abramowitz and Stegun 6.3.18.
  const double z = 1 / (x * x);
  const double series =
      z * (1.0 / 12 - z * (1.0 / 120 -
                           z * (1.0 / 252 - z * (1.0 / 240 - z * (1.0 / 132 - z * (691.0 / 32760 - z * (1.0 / 12)))))));
  return result + std::log(x) - 0.5 / x - series;
}

/// Winitzki's approximation, polished by Newton steps on erf, or on erfc in the tail where erf is flat.
double erfinv(double y) {
  if (!(std::fabs(y) <= 1))
    return kNan;
  if (std::fabs(y) == 1)
    return std::copysign(kInfinity, y);
  if (y == 0)
    return y;
  const double magnitude = std::fabs(y), log_term = std::log1p(-magnitude * magnitude);
  const double a = 0.147, t = 2 / (kPi * a) + log_term / 2;
  double x = std::sqrt(std::sqrt(t * t - log_term / a) - t);
  for (int i = 0; i < 4; ++i) {
    const double slope = 2 / std::sqrt(kPi) * std::exp(-x * x);
    const double miss = magnitude < 0.5 ? std::erf(x) - magnitude : (1 - magnitude) - std::erfc(x);
    if (slope == 0)
      break;
    x -= miss / slope;
  }
  return std::copysign(x, y);
}

double binary_host_function(int64_t function, double a, double b) {
  const auto fa = static_cast<float>(a), fb = static_cast<float>(b);
  switch (function) {
  case kHostPow: return std::pow(a, b);
  case kHostAtan2: return std::atan2(a, b);
  case kHostFmod: return std::fmod(a, b);
  case kHostHypot: return std::hypot(a, b);
  case kHostNextafter: return std::nextafter(a, b);
  case kHostPowF: return std::pow(fa, fb);
  case kHostAtan2F: return std::atan2(fa, fb);
  case kHostNextafterF: return std::nextafter(fa, fb);
  default: throw InternalError("no host function of two operands has number " + std::to_string(function));
  }
}

} // namespace

double math_function(ExprKind kind, double a, double b) {
  switch (kind) {
  case ExprKind::kExp: return std::exp(a);
  case ExprKind::kExp2: return std::exp2(a);
  case ExprKind::kExpm1: return std::expm1(a);
  case ExprKind::kLog: return std::log(a);
  case ExprKind::kLog2: return std::log2(a);
  case ExprKind::kLog10: return std::log10(a);
  case ExprKind::kLog1p: return std::log1p(a);
  case ExprKind::kSin: return std::sin(a);
  case ExprKind::kCos: return std::cos(a);
  case ExprKind::kTan: return std::tan(a);
  case ExprKind::kAsin: return std::asin(a);
  case ExprKind::kAcos: return std::acos(a);
  case ExprKind::kAtan: return std::atan(a);
  case ExprKind::kSinh: return std::sinh(a);
  case ExprKind::kCosh: return std::cosh(a);
  case ExprKind::kTanh: return std::tanh(a);
  case ExprKind::kAsinh: return std::asinh(a);
  case ExprKind::kAcosh: return std::acosh(a);
  case ExprKind::kAtanh: return std::atanh(a);
  case ExprKind::kErf: return std::erf(a);
  case ExprKind::kErfc: return std::erfc(a);
  case ExprKind::kErfinv: return erfinv(a);
  case ExprKind::kLgamma: return std::lgamma(a);
  case ExprKind::kDigamma: return digamma(a);
  case ExprKind::kPow: return std::pow(a, b);
  case ExprKind::kAtan2: return std::atan2(a, b);
  case ExprKind::kHypot: return std::hypot(a, b);
  default: throw InternalError("no such function of reals: expression kind " + std::to_string(static_cast<int>(kind)));
  }
}

double host_function(int64_t function, int count, double a, double b) {
  if (count == 2)
    return binary_host_function(function, a, b);
  constexpr ExprKind kinds[] = {ExprKind::kExp,   ExprKind::kExp2,  ExprKind::kExpm1, ExprKind::kLog,   ExprKind::kLog2,
                                ExprKind::kLog10, ExprKind::kLog1p, ExprKind::kSin,   ExprKind::kCos,   ExprKind::kTan,
                                ExprKind::kAsin,  ExprKind::kAcos,  ExprKind::kAtan,  ExprKind::kSinh,  ExprKind::kCosh,
                                ExprKind::kTanh,  ExprKind::kAsinh, ExprKind::kAcosh, ExprKind::kAtanh, ExprKind::kErf,
                                ExprKind::kErfc,  ExprKind::kLgamma};
  static_assert(sizeof(kinds) / sizeof(kinds[0]) == kHostLgamma + 1); // in the order of OxyfuelHostFunction
  if (function >= 0 && function <= kHostLgamma)
    return math_function(kinds[function], a, 0);
  const auto fa = static_cast<float>(a);
  switch (function) {
  case kHostTgamma: return std::tgamma(a);
  case kHostCbrt: return std::cbrt(a);
  case kHostLgammaF: return std::lgamma(fa);
  case kHostTgammaF: return std::tgamma(fa);
  case kHostSinF: return std::sin(fa);
  case kHostCosF: return std::cos(fa);
  case kHostTanF: return std::tan(fa);
  default: throw InternalError("no host function of one operand has number " + std::to_string(function));
  }
}

double next_half(float a, float b, DType dtype) {
  if (a != a || b != b)
    return kNan;
  if (a == b)
    return b;
  const bool is_f16 = dtype == DType::kF16;
  uint16_t bits = is_f16 ? f16_from_float(a) : bf16_from_float(a);
  if ((bits & 0x7fffu) == 0)
    bits = b > 0 ? 0x0001 : 0x8001;
  else
    bits = static_cast<uint16_t>((b > a) == (a > 0) ? bits + 1 : bits - 1);
  return is_f16 ? float_from_f16(bits) : float_from_bf16(bits);
}

} // namespace oxyfuel
