// The named builders of expr.h: each picks the kind and the result type.
#include <array>

#include "ir/expr_internal.h"

namespace oxyfuel {

namespace {

Expr unary(ExprKind kind, Expr a) { return a.context().make(kind, a.dtype(), std::array{a}); }
Expr binary(ExprKind kind, Expr a, Expr b) { return a.context().make(kind, a.dtype(), std::array{a, b}); }
Expr compare(ExprKind kind, Expr a, Expr b) { return a.context().make(kind, DType::kBool, std::array{a, b}); }
Expr same_type(Expr a, int64_t value) {
  return is_integer(a.dtype()) ? a.context().integer(value, a.dtype()) : a.like(static_cast<double>(value));
}

} // namespace

Expr operator+(Expr a, Expr b) { return binary(ExprKind::kAdd, a, b); }
Expr operator-(Expr a, Expr b) { return binary(ExprKind::kSub, a, b); }
Expr operator*(Expr a, Expr b) { return binary(ExprKind::kMul, a, b); }
Expr operator/(Expr a, Expr b) { return binary(ExprKind::kDiv, a, b); }
Expr operator&(Expr a, Expr b) { return binary(ExprKind::kAnd, a, b); }
Expr operator|(Expr a, Expr b) { return binary(ExprKind::kOr, a, b); }
Expr operator^(Expr a, Expr b) { return binary(ExprKind::kXor, a, b); }
Expr operator&&(Expr a, Expr b) { return binary(ExprKind::kAnd, a, b); }
Expr operator||(Expr a, Expr b) { return binary(ExprKind::kOr, a, b); }
Expr floor_div(Expr a, Expr b) { return binary(ExprKind::kFloorDiv, a, b); }
Expr floor_mod(Expr a, Expr b) { return binary(ExprKind::kFloorMod, a, b); }
Expr rem(Expr a, Expr b) { return binary(ExprKind::kRem, a, b); }
Expr min(Expr a, Expr b) { return binary(ExprKind::kMin, a, b); }
Expr max(Expr a, Expr b) { return binary(ExprKind::kMax, a, b); }
Expr shl(Expr a, Expr b) { return binary(ExprKind::kShl, a, b); }
Expr shr(Expr a, Expr b) { return binary(ExprKind::kShr, a, b); }
Expr pow(Expr a, Expr b) { return binary(ExprKind::kPow, a, b); }
Expr atan2(Expr a, Expr b) { return binary(ExprKind::kAtan2, a, b); }
Expr hypot(Expr a, Expr b) { return binary(ExprKind::kHypot, a, b); }
Expr nextafter(Expr a, Expr b) { return binary(ExprKind::kNextafter, a, b); }

Expr operator<(Expr a, Expr b) { return compare(ExprKind::kLt, a, b); }
Expr operator<=(Expr a, Expr b) { return compare(ExprKind::kLe, a, b); }
Expr operator>(Expr a, Expr b) { return compare(ExprKind::kLt, b, a); }
Expr operator>=(Expr a, Expr b) { return compare(ExprKind::kLe, b, a); }
Expr eq(Expr a, Expr b) { return compare(ExprKind::kEq, a, b); }
Expr ne(Expr a, Expr b) { return compare(ExprKind::kNe, a, b); }

Expr operator+(Expr a, int64_t b) { return a + same_type(a, b); }
Expr operator-(Expr a, int64_t b) { return a - same_type(a, b); }
Expr operator*(Expr a, int64_t b) { return a * same_type(a, b); }
Expr floor_div(Expr a, int64_t b) { return floor_div(a, same_type(a, b)); }
Expr floor_mod(Expr a, int64_t b) { return floor_mod(a, same_type(a, b)); }
Expr ceil_div(Expr a, int64_t b) { return floor_div(a + (b - 1), b); }

Expr operator-(Expr a) { return unary(ExprKind::kNeg, a); }
Expr operator!(Expr a) {
  OXYFUEL_CHECK(a && is_bool(a.dtype()), "`!` is the negation of a bool expression; is_empty() asks for absence");
  return unary(ExprKind::kNot, a);
}
Expr abs(Expr a) { return a.context().make(ExprKind::kAbs, real_of(a.dtype()), std::array{a}); }
Expr sqrt(Expr a) { return unary(ExprKind::kSqrt, a); }
Expr floor(Expr a) { return unary(ExprKind::kFloor, a); }
Expr ceil(Expr a) { return unary(ExprKind::kCeil, a); }
Expr trunc(Expr a) { return unary(ExprKind::kTrunc, a); }
Expr rint(Expr a) { return unary(ExprKind::kRint, a); }
Expr exp(Expr a) { return unary(ExprKind::kExp, a); }
Expr exp2(Expr a) { return unary(ExprKind::kExp2, a); }
Expr expm1(Expr a) { return unary(ExprKind::kExpm1, a); }
Expr log(Expr a) { return unary(ExprKind::kLog, a); }
Expr log2(Expr a) { return unary(ExprKind::kLog2, a); }
Expr log10(Expr a) { return unary(ExprKind::kLog10, a); }
Expr log1p(Expr a) { return unary(ExprKind::kLog1p, a); }
Expr sin(Expr a) { return unary(ExprKind::kSin, a); }
Expr cos(Expr a) { return unary(ExprKind::kCos, a); }
Expr tan(Expr a) { return unary(ExprKind::kTan, a); }
Expr asin(Expr a) { return unary(ExprKind::kAsin, a); }
Expr acos(Expr a) { return unary(ExprKind::kAcos, a); }
Expr atan(Expr a) { return unary(ExprKind::kAtan, a); }
Expr sinh(Expr a) { return unary(ExprKind::kSinh, a); }
Expr cosh(Expr a) { return unary(ExprKind::kCosh, a); }
Expr tanh(Expr a) { return unary(ExprKind::kTanh, a); }
Expr asinh(Expr a) { return unary(ExprKind::kAsinh, a); }
Expr acosh(Expr a) { return unary(ExprKind::kAcosh, a); }
Expr atanh(Expr a) { return unary(ExprKind::kAtanh, a); }
Expr erf(Expr a) { return unary(ExprKind::kErf, a); }
Expr erfc(Expr a) { return unary(ExprKind::kErfc, a); }
Expr erfinv(Expr a) { return unary(ExprKind::kErfinv, a); }
Expr lgamma(Expr a) { return unary(ExprKind::kLgamma, a); }
Expr digamma(Expr a) { return unary(ExprKind::kDigamma, a); }

Expr is_nan(Expr a) { return ne(a, a); }
Expr select(Expr condition, Expr a, Expr b) {
  return a.context().make(ExprKind::kSelect, a.dtype(), std::array{condition, a, b});
}
Expr cast(Expr a, DType dtype) {
  return a.dtype() == dtype ? a : a.context().make(ExprKind::kCast, dtype, std::array{a});
}
Expr bitcast(Expr a, DType dtype) {
  OXYFUEL_CHECK(size_of(a.dtype()) == size_of(dtype), "bitcast between types of different size");
  return a.dtype() == dtype ? a : a.context().make(ExprKind::kBitcast, dtype, std::array{a});
}
Expr fma(Expr a, Expr b, Expr c) { return a.context().make(ExprKind::kFma, a.dtype(), std::array{a, b, c}); }
Expr real(Expr a) {
  return is_complex(a.dtype()) ? a.context().make(ExprKind::kReal, real_of(a.dtype()), std::array{a}) : a;
}
Expr imag(Expr a) {
  return is_complex(a.dtype()) ? a.context().make(ExprKind::kImag, real_of(a.dtype()), std::array{a}) : a.like(0);
}
Expr complex(Expr re, Expr im) {
  OXYFUEL_CHECK(re.dtype() == DType::kF32 || re.dtype() == DType::kF64, "the parts of a complex number are f32 or f64");
  return re.context().make(ExprKind::kComplex, re.dtype() == DType::kF32 ? DType::kC64 : DType::kC128,
                           std::array{re, im});
}

} // namespace oxyfuel
