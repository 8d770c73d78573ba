// ExprContext::make: checks, then the first of these that applies: complex expansion, constant folding, index rules,
// identities of the kind; else the node as asked for.
#include <array>
#include <cmath>

#include "ir/expr_internal.h"
#include "ir/scalar.h"

namespace oxyfuel {

namespace {

using Operands = std::span<const Expr>;

bool is_real(Expr e, double value) {
  if (!e.is_const())
    return false;
  if (is_float(e.dtype()))
    return e->real == value && std::signbit(e->real) == std::signbit(value);
  return e->integer == static_cast<int64_t>(value);
}

/// Every value of `from` exists in `to`.
bool holds_all(DType to, DType from) {
  if (to == from || is_bool(from))
    return true;
  if (is_bool(to) || is_complex(to) || is_complex(from))
    return false;
  if (is_float(from)) {
    if (!is_float(to))
      return false;
    return to == DType::kF64 || (to == DType::kF32 && from != DType::kF64);
  }
  const int bits = 8 * static_cast<int>(size_of(from)) - (is_signed_integer(from) ? 1 : 0);
  if (is_float(to)) {
    const int exact = to == DType::kF64 ? 53 : to == DType::kF32 ? 24 : to == DType::kF16 ? 11 : 8;
    return bits <= exact;
  }
  if (is_signed_integer(from) && !is_signed_integer(to))
    return false;
  return 8 * static_cast<int>(size_of(to)) - (is_signed_integer(to) ? 1 : 0) >= bits;
}

Expr simplify_cast(DType to, Expr a) {
  if (a.dtype() == to)
    return a;
  if (a.kind() != ExprKind::kCast)
    return {};
  const Expr source = a.operand(0);
  const DType from = source.dtype(), middle = a.dtype();
  const bool truncates = is_integer(from) && is_integer(middle) && is_integer(to) && size_of(to) <= size_of(middle);
  // Through a type that holds every value nothing is lost. Floats to integers stay in their compute type, and a float
  // that does not fit an integer converts unlike an integer that wraps.
  const bool leaves_reals = is_integer(to) && (is_float(from) || (is_float(middle) && !holds_all(to, from)));
  const bool is_exact = holds_all(middle, from) && !leaves_reals;
  if (!truncates && !is_exact)
    return {};
  return cast(source, to);
}

Expr simplify_select(DType dtype, Expr condition, Expr a, Expr b) {
  if (condition.is_const())
    return condition.is_const(1) ? a : b;
  if (a == b)
    return a;
  if (condition.kind() == ExprKind::kNot)
    return select(condition.operand(0), b, a);
  if (is_bool(dtype) && a.is_const() && b.is_const())
    return a.is_const(1) ? condition : !condition;
  if (is_bool(dtype) && b.is_const(0))
    return condition && a;
  if (is_bool(dtype) && a.is_const(1))
    return condition || b;
  if (a.kind() == ExprKind::kSelect && a.operand(0) == condition)
    return select(condition, a.operand(1), b);
  if (b.kind() == ExprKind::kSelect && b.operand(0) == condition)
    return select(condition, a, b.operand(2));
  return {};
}

Expr simplify_logic(ExprContext &context, ExprKind kind, DType dtype, Expr a, Expr b) {
  const bool is_and = kind == ExprKind::kAnd;
  if (a == b)
    return kind == ExprKind::kXor ? context.integer(0, dtype) : a;
  if (a.is_const())
    return context.make(kind, dtype, std::array{b, a});
  if (kind == ExprKind::kXor) {
    if (b.is_const(0))
      return a;
    return is_bool(dtype) && b.is_const(1) ? !a : Expr();
  }
  const int64_t all = is_bool(dtype) ? 1 : wrap(-1, dtype);
  if (b.is_const(is_and ? all : 0))
    return a;
  if (b.is_const(is_and ? 0 : all))
    return b;
  return {};
}

Expr simplify_not(DType dtype, Expr a) {
  if (a.kind() == ExprKind::kNot)
    return a.operand(0);
  if (!is_bool(dtype))
    return {};
  if (a.kind() == ExprKind::kEq)
    return ne(a.operand(0), a.operand(1));
  if (a.kind() == ExprKind::kNe)
    return eq(a.operand(0), a.operand(1));
  const bool is_order = a.kind() == ExprKind::kLt || a.kind() == ExprKind::kLe;
  if (!is_order || is_float(a.operand(0).dtype())) // NaN compares false both ways
    return {};
  return a.kind() == ExprKind::kLt ? a.operand(1) <= a.operand(0) : a.operand(1) < a.operand(0);
}

/// Decides comparisons of integers from ranges; for index expressions from the difference too.
Expr simplify_comparison(ExprContext &context, ExprKind kind, Expr a, Expr b) {
  if (a == b && !is_float(a.dtype()))
    return context.boolean(kind == ExprKind::kEq || kind == ExprKind::kLe);
  if (is_float(a.dtype()))
    return {};
  if (is_bool(a.dtype()) && (kind == ExprKind::kEq || kind == ExprKind::kNe)) {
    if (a.is_const())
      std::swap(a, b);
    if (b.is_const())
      return b.is_const(kind == ExprKind::kEq ? 1 : 0) ? a : !a;
    return {};
  }
  if (a.dtype() == DType::kU64)
    return {};
  const bool is_equality = kind == ExprKind::kEq || kind == ExprKind::kNe;
  if (a->is_index && b->is_index && a.dtype() == DType::kI64) {
    if (is_equality) {
      if (always_less(a, b) || always_less(b, a))
        return context.boolean(kind == ExprKind::kNe);
      return {};
    }
    const Expr gap = b - a;
    if (always_nonnegative(kind == ExprKind::kLt ? gap - 1 : gap))
      return context.boolean(true);
    const Expr reverse = a - b;
    if (always_nonnegative(kind == ExprKind::kLt ? reverse : reverse - 1))
      return context.boolean(false);
    return {};
  }
  const Range ra = range_of(a), rb = range_of(b);
  const bool below = ra.upper && rb.lower && *ra.upper < *rb.lower;
  const bool above = ra.lower && rb.upper && *ra.lower > *rb.upper;
  if (is_equality)
    return below || above ? context.boolean(kind == ExprKind::kNe) : Expr();
  if (below || (kind == ExprKind::kLe && ra.upper && rb.lower && *ra.upper <= *rb.lower))
    return context.boolean(true);
  if (above || (kind == ExprKind::kLt && ra.lower && rb.upper && *ra.lower >= *rb.upper))
    return context.boolean(false);
  return {};
}

Expr simplify_min_max(ExprContext &context, ExprKind kind, DType dtype, Expr a, Expr b) {
  const bool is_min = kind == ExprKind::kMin;
  if (a == b)
    return a;
  if (a.is_const())
    return context.make(kind, dtype, std::array{b, a});
  if (dtype == DType::kU64)
    return {};
  if (a.kind() == kind && b.is_const() && a.operand(1).is_const())
    return context.make(kind, dtype, std::array{a.operand(0), context.make(kind, dtype, std::array{a.operand(1), b})});
  if (a.kind() == kind && (a.operand(0) == b || a.operand(1) == b))
    return a;
  if (b.kind() == kind && (b.operand(0) == a || b.operand(1) == a))
    return b;
  if (a->is_index && b->is_index) {
    if (always_nonnegative(b - a))
      return is_min ? a : b;
    if (always_nonnegative(a - b))
      return is_min ? b : a;
    return {};
  }
  const Range ra = range_of(a), rb = range_of(b);
  if (ra.upper && rb.lower && *ra.upper <= *rb.lower)
    return is_min ? a : b;
  if (rb.upper && ra.lower && *rb.upper <= *ra.lower)
    return is_min ? b : a;
  return {};
}

/// Integers of any width that wrap; constants move to the right.
Expr simplify_integer(ExprContext &context, ExprKind kind, DType dtype, Expr a, Expr b) {
  switch (kind) {
  case ExprKind::kAdd:
    if (a.is_const())
      return context.make(kind, dtype, std::array{b, a});
    if (b.is_const(0))
      return a;
    if (b.is_const() && a.kind() == ExprKind::kAdd && a.operand(1).is_const())
      return a.operand(0) + context.integer(wrap_add(a.operand(1)->integer, b->integer), dtype);
    return {};
  case ExprKind::kSub:
    if (a == b)
      return context.integer(0, dtype);
    if (b.is_const())
      return a + context.integer(wrap_sub(0, b->integer), dtype);
    return a.is_const(0) ? -b : Expr();
  case ExprKind::kMul:
    if (a.is_const())
      return context.make(kind, dtype, std::array{b, a});
    if (b.is_const(0))
      return b;
    if (b.is_const(1))
      return a;
    if (b.is_const() && a.kind() == ExprKind::kMul && a.operand(1).is_const())
      return a.operand(0) * context.integer(wrap_mul(a.operand(1)->integer, b->integer), dtype);
    return {};
  case ExprKind::kDiv:
  case ExprKind::kFloorDiv: return b.is_const(1) ? a : Expr();
  case ExprKind::kRem:
  case ExprKind::kFloorMod: return b.is_const(1) ? context.integer(0, dtype) : Expr();
  case ExprKind::kShl:
  case ExprKind::kShr: return b.is_const(0) ? a : Expr();
  default: return {};
  }
}

/// What holds bit for bit, NaN and signed zeros included.
Expr simplify_float(ExprKind kind, Operands operands) {
  const Expr a = operands[0], b = operands.size() > 1 ? operands[1] : Expr();
  switch (kind) {
  case ExprKind::kAdd:
    if (is_real(b, -0.0))
      return a;
    return is_real(a, -0.0) ? b : Expr();
  case ExprKind::kSub: return is_real(b, 0.0) ? a : Expr();
  case ExprKind::kMul:
    if (is_real(a, 1.0))
      return b;
    return is_real(b, 1.0) ? a : Expr();
  case ExprKind::kDiv: return is_real(b, 1.0) ? a : Expr();
  case ExprKind::kFma:
    if (is_real(a, 1.0))
      return b + operands[2];
    if (is_real(b, 1.0))
      return a + operands[2];
    return is_real(operands[2], -0.0) ? a * b : Expr();
  case ExprKind::kFloor:
  case ExprKind::kCeil:
  case ExprKind::kTrunc:
  case ExprKind::kRint: {
    const ExprKind inner = a.kind();
    const bool is_whole =
        inner == ExprKind::kFloor || inner == ExprKind::kCeil || inner == ExprKind::kTrunc || inner == ExprKind::kRint;
    return is_whole ? a : Expr();
  }
  default: return {};
  }
}

Expr simplify_index(ExprKind kind, Expr a, Expr b) {
  switch (kind) {
  case ExprKind::kAdd: return index_add(a, b, 1);
  case ExprKind::kSub: return index_add(a, b, -1);
  case ExprKind::kMul: return index_mul(a, b);
  case ExprKind::kFloorDiv: return index_floor_div(a, b);
  case ExprKind::kFloorMod: return index_floor_mod(a, b);
  case ExprKind::kDiv: // truncation is flooring where both are not negative
  case ExprKind::kRem:
    if (!always_nonnegative(a) || !always_nonnegative(b))
      return {};
    return kind == ExprKind::kDiv ? floor_div(a, b) : floor_mod(a, b);
  default: return {};
  }
}

Expr simplify(ExprContext &context, ExprKind kind, DType dtype, Operands operands) {
  const Expr a = operands[0], b = operands.size() > 1 ? operands[1] : Expr();
  switch (kind) {
  case ExprKind::kCast: return simplify_cast(dtype, a);
  case ExprKind::kBitcast:
    if (a.dtype() == dtype)
      return a;
    return a.kind() == ExprKind::kBitcast ? bitcast(a.operand(0), dtype) : Expr();
  case ExprKind::kSelect: return simplify_select(dtype, a, b, operands[2]);
  case ExprKind::kAnd:
  case ExprKind::kOr:
  case ExprKind::kXor: return simplify_logic(context, kind, dtype, a, b);
  case ExprKind::kNot: return simplify_not(dtype, a);
  case ExprKind::kEq:
  case ExprKind::kNe:
  case ExprKind::kLt:
  case ExprKind::kLe: return simplify_comparison(context, kind, a, b);
  case ExprKind::kMin:
  case ExprKind::kMax: return simplify_min_max(context, kind, dtype, a, b);
  case ExprKind::kReal:
  case ExprKind::kImag:
    if (a.kind() == ExprKind::kComplex)
      return a.operand(kind == ExprKind::kReal ? 0 : 1);
    return {};
  case ExprKind::kComplex: // the two parts of one value
    if (a.kind() == ExprKind::kReal && b.kind() == ExprKind::kImag && a.operand(0) == b.operand(0))
      return a.operand(0);
    return {};
  case ExprKind::kNeg:
    if (a.kind() == ExprKind::kNeg)
      return a.operand(0);
    return a->is_index && dtype == DType::kI64 ? index_add(context.integer(0), a, -1) : Expr();
  case ExprKind::kAbs:
    if (a.kind() == ExprKind::kAbs || (a->is_index && always_nonnegative(a)))
      return a;
    return is_float(dtype) && a.kind() == ExprKind::kNeg ? abs(a.operand(0)) : Expr();
  default: break;
  }
  if (is_float(dtype))
    return simplify_float(kind, operands);
  if (operands.size() != 2)
    return {};
  if (dtype == DType::kI64 && a->is_index && b->is_index)
    if (Expr simple = simplify_index(kind, a, b))
      return simple;
  return simplify_integer(context, kind, dtype, a, b);
}

int operand_count_of(ExprKind kind) {
  switch (kind) {
  case ExprKind::kFma:
  case ExprKind::kSelect: return 3;
  case ExprKind::kAdd:
  case ExprKind::kSub:
  case ExprKind::kMul:
  case ExprKind::kDiv:
  case ExprKind::kFloorDiv:
  case ExprKind::kFloorMod:
  case ExprKind::kRem:
  case ExprKind::kMin:
  case ExprKind::kMax:
  case ExprKind::kEq:
  case ExprKind::kNe:
  case ExprKind::kLt:
  case ExprKind::kLe:
  case ExprKind::kAnd:
  case ExprKind::kOr:
  case ExprKind::kXor:
  case ExprKind::kShl:
  case ExprKind::kShr:
  case ExprKind::kPow:
  case ExprKind::kAtan2:
  case ExprKind::kHypot:
  case ExprKind::kNextafter:
  case ExprKind::kComplex: return 2;
  default: return 1;
  }
}

void check_operands(ExprKind kind, DType dtype, Operands operands) {
  const bool is_call = kind == ExprKind::kHostCall;
  OXYFUEL_CHECK(is_call ? operands.size() == 1 || operands.size() == 2
                        : operands.size() == static_cast<size_t>(operand_count_of(kind)),
                "wrong number of operands of expression kind " + std::to_string(static_cast<int>(kind)));
  const size_t first = kind == ExprKind::kSelect ? 1 : 0;
  for (size_t i = first; i < operands.size(); ++i)
    OXYFUEL_CHECK(operands[i] && operands[i].dtype() == operands[first].dtype(),
                  "operands of expression kind " + std::to_string(static_cast<int>(kind)) +
                      " differ in type: " + (operands[i] ? std::string(name_of(operands[i].dtype())) : "empty") +
                      " and " + (operands[first] ? std::string(name_of(operands[first].dtype())) : "empty"));
  if (kind == ExprKind::kSelect)
    OXYFUEL_CHECK(is_bool(operands[0].dtype()) && operands[1].dtype() == dtype, "select(bool, a, b) has the type of a");
}

} // namespace

Expr ExprContext::make(ExprKind kind, DType dtype, std::span<const Expr> operands, int64_t integer) {
  OXYFUEL_CHECK(kind != ExprKind::kConst && kind != ExprKind::kVar && kind != ExprKind::kLoad,
                "constants, variables and loads have builders of their own");
  check_operands(kind, dtype, operands);
  const bool is_part = kind == ExprKind::kReal || kind == ExprKind::kImag || kind == ExprKind::kComplex;
  if (!is_part)
    for (Expr operand : operands)
      if (is_complex(operand.dtype()) || is_complex(dtype))
        return expand_complex(*this, kind, dtype, operands);
  if (kind != ExprKind::kHostCall) {
    if (!is_part)
      if (Expr folded = fold_constants(*this, kind, dtype, operands))
        return folded;
    if (Expr simple = simplify(*this, kind, dtype, operands))
      return simple;
  }
  return ExprInterner::intern(*this, kind, dtype, operands, integer);
}

} // namespace oxyfuel
