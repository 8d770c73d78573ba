#include "passes/loop/expand_math.h"

#include <array>
#include <type_traits>

#include "passes/loop/expand_math_internal.h"
#include "runtime/abi.h"
#include "support/error.h"

namespace oxyfuel {

namespace math {

Expr polynomial(Expr x, std::initializer_list<double> coefficients) {
  auto i = coefficients.end();
  Expr sum = x.like(*--i);
  while (i != coefficients.begin())
    sum = fma(sum, x, x.like(*--i));
  return sum;
}

static DType integer_like(DType dtype) {
  return size_of(dtype) == 8 ? DType::kI64 : size_of(dtype) == 4 ? DType::kI32 : DType::kI16;
}

Expr bits_of(Expr x) { return bitcast(x, integer_like(x.dtype())); }

static Expr sign_bit(Expr x) {
  const DType integer = integer_like(x.dtype());
  const int64_t mask = integer == DType::kI64 ? INT64_MIN : integer == DType::kI32 ? INT32_MIN : INT16_MIN;
  return bits_of(x) & x.context().integer(mask, integer);
}

Expr with_sign_of(Expr magnitude, Expr sign) { return bitcast(bits_of(magnitude) | sign_bit(sign), sign.dtype()); }
Expr flip_sign_by(Expr x, Expr sign) { return bitcast(bits_of(x) ^ sign_bit(sign), x.dtype()); }
Expr at_most(Expr x, double limit) { return select(x.like(limit) < x, x.like(limit), x); }
Expr at_least(Expr x, double limit) { return select(x < x.like(limit), x.like(limit), x); }

Expr host_call(Expr x, int function) {
  return x.context().make(ExprKind::kHostCall, DType::kF64, std::array{x}, function);
}

Expr host_call(Expr x, Expr y, int function) {
  return x.context().make(ExprKind::kHostCall, DType::kF64, std::array{x, y}, function);
}

namespace {

/// The float32 expansion of a function of one operand; empty where there is none.
Expr expand_single(ExprKind kind, Expr x) {
  switch (kind) {
  case ExprKind::kExp: return expand_exp(x);
  case ExprKind::kExp2: return expand_exp2(x);
  case ExprKind::kExpm1: return expand_expm1(x);
  case ExprKind::kLog: return expand_log(x);
  case ExprKind::kLog2: return expand_log2(x);
  case ExprKind::kLog10: return expand_log10(x);
  case ExprKind::kLog1p: return expand_log1p(x);
  case ExprKind::kSin: return expand_sin(x);
  case ExprKind::kCos: return expand_cos(x);
  case ExprKind::kTan: return expand_tan(x);
  case ExprKind::kAsin: return expand_asin(x);
  case ExprKind::kAcos: return expand_acos(x);
  case ExprKind::kAtan: return expand_atan(x);
  case ExprKind::kSinh: return expand_sinh(x);
  case ExprKind::kCosh: return expand_cosh(x);
  case ExprKind::kTanh: return expand_tanh(x);
  case ExprKind::kAsinh: return expand_asinh(x);
  case ExprKind::kAcosh: return expand_acosh(x);
  case ExprKind::kAtanh: return expand_atanh(x);
  case ExprKind::kErf: return expand_erf(x);
  case ExprKind::kErfc: return expand_erfc(x);
  default: return {};
  }
}

/// The C library's double function of one operand.
std::optional<int> host_function_of(ExprKind kind) {
  switch (kind) {
  case ExprKind::kExp: return kHostExp;
  case ExprKind::kExp2: return kHostExp2;
  case ExprKind::kExpm1: return kHostExpm1;
  case ExprKind::kLog: return kHostLog;
  case ExprKind::kLog2: return kHostLog2;
  case ExprKind::kLog10: return kHostLog10;
  case ExprKind::kLog1p: return kHostLog1p;
  case ExprKind::kSin: return kHostSin;
  case ExprKind::kCos: return kHostCos;
  case ExprKind::kTan: return kHostTan;
  case ExprKind::kAsin: return kHostAsin;
  case ExprKind::kAcos: return kHostAcos;
  case ExprKind::kAtan: return kHostAtan;
  case ExprKind::kSinh: return kHostSinh;
  case ExprKind::kCosh: return kHostCosh;
  case ExprKind::kTanh: return kHostTanh;
  case ExprKind::kAsinh: return kHostAsinh;
  case ExprKind::kAcosh: return kHostAcosh;
  case ExprKind::kAtanh: return kHostAtanh;
  case ExprKind::kErf: return kHostErf;
  case ExprKind::kErfc: return kHostErfc;
  case ExprKind::kLgamma: return kHostLgamma;
  default: return {};
  }
}

bool is_math_function(ExprKind kind) { return kind >= ExprKind::kExp && kind <= ExprKind::kNextafter; }

/// One function of float32 or float64 operands.
Expr expand_function(ExprKind kind, Expr x, Expr y, const MathOptions &options) {
  const bool is_double = x.dtype() == DType::kF64;
  const bool calls_host = is_double || options.use_host_functions;
  const auto call_unary = [&](int function) { return cast(host_call(cast(x, DType::kF64), function), x.dtype()); };
  const auto call_binary = [&](int function) {
    return cast(host_call(cast(x, DType::kF64), cast(y, DType::kF64), function), x.dtype());
  };
  switch (kind) {
  case ExprKind::kErfinv: return expand_erfinv(x);
  case ExprKind::kDigamma: return expand_digamma(x);
  case ExprKind::kLgamma: return call_unary(kHostLgamma); // lgammaf is up to 6 units off
  case ExprKind::kPow: return calls_host ? call_binary(kHostPow) : expand_pow(x, y);
  case ExprKind::kAtan2: return calls_host ? call_binary(kHostAtan2) : expand_atan2(x, y);
  case ExprKind::kHypot: return calls_host ? call_binary(kHostHypot) : expand_hypot(x, y);
  default: break;
  }
  const std::optional<int> host = calls_host ? host_function_of(kind) : std::nullopt;
  const Expr expanded = host ? call_unary(*host) : expand_single(kind, x);
  OXYFUEL_CHECK(static_cast<bool>(expanded), "a math function without expansion");
  return expanded;
}

Expr expand_node(Expr e, const MathOptions &options) {
  if (!is_math_function(e.kind()))
    return e;
  const Expr x = e.operand(0), y = e->operand_count > 1 ? e.operand(1) : Expr();
  OXYFUEL_CHECK(is_float(x.dtype()), "a math function of operands that are not floats");
  if (e.kind() == ExprKind::kNextafter)
    return expand_nextafter(x, y);
  const DType compute = opmath_of(x.dtype());
  return cast(expand_function(e.kind(), cast(x, compute), y ? cast(y, compute) : y, options), x.dtype());
}

} // namespace

} // namespace math

Expr expand_math(Expr e, const MathOptions &options) {
  return rewrite(e, [&](Expr node) { return math::expand_node(node, options); });
}

namespace loop {

static bool expand_block(Block &block, const MathOptions &options) {
  bool changed = false;
  const auto expand = [&](Expr &e) {
    if (e.is_empty())
      return;
    const Expr expanded = oxyfuel::expand_math(e, options);
    changed = changed || !(expanded == e);
    e = expanded;
  };
  for (auto &statement : block)
    std::visit(
        [&](auto &data) {
          using T = std::decay_t<decltype(data)>;
          if constexpr (std::is_same_v<T, For>) {
            changed = expand_block(data.body, options) || changed;
          } else if constexpr (std::is_same_v<T, Store>) {
            expand(data.index);
            expand(data.value);
            expand(data.mask);
          } else if constexpr (std::is_same_v<T, Let>) {
            expand(data.value);
          } else if constexpr (std::is_same_v<T, If>) {
            expand(data.condition);
            changed = expand_block(data.then_body, options) || changed;
            changed = expand_block(data.else_body, options) || changed;
          } else if constexpr (std::is_same_v<T, Check>) {
            expand(data.condition);
          }
        },
        statement->data);
  return changed;
}

bool expand_math(Kernel &kernel) { return expand_block(kernel.body, {}); }
bool expand_math(Kernel &kernel, PassContext &) { return expand_math(kernel); }

} // namespace loop

} // namespace oxyfuel
