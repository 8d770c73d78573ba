// Values of scalars and the arithmetic on them, exactly as generated code computes it. Shared by constant folding and
// the interpreters, so that what is folded is what would have run.
#pragma once

#include <cstdint>

#include "ir/expr.h"

namespace oxyfuel {

/// One value; which member holds it follows from its dtype: bool and integers `i` (sign- or zero-extended, u64 as its
/// bits), f16, bf16 and f32 `f`, f64 `d`, c64 `c`, c128 `z`.
union Scalar {
  int64_t i;
  float f;
  double d;
  float c[2];
  double z[2];
};

/// Brings an integer into the range of `dtype` (two's complement wrap); bool becomes 0 or 1.
int64_t wrap(int64_t value, DType dtype);
/// The nearest value of the float type `dtype`; f16 and bf16 go through float, as eager's conversions do.
double round_to(double value, DType dtype);

/// `value` as a double; of a float type.
double real_value(Scalar value, DType dtype);
Scalar real_scalar(double value, DType dtype);
Scalar scalar_of(Expr constant);

/// The result of `kind` on operands of dtype `operand`, in dtype `result`. `values` holds the operands; kSelect passes
/// its condition first and has the dtype of its branches as `operand`. All three entries of `values` are readable.
/// Integer division by zero gives zero. `host` is ExprNode::integer of a kHostCall with `count` operands.
/// No kLoad, kVar, kConst.
Scalar apply(ExprKind kind, DType result, DType operand, const Scalar *values, int count = 0, int64_t host = 0);
/// C++ static_cast; out of range floats as x86 converts them.
Scalar convert(Scalar value, DType from, DType to);

/// One element of memory.
Scalar load_scalar(const void *base, int64_t index, DType dtype);
void store_scalar(void *base, int64_t index, DType dtype, Scalar value);

} // namespace oxyfuel
