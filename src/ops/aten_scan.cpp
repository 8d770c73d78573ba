// Cumulative sums, products and extremes.
#include "ops/compose.h"
#include "ops/table.h"
#include "support/error.h"

namespace oxyfuel {

namespace {

Term scan(Term x, int axis, const std::string &mode, DType dtype) {
  return {x.b, x.b->make("scan", {x.value}, {{"axis", int64_t(axis)}, {"mode", mode}, {"dtype", dtype}})};
}

/// Elements are converted to the result's type before they are folded; half types are kept in float32 while summing.
Values cumulative(GraphBuilder &b, const AtenCall &call, const std::string &mode) {
  DType result = call.results.at(0).dtype;
  Term x = term(b, call.value(0));
  if (is_complex(result) && mode == "logsumexp")
    throw UnsupportedError(call.overload + " of complex numbers");
  if (x.rank() == 0)
    return {b.cast(x.value, result)};
  x = x.to(result).to(opmath_of(result));
  return {scan(x, wrap_axis(call.integer(1), x.rank()), mode, x.dtype()).to(result).value};
}

Values import_cumsum(GraphBuilder &b, const AtenCall &call) { return cumulative(b, call, "sum"); }
Values import_cumprod(GraphBuilder &b, const AtenCall &call) { return cumulative(b, call, "prod"); }
Values import_logcumsumexp(GraphBuilder &b, const AtenCall &call) { return cumulative(b, call, "logsumexp"); }

/// Values, and where each was met last.
Values running_extreme(GraphBuilder &b, const AtenCall &call, const std::string &mode) {
  Term x = term(b, call.value(0));
  if (x.rank() == 0)
    return {x.value, b.scalar_integer(0, DType::kI64)};
  int axis = wrap_axis(call.integer(1), x.rank());
  Term values = scan(x, axis, mode, x.dtype());
  Term is_new = equal(x, values);
  if (is_float(x.dtype()))
    is_new = either(is_new, is_nan(x));
  Term place = numbers(b, x.size(axis), x.rank(), axis);
  Term last = scan(choose(is_new, place.expand(x.shape()), place.like(0)), axis, "max", DType::kI64);
  return {values.value, last.value};
}

Values import_cummax(GraphBuilder &b, const AtenCall &call) { return running_extreme(b, call, "max"); }
Values import_cummin(GraphBuilder &b, const AtenCall &call) { return running_extreme(b, call, "min"); }

constexpr AtenRule kRules[] = {
    {"aten.cumsum.default", import_cumsum},
    {"aten.cumprod.default", import_cumprod},
    {"aten.logcumsumexp.default", import_logcumsumexp},
    {"aten.cummax.default", import_cummax},
    {"aten.cummin.default", import_cummin},
};

} // namespace

OpTable aten_scan() { return {{}, kRules}; }

} // namespace oxyfuel
