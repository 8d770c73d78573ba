// Mathematical functions: exponentials, logarithms, trigonometry, powers.
#include <cmath>

#include "ops/pointwise.h"

namespace oxyfuel {

namespace {

template <int N> struct Function : Pointwise<N> {
  static constexpr DTypeRule dtype = DTypeRule::kFloat;
  static constexpr int ulps = 2, cost = 16;
};

struct Exp : Function<1> {
  static constexpr std::string_view name = "exp", aten = "aten.exp.default prims.exp.default", doc = "e to the x";
  static auto body(auto x) { return exp(x); }
};
struct Exp2 : Function<1> {
  static constexpr std::string_view name = "exp2",
                                    aten = "aten.exp2.default aten.special_exp2.default prims.exp2.default",
                                    doc = "2 to the x";
  static auto body(auto x) { return exp2(x); }
};
struct Expm1 : Function<1> {
  static constexpr std::string_view name = "expm1", aten = "aten.expm1.default prims.expm1.default",
                                    doc = "e to the x, minus 1";
  static auto body(auto x) { return is_complex(x.dtype()) ? exp(x) - x.like(1) : expm1(x); }
};
struct Log : Function<1> {
  static constexpr std::string_view name = "log", aten = "aten.log.default prims.log.default",
                                    doc = "natural logarithm";
  static auto body(auto x) { return log(x); }
};
struct Log2 : Function<1> {
  static constexpr std::string_view name = "log2", aten = "aten.log2.default prims.log2.default",
                                    doc = "logarithm to base 2";
  static auto body(auto x) { return log2(x); }
};
struct Log10 : Function<1> {
  static constexpr std::string_view name = "log10", aten = "aten.log10.default prims.log10.default",
                                    doc = "logarithm to base 10";
  static auto body(auto x) { return log10(x); }
};
struct Log1p : Function<1> {
  static constexpr std::string_view name = "log1p", aten = "aten.log1p.default prims.log1p.default", doc = "log(1 + x)";
  static auto body(auto x) { return log1p(x); }
};
struct Sin : Function<1> {
  static constexpr std::string_view name = "sin", aten = "aten.sin.default prims.sin.default", doc = "sine";
  static auto body(auto x) { return sin(x); }
};
struct Cos : Function<1> {
  static constexpr std::string_view name = "cos", aten = "aten.cos.default prims.cos.default", doc = "cosine";
  static auto body(auto x) { return cos(x); }
};
struct Tan : Function<1> {
  static constexpr std::string_view name = "tan", aten = "aten.tan.default prims.tan.default", doc = "tangent";
  static auto body(auto x) { return tan(x); }
};
struct Asin : Function<1> {
  static constexpr std::string_view name = "asin", aten = "aten.asin.default prims.asin.default", doc = "inverse sine";
  static auto body(auto x) { return asin(x); }
};
struct Acos : Function<1> {
  static constexpr std::string_view name = "acos", aten = "aten.acos.default prims.acos.default",
                                    doc = "inverse cosine";
  static auto body(auto x) { return acos(x); }
};
struct Atan : Function<1> {
  static constexpr std::string_view name = "atan", aten = "aten.atan.default prims.atan.default",
                                    doc = "inverse tangent";
  static auto body(auto x) { return atan(x); }
};
struct Sinh : Function<1> {
  static constexpr std::string_view name = "sinh", aten = "aten.sinh.default prims.sinh.default",
                                    doc = "hyperbolic sine";
  static auto body(auto x) { return sinh(x); }
};
struct Cosh : Function<1> {
  static constexpr std::string_view name = "cosh", aten = "aten.cosh.default prims.cosh.default",
                                    doc = "hyperbolic cosine";
  static auto body(auto x) { return cosh(x); }
};
struct Tanh : Function<1> {
  static constexpr std::string_view name = "tanh", aten = "aten.tanh.default prims.tanh.default",
                                    doc = "hyperbolic tangent";
  static auto body(auto x) { return tanh(x); }
};
struct Asinh : Function<1> {
  static constexpr std::string_view name = "asinh", aten = "aten.asinh.default prims.asinh.default",
                                    doc = "inverse hyperbolic sine";
  static auto body(auto x) { return asinh(x); }
};
struct Acosh : Function<1> {
  static constexpr std::string_view name = "acosh", aten = "aten.acosh.default prims.acosh.default",
                                    doc = "inverse hyperbolic cosine";
  static auto body(auto x) { return acosh(x); }
};
struct Atanh : Function<1> {
  static constexpr std::string_view name = "atanh", aten = "aten.atanh.default prims.atanh.default",
                                    doc = "inverse hyperbolic tangent";
  static auto body(auto x) { return atanh(x); }
};
struct Erf : Function<1> {
  static constexpr std::string_view name = "erf", aten = "aten.erf.default aten.special_erf.default prims.erf.default",
                                    doc = "error function";
  static auto body(auto x) { return erf(x); }
};
struct Erfc : Function<1> {
  static constexpr std::string_view name = "erfc",
                                    aten = "aten.erfc.default aten.special_erfc.default prims.erfc.default",
                                    doc = "1 - erf(x)";
  static auto body(auto x) { return erfc(x); }
};
struct Erfinv : Function<1> {
  static constexpr std::string_view name = "erfinv",
                                    aten = "aten.erfinv.default aten.special_erfinv.default prims.erf_inv.default",
                                    doc = "inverse of the error function";
  static auto body(auto x) { return erfinv(x); }
};
struct Lgamma : Function<1> {
  static constexpr std::string_view name = "lgamma",
                                    aten = "aten.lgamma.default aten.special_gammaln.default prims.lgamma.default",
                                    doc = "logarithm of |gamma(x)|";
  static constexpr int cost = 60;
  static auto body(auto x) { return lgamma(x); }
};
struct Digamma : Function<1> {
  static constexpr std::string_view
      name = "digamma",
      aten = "aten.digamma.default aten.special_digamma.default aten.special_psi.default prims.digamma.default",
      doc = "derivative of lgamma";
  static constexpr int cost = 60;
  static auto body(auto x) { return digamma(x); }
};
/// Six steps of the recurrence, then the asymptotic series; reflection below 1/2 (ATen's trigamma).
struct Trigamma : Function<1> {
  static constexpr std::string_view name = "trigamma", doc = "second derivative of lgamma";
  static constexpr int cost = 60;
  static constexpr bool is_real_only = true;
  static auto body(auto x) {
    auto one = x.like(1);
    auto is_low = x < x.like(0.5);
    auto sine = sin(x * x.like(M_PI));
    auto y = select(is_low, one - x, x);
    auto sum = select(is_low, x.like(-M_PI * M_PI) / (sine * sine), x.like(0));
    for (int i = 0; i < 6; ++i) {
      sum = sum + one / (y * y);
      y = y + one;
    }
    auto square = one / (y * y);
    auto series = one + one / (x.like(2) * y) +
                  square * (x.like(1.0 / 6) - square * (x.like(1.0 / 30) - square * x.like(1.0 / 42)));
    sum = sum + series / y;
    return select(is_low, -sum, sum);
  }
};

struct Atan2 : Function<2> {
  static constexpr std::string_view name = "atan2", aten = "aten.atan2.default prims.atan2.default",
                                    doc = "angle of the point (b, a)";
  static auto body(auto a, auto b) { return atan2(a, b); }
};
struct Hypot : Function<2> {
  static constexpr std::string_view name = "hypot", aten = "aten.hypot.default prims.hypot.default",
                                    doc = "sqrt(a * a + b * b)";
  static auto body(auto a, auto b) { return hypot(a, b); }
};
struct Nextafter : Pointwise<2> {
  static constexpr std::string_view name = "nextafter", doc = "the next value from a towards b";
  static auto body(auto a, auto b) { return nextafter(a, b); }
};

struct Copysign : Pointwise<2> {
  static constexpr std::string_view name = "copysign", aten = "aten.copysign.Tensor aten.copysign.Scalar",
                                    doc = "|a| with the sign of b";
  static constexpr DTypeRule dtype = DTypeRule::kFloat;
  static auto body(auto a, auto b) {
    DType bits = size_of(a.dtype()) == 8 ? DType::kI64 : DType::kI32;
    auto sign = bitcast(b, bits), value = bitcast(a, bits);
    auto mask = sign.context().integer(size_of(a.dtype()) == 8 ? INT64_MIN : INT32_MIN, bits);
    return bitcast((value & (mask ^ mask.context().integer(-1, bits))) | (sign & mask), a.dtype());
  }
};

/// ATen's powi: squaring; a negative exponent gives 0 except for the bases 1 and -1.
auto integer_power(auto a, auto b) {
  auto zero = a.like(0), one = a.like(1);
  auto result = one, power = a;
  int bits = static_cast<int>(size_of(a.dtype())) * 8;
  for (int i = 0; i < bits; ++i) {
    auto bit = shr(b, b.like(i)) & one;
    result = select(eq(bit, zero), result, result * power);
    if (i + 1 < bits)
      power = power * power;
  }
  if (!is_signed_integer(a.dtype()))
    return result;
  auto odd = ne(b & one, zero);
  auto inverse = select(eq(a, one), one, select(eq(a, a.like(-1)), select(odd, a.like(-1), one), zero));
  return select(b < b.like(0), inverse, result);
}

struct Pow : Pointwise<2> {
  static constexpr std::string_view name = "pow", aten = "aten.pow.Tensor_Tensor prims.pow.default",
                                    doc = "a to the power b; integers wrap";
  static constexpr int ulps = 2, cost = 40;
  static auto body(auto a, auto b) {
    if (is_bool(a.dtype()))
      return a || !b;
    return is_integer(a.dtype()) ? integer_power(a, b) : pow(a, b);
  }
};

struct Xlogy : Function<2> {
  static constexpr std::string_view name = "xlogy", doc = "a * log(b), 0 where a is 0 unless b is NaN",
                                    aten = "aten.xlogy.Tensor aten.xlogy.Scalar_Self aten.xlogy.Scalar_Other "
                                           "aten.special_xlogy.default";
  static auto body(auto a, auto b, const graph::Node &node) {
    return select(ne(b, b), b, select(eq(a, a.like(0)), a.like(0), a * half_step(log(b), node)));
  }
};

struct Xlog1py : Function<2> {
  static constexpr std::string_view name = "xlog1py", aten = "aten.special_xlog1py.default",
                                    doc = "a * log1p(b), 0 where a is 0 unless b is NaN";
  static auto body(auto a, auto b, const graph::Node &node) {
    return select(ne(b, b), b, select(eq(a, a.like(0)), a.like(0), a * half_step(log1p(b), node)));
  }
};

struct Logaddexp : Function<2> {
  static constexpr std::string_view name = "logaddexp", aten = "aten.logaddexp.default", doc = "log(exp(a) + exp(b))";
  static auto body(auto a, auto b) {
    auto larger = select(a >= b, a, b);
    return select(eq(a, b) && eq(abs(a), a.like(__builtin_inf())), a, larger + log1p(exp(-abs(a - b))));
  }
};

struct Logaddexp2 : Function<2> {
  static constexpr std::string_view name = "logaddexp2", aten = "aten.logaddexp2.default", doc = "log2(2**a + 2**b)";
  static auto body(auto a, auto b) {
    auto larger = select(a >= b, a, b);
    auto sum = larger + log1p(exp2(-abs(a - b))) * a.like(1.4426950408889634074); // log2(e)
    return select(eq(a, b) && eq(abs(a), a.like(__builtin_inf())), a, sum);
  }
};

struct Sinc : Function<1> {
  static constexpr std::string_view name = "sinc", aten = "aten.sinc.default aten.special_sinc.default",
                                    doc = "sin(pi x) / (pi x), 1 at 0";
  static auto body(auto x) {
    auto angle = x * x.like(M_PI);
    auto is_zero = eq(x, x.like(0));
    return select(is_zero, x.like(1), sin(angle) / select(is_zero, x.like(1), angle));
  }
};

struct Logit : Function<1> {
  static constexpr std::string_view name = "logit", aten = "aten.logit.default aten.special_logit.default",
                                    doc = "log(x / (1 - x)), x kept in [eps, 1 - eps] when `eps` is given";
  static Attributes attributes(const AtenCall &call) {
    return call.has(1) ? Attributes{{"eps", call.number(1)}} : Attributes{};
  }
  static auto body(auto x, const graph::Node &node) {
    if (node.has("eps")) {
      auto low = x.like(number_attribute(node, "eps")), high = x.like(1) - low;
      x = select(x < low, low, select(x > high, high, x));
    }
    return log(half_step(x / half_step(x.like(1) - x, node), node));
  }
};

struct Deg2rad : Function<1> {
  static constexpr std::string_view name = "deg2rad", aten = "aten.deg2rad.default", doc = "degrees to radians";
  static constexpr int ulps = 0, cost = 1;
  static auto body(auto x) { return x * x.like(M_PI / 180); }
};

struct Rad2deg : Function<1> {
  static constexpr std::string_view name = "rad2deg", aten = "aten.rad2deg.default", doc = "radians to degrees";
  static constexpr int ulps = 0, cost = 1;
  static auto body(auto x) { return x * x.like(180 / M_PI); }
};

using Table =
    PointwiseTable<Exp, Exp2, Expm1, Log, Log2, Log10, Log1p, Sin, Cos, Tan, Asin, Acos, Atan, Sinh, Cosh, Tanh, Asinh,
                   Acosh, Atanh, Erf, Erfc, Erfinv, Lgamma, Digamma, Trigamma, Atan2, Hypot, Nextafter, Copysign, Pow,
                   Xlogy, Xlog1py, Logaddexp, Logaddexp2, Sinc, Logit, Deg2rad, Rad2deg>;

} // namespace

OpTable pointwise_math() { return Table::table(); }

} // namespace oxyfuel
