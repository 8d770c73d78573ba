// The vector maths: functions of the scalar language (kExp … kNextafter) become plain arithmetic, the same on every
// target.
//
//   before:  %y[%i] = exp(%x[%i])
//   after:   %y[%i] = … fma, select, bitcast of %x[%i] …
//
// Requires: no complex operands (the builders expand them). Leaves: no node of the kinds kExp … kNextafter.
//
// float32 has no branches and no tables: what all lanes do is what one lane does, and special values are selected at
// the end. NaN, infinities, signed zeros and denormals are as in the C library. Functions that models use at every
// element (exp, log, tanh, erf, …) stay in float32; the rare ones (pow, erfc, asinh, …) compute in double, where a
// short polynomial and no care for rounding give a result that is nearly always the nearest float. sin, cos and tan
// reduce their argument in double, exactly enough for every float32 argument. Polynomials come from tools/minimax.py,
// whose table has the name that stands beside each.
//
// float64 calls the C library through the host table (runtime/abi.h), except erfinv, digamma and nextafter,
// which are expanded. float16 and bfloat16 compute in float32 and round once.
//
// The largest error in float32, in units of the last place of the exact result, over every 37th of all floats (pairs: a
// million random ones), and the operations an element takes (tests/unit/passes_math_test.cpp, OXYFUEL_MATH_STEP=37):
//
//   function   error  operations
//   exp         1.53     20
//   exp2        0.83     21
//   expm1       1.50     23
//   log         0.92     30
//   log2        1.45     31
//   log10       1.56     33
//   log1p       1.42     31
//   sin         1.53     50
//   cos         1.52     48
//   tan         0.52     46
//   asin        1.87     21
//   acos        1.10     26
//   atan        1.48     22
//   atan2       1.59     36
//   sinh        0.50     30
//   cosh        0.50     23
//   tanh        1.45     34
//   asinh       0.50     39
//   acosh       0.50     35
//   atanh       0.50     42
//   erf         1.55     36
//   erfc        0.53     40
//   erfinv      0.59     68
//   pow         0.50     85
//   hypot       0.50     12
//   nextafter   0.00     20
//
// log and log10 have their largest error over every 255th float. lgamma is the C library's double function, rounded
// once. digamma is within 2^-23 of max(1, |digamma(x)|): next to its zeros neither it nor eager's is relatively
// accurate. erfinv in float64 is within 1.7 units over two million random arguments, nextafter exact.
#pragma once

#include "ir/expr.h"
#include "ir/loop/loop.h"
#include "passes/pass_context.h"

namespace oxyfuel {

struct MathOptions {
  /// Call the C library's float64 functions for float32 too: the reference when an expansion is suspected.
  bool use_host_functions = false;
};

/// `e` without math functions. Equal subexpressions stay shared.
Expr expand_math(Expr e, const MathOptions &options = {});

} // namespace oxyfuel

namespace oxyfuel::loop {

/// Expands every expression of the kernel's statements; whether there was anything to expand.
bool expand_math(Kernel &kernel, PassContext &context);
/// The same outside of a pipeline.
bool expand_math(Kernel &kernel);

} // namespace oxyfuel::loop
