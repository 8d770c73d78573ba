// Complex arithmetic as real arithmetic on the two parts. Formulas follow eager: products are the plain four-product
// form, quotients scale by the larger part of the divisor (c10::complex), functions follow C99 annex G where eager
// does.
#include <cmath>

#include "ir/expr_internal.h"

namespace oxyfuel {

namespace {

struct Parts {
  Expr re, im;
};

Parts parts_of(Expr e) { return {real(e), imag(e)}; }
Parts operator+(Parts a, Parts b) { return {a.re + b.re, a.im + b.im}; }
Parts operator-(Parts a, Parts b) { return {a.re - b.re, a.im - b.im}; }
Parts operator-(Parts a) { return {-a.re, -a.im}; }
Parts operator*(Parts a, Parts b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
Parts choose(Expr condition, Parts a, Parts b) {
  return {select(condition, a.re, b.re), select(condition, a.im, b.im)};
}
Parts times_i(Parts a) { return {-a.im, a.re}; }
Parts times_minus_i(Parts a) { return {a.im, -a.re}; }

Expr is_infinite(Expr x) { return eq(abs(x), x.like(HUGE_VAL)); }
Expr is_finite(Expr x) { return abs(x) < x.like(HUGE_VAL); }

Expr has_sign(Expr x) {
  const DType bits = x.dtype() == DType::kF64 ? DType::kI64 : DType::kI32;
  return bitcast(x, bits) < x.context().integer(0, bits);
}
Expr copy_sign(Expr magnitude, Expr sign) { return select(has_sign(sign), -abs(magnitude), abs(magnitude)); }

Parts divide(Parts a, Parts b) {
  const Expr one = a.re.like(1);
  const Expr abs_c = abs(b.re), abs_d = abs(b.im);
  const Expr by_d = b.im / b.re, scale_c = one / (b.re + b.im * by_d);
  const Parts wide{(a.re + a.im * by_d) * scale_c, (a.im - a.re * by_d) * scale_c};
  const Expr by_c = b.re / b.im, scale_d = one / (b.re * by_c + b.im);
  const Parts tall{(a.re * by_c + a.im) * scale_d, (a.im * by_c - a.re) * scale_d};
  const Expr zero = a.re.like(0);
  const Expr by_zero = eq(abs_c, zero) && eq(abs_d, zero);
  return choose(abs_d <= abs_c, choose(by_zero, {a.re / abs_c, a.im / abs_d}, wide), tall);
}

Parts complex_exp(Parts z) {
  const Expr zero = z.re.like(0), magnitude = exp(z.re);
  const Expr is_real = eq(z.im, zero);
  const Parts plain{magnitude * cos(z.im), select(is_real, z.im, magnitude * sin(z.im))};
  // exp(-inf + anything i) is zero, exp(+inf ± inf i) is (inf, NaN).
  const Expr odd = !is_finite(z.im) && is_infinite(z.re);
  const Expr is_low = has_sign(z.re);
  const Parts limit{select(is_low, zero, z.re.like(HUGE_VAL)), select(is_low, copy_sign(zero, z.im), z.im - z.im)};
  return choose(odd, limit, plain);
}

Parts complex_log(Parts z) {
  const Expr x = abs(z.re), y = abs(z.im), one = z.re.like(1);
  const Expr larger = select(x < y, y, x), smaller = select(x < y, x, y);
  const Expr magnitude = hypot(z.re, z.im);
  // Near the unit circle log(hypot) cancels.
  const Expr is_near = z.re.like(0.5) < magnitude && magnitude < z.re.like(2);
  const Expr near = z.re.like(0.5) * log1p((larger - one) * (larger + one) + smaller * smaller);
  return {select(is_near, near, log(magnitude)), atan2(z.im, z.re)};
}

Parts complex_sqrt(Parts z) {
  const Expr zero = z.re.like(0), half = z.re.like(0.5), infinity = z.re.like(HUGE_VAL);
  // Halved before the sum: |re| + |z| may overflow.
  const Expr t = sqrt(abs(z.re) * half + hypot(z.re * half, z.im * half));
  const Expr other = abs(z.im) / (t + t);
  const Parts plain = choose(has_sign(z.re), {other, copy_sign(t, z.im)}, {t, copy_sign(other, z.im)});
  const Expr is_zero = eq(z.re, zero) && eq(z.im, zero);
  const Parts finite = choose(is_zero, {zero, z.im}, plain);
  const Parts left = {select(is_nan(z.im), z.im, zero), copy_sign(infinity, z.im)};
  const Parts right = {infinity, select(is_nan(z.im), z.im, copy_sign(zero, z.im))};
  const Parts along_re = choose(has_sign(z.re), left, right);
  return choose(is_infinite(z.im), {infinity, z.im}, choose(is_infinite(z.re), along_re, finite));
}

Parts complex_sinh(Parts z) {
  const Expr zero = z.re.like(0);
  const Expr keeps_re = !is_finite(z.im) && (eq(z.re, zero) || is_infinite(z.re));
  return {select(keeps_re, z.re, sinh(z.re) * cos(z.im)), select(eq(z.im, zero), z.im, cosh(z.re) * sin(z.im))};
}

Parts complex_cosh(Parts z) {
  const Expr zero = z.im.like(0);
  const Expr is_flat = eq(z.im, zero) || eq(z.re, zero);
  const Expr sine = sin(z.im), is_infinitely_far = !is_finite(z.im) && is_infinite(z.re);
  const Expr im = select(is_flat, copy_sign(zero, z.re) * copy_sign(z.im.like(1), sine), sinh(z.re) * sine);
  return {select(is_infinitely_far, abs(z.re), cosh(z.re) * cos(z.im)), im};
}

Parts complex_tanh(Parts z) {
  // Kahan: with t = tan(im), s = sinh(re), rho = cosh(re): (rho*(1 + t²)*s + i t) / (1 + (1 + t²) s²).
  const Expr one = z.re.like(1), t = tan(z.im), s = sinh(z.re);
  const Expr beta = one + t * t, rho = sqrt(one + s * s), denominator = one + beta * s * s;
  const Parts plain{select(eq(z.re, z.re.like(0)), z.re, beta * rho * s / denominator), t / denominator};
  // For |re| past this, 1 - |tanh| is below half an ulp and sinh² would overflow later.
  const Expr limit = z.re.like(z.re.dtype() == DType::kF64 ? 22 : 11);
  const Expr tail = z.re.like(4) * sin(z.im) * cos(z.im) * exp(z.re.like(-2) * abs(z.re));
  const Expr is_odd = !is_finite(z.im);
  const Parts far{copy_sign(one, z.re), select(is_odd, z.im.like(0), tail)};
  return choose(limit < abs(z.re) && (!is_odd || is_infinite(z.re)), far, plain);
}

/// As cpow, without special cases: eager's 0 ** 0 is NaN.
Parts complex_pow(Parts a, Parts b) { return complex_exp(b * complex_log(a)); }

Expr complex_cast(ExprContext &context, DType dtype, Expr a) {
  if (is_complex(dtype)) {
    const DType part = real_of(dtype);
    if (is_complex(a.dtype()))
      return complex(cast(real(a), part), cast(imag(a), part));
    return complex(cast(a, part), context.real(0, part));
  }
  if (is_bool(dtype))
    return cast(real(a), dtype) || cast(imag(a), dtype);
  return cast(real(a), dtype);
}

Parts expand_function(ExprKind kind, Parts z) {
  switch (kind) {
  case ExprKind::kNeg: return -z;
  case ExprKind::kExp: return complex_exp(z);
  case ExprKind::kExp2: return complex_exp({z.re * z.re.like(M_LN2), z.im * z.re.like(M_LN2)});
  case ExprKind::kLog: return complex_log(z);
  case ExprKind::kLog2:
  case ExprKind::kLog10: {
    const Parts log = complex_log(z);
    const Expr scale = z.re.like(kind == ExprKind::kLog2 ? M_LOG2E : M_LOG10E);
    return {log.re * scale, log.im * scale};
  }
  case ExprKind::kSqrt: return complex_sqrt(z);
  case ExprKind::kSinh: return complex_sinh(z);
  case ExprKind::kCosh: return complex_cosh(z);
  case ExprKind::kTanh: return complex_tanh(z);
  case ExprKind::kSin: return times_minus_i(complex_sinh(times_i(z)));
  case ExprKind::kCos: return complex_cosh(times_i(z));
  case ExprKind::kTan: return times_minus_i(complex_tanh(times_i(z)));
  default: throw UnsupportedError("no complex form of expression kind " + std::to_string(static_cast<int>(kind)));
  }
}

} // namespace

Expr expand_complex(ExprContext &context, ExprKind kind, DType dtype, std::span<const Expr> operands) {
  if (kind == ExprKind::kCast)
    return complex_cast(context, dtype, operands[0]);
  if (kind == ExprKind::kSelect) {
    const Parts parts = choose(operands[0], parts_of(operands[1]), parts_of(operands[2]));
    return complex(parts.re, parts.im);
  }
  const Parts a = parts_of(operands[0]);
  const Parts b = operands.size() > 1 ? parts_of(operands[1]) : Parts{};
  Parts result;
  switch (kind) {
  case ExprKind::kAbs: return hypot(a.re, a.im);
  case ExprKind::kEq: return eq(a.re, b.re) && eq(a.im, b.im);
  case ExprKind::kNe: return ne(a.re, b.re) || ne(a.im, b.im);
  case ExprKind::kAdd: result = a + b; break;
  case ExprKind::kSub: result = a - b; break;
  case ExprKind::kMul: result = a * b; break;
  case ExprKind::kDiv: result = divide(a, b); break;
  case ExprKind::kPow: result = complex_pow(a, b); break;
  case ExprKind::kFma: result = a * b + parts_of(operands[2]); break;
  default: result = expand_function(kind, a); break;
  }
  return complex(result.re, result.im);
}

} // namespace oxyfuel
