// Constant folding. Only operations whose result is the same on every machine are folded: the vector maths has its own
// approximations of exp and its like, which a fold by the C library would not repeat bit for bit.
#include "ir/expr_internal.h"
#include "ir/scalar.h"

namespace oxyfuel {

static bool is_foldable(ExprKind kind) {
  if (kind == ExprKind::kConst || kind == ExprKind::kVar || kind == ExprKind::kLoad)
    return false;
  return kind < ExprKind::kExp;
}

static bool divides(ExprKind kind) {
  return kind == ExprKind::kDiv || kind == ExprKind::kRem || kind == ExprKind::kFloorDiv || kind == ExprKind::kFloorMod;
}

Expr fold_constants(ExprContext &context, ExprKind kind, DType dtype, std::span<const Expr> operands) {
  if (!is_foldable(kind) || operands.empty())
    return {};
  Scalar values[3] = {};
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i].is_const())
      return {};
    values[i] = scalar_of(operands[i]);
  }
  const DType operand = kind == ExprKind::kSelect ? dtype : operands[0].dtype();
  if (divides(kind) && !is_float(operand) && values[1].i == 0)
    return {}; // never runs: the program's own guard
  if (kind == ExprKind::kCast && is_float(operand) && is_integer(dtype)) {
    const double value = real_value(values[0], operand);
    if (!(value > -0x1p31 && value < 0x1p31)) // eager's result out of range is the machine's
      return {};
  }
  if (kind == ExprKind::kBitcast && is_float(dtype))
    return {}; // a NaN's payload would be lost
  const Scalar result = apply(kind, dtype, operand, values, static_cast<int>(operands.size()));
  if (is_float(dtype))
    return ExprInterner::intern_real(context, real_value(result, dtype), dtype);
  return context.integer(result.i, dtype);
}

} // namespace oxyfuel
