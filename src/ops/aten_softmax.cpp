// Softmax and its relatives, in op-math precision with one rounding at the end.
#include "ops/compose.h"
#include "ops/table.h"

namespace oxyfuel {

namespace {

struct Row {
  Term x;
  std::vector<int64_t> axes; ///< the axis, none for rank 0
};

Row row_of(GraphBuilder &b, const AtenCall &call, int i, int axis, DType type) {
  Term x = term(b, call.value(i)).to(opmath_of(type));
  if (x.rank() == 0)
    return {x, {}};
  return {x, {wrap_axis(call.integer(axis), x.rank())}};
}

Term exponentials(const Row &row, Term &total) {
  Term powers = (row.x - row.x.max(row.axes)).apply("exp");
  total = powers.sum(row.axes);
  return powers;
}

Values import_softmax(GraphBuilder &b, const AtenCall &call) {
  DType result = call.results.at(0).dtype;
  Term total, powers = exponentials(row_of(b, call, 0, 1, result), total);
  return {(powers / total).to(result).value};
}

/// Rows of nothing but minus infinity give zeros.
Values import_safe_softmax(GraphBuilder &b, const AtenCall &call) {
  DType result = call.results.at(0).dtype;
  Row row = row_of(b, call, 0, 1, result);
  Term total, powers = exponentials(row, total);
  Term is_masked = equal(row.x.max(row.axes), row.x.like(-__builtin_inf()));
  return {choose(is_masked, powers.like(0), powers / total).to(result).value};
}

Values import_log_softmax(GraphBuilder &b, const AtenCall &call) {
  DType result = call.results.at(0).dtype;
  Row row = row_of(b, call, 0, 1, result);
  Term shifted = row.x - row.x.max(row.axes);
  Term total = shifted.apply("exp").sum(row.axes);
  return {(shifted - total.apply("log")).to(result).value};
}

/// (g, y, axis, input dtype): y * (g - sum(g * y))
Values import_softmax_backward(GraphBuilder &b, const AtenCall &call) {
  Row row = row_of(b, call, 1, 2, call.value(1)->type.dtype);
  Term y = row.x, g = term(b, call.value(0)).to(y.dtype());
  Term gy = g * y;
  return {(gy - y * gy.sum(row.axes)).to(call.results.at(0).dtype).value};
}

/// (g, y, axis, input dtype): g - exp(y) * sum(g)
Values import_log_softmax_backward(GraphBuilder &b, const AtenCall &call) {
  Row row = row_of(b, call, 1, 2, call.value(1)->type.dtype);
  Term y = row.x, g = term(b, call.value(0)).to(y.dtype());
  return {(g - y.apply("exp") * g.sum(row.axes)).to(call.results.at(0).dtype).value};
}

constexpr AtenRule kRules[] = {
    {"aten._softmax.default aten.softmax.int", import_softmax},
    {"aten._safe_softmax.default", import_safe_softmax},
    {"aten._log_softmax.default aten.log_softmax.int", import_log_softmax},
    {"aten._softmax_backward_data.default", import_softmax_backward},
    {"aten._log_softmax_backward_data.default", import_log_softmax_backward},
};

} // namespace

OpTable aten_softmax() { return {{}, kRules}; }

} // namespace oxyfuel
