// Reference values of the functions that the vector maths approximates, from the C library in double precision.
#pragma once

#include "ir/expr.h"

namespace oxyfuel {

/// A math function (kExp … kHypot) in double precision. Unary functions ignore `b`.
double math_function(ExprKind kind, double a, double b);
/// kHostCall: OxyfuelHostFunction number `function` when `count` is 1, OxyfuelHostFunction2 when it is 2
/// (runtime/abi.h).
double host_function(int64_t function, int count, double a, double b);
/// The neighbour of `a` towards `b` in the 16-bit float type `dtype`.
double next_half(float a, float b, DType dtype);

} // namespace oxyfuel
