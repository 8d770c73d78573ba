#include "runtime/host_table.h"

#include <cmath>

namespace oxyfuel::runtime {
namespace {

using Unary = double (*)(double);
using Binary = double (*)(double, double);

struct Tables {
  Unary unary[kHostFunctionCount];
  Binary binary[kHostFunction2Count];
  OxyfuelHostTable table;
};

// The reentrant forms: lgamma writes the global signgam, which is a race between workers.
double log_gamma(double x) {
  int sign;
  return lgamma_r(x, &sign);
}
double log_gamma_float(double x) {
  int sign;
  return lgammaf_r(static_cast<float>(x), &sign);
}

template <float (*function)(float)> double as_float(double x) { return function(static_cast<float>(x)); }
template <float (*function)(float, float)> double as_float(double x, double y) {
  return function(static_cast<float>(x), static_cast<float>(y));
}

void fill(Tables &tables) {
  Unary *unary = tables.unary;
  unary[kHostExp] = ::exp, unary[kHostExp2] = ::exp2, unary[kHostExpm1] = ::expm1;
  unary[kHostLog] = ::log, unary[kHostLog2] = ::log2, unary[kHostLog10] = ::log10, unary[kHostLog1p] = ::log1p;
  unary[kHostSin] = ::sin, unary[kHostCos] = ::cos, unary[kHostTan] = ::tan;
  unary[kHostAsin] = ::asin, unary[kHostAcos] = ::acos, unary[kHostAtan] = ::atan;
  unary[kHostSinh] = ::sinh, unary[kHostCosh] = ::cosh, unary[kHostTanh] = ::tanh;
  unary[kHostAsinh] = ::asinh, unary[kHostAcosh] = ::acosh, unary[kHostAtanh] = ::atanh;
  unary[kHostErf] = ::erf, unary[kHostErfc] = ::erfc;
  unary[kHostLgamma] = log_gamma, unary[kHostTgamma] = ::tgamma, unary[kHostCbrt] = ::cbrt;
  unary[kHostLgammaF] = log_gamma_float, unary[kHostTgammaF] = as_float<::tgammaf>;
  unary[kHostSinF] = as_float<::sinf>, unary[kHostCosF] = as_float<::cosf>, unary[kHostTanF] = as_float<::tanf>;
  Binary *binary = tables.binary;
  binary[kHostPow] = ::pow, binary[kHostAtan2] = ::atan2, binary[kHostFmod] = ::fmod, binary[kHostHypot] = ::hypot;
  binary[kHostNextafter] = ::nextafter, binary[kHostPowF] = as_float<::powf>, binary[kHostAtan2F] = as_float<::atan2f>;
  binary[kHostNextafterF] = as_float<::nextafterf>;
  tables.table = {tables.unary, tables.binary};
}

} // namespace

const OxyfuelHostTable &host_table() {
  static const Tables &tables = [&]() -> const Tables & {
    static Tables filled{};
    fill(filled);
    return filled;
  }();
  return tables.table;
}

} // namespace oxyfuel::runtime
