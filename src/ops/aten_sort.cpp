// Sorting, and what takes some of the sorted.
#include "ops/compose.h"
#include "ops/table.h"
#include "support/error.h"

namespace oxyfuel {

namespace {

struct Sorted {
  Term values, places;
};

Sorted sort(Term x, int axis, bool is_descending) {
  if (x.rank() == 0)
    return {x, {x.b, x.b->scalar_integer(0, DType::kI64)}};
  graph::Node *node =
      x.b->make_node("sort", {x.value}, {{"axis", int64_t(axis)}, {"descending", is_descending}, {"stable", true}});
  return {{x.b, node->result(0)}, {x.b, node->result(1)}};
}

bool flag(const AtenCall &call, int i, bool otherwise = false) { return call.has(i) ? call.boolean(i) : otherwise; }

Values sorted_by(GraphBuilder &b, const AtenCall &call, int axis, int descending) {
  Term x = term(b, call.value(0));
  Sorted sorted = sort(x, wrap_axis(call.has(axis) ? call.integer(axis) : -1, x.rank()), flag(call, descending));
  return {sorted.values.value, sorted.places.value};
}

Values import_sort(GraphBuilder &b, const AtenCall &call) { return sorted_by(b, call, 1, 2); }
Values import_sort_stable(GraphBuilder &b, const AtenCall &call) { return sorted_by(b, call, 2, 3); }
Values import_argsort(GraphBuilder &b, const AtenCall &call) { return {sorted_by(b, call, 1, 2)[1]}; }
Values import_argsort_stable(GraphBuilder &b, const AtenCall &call) { return {sorted_by(b, call, 2, 3)[1]}; }

/// topk(x, k, axis, largest, sorted)
Values import_topk(GraphBuilder &b, const AtenCall &call) {
  Term x = term(b, call.value(0));
  int axis = wrap_axis(call.has(2) ? call.integer(2) : -1, x.rank());
  if (x.rank() == 0)
    return {x.value, b.scalar_integer(0, DType::kI64)};
  Sorted sorted = sort(x, axis, flag(call, 3, true));
  Expr zero = b.context().integer(0), k = call.size(1, b.context());
  return {sorted.values.slice(axis, zero, k).value, sorted.places.slice(axis, zero, k).value};
}

Values pick(GraphBuilder &b, const AtenCall &call, Term values, Term places, int axis, Expr at) {
  Values results;
  for (Term t : {values, places})
    results.push_back(
        b.reshape(t.slice(axis, at, b.context().integer(1)).value, call.results.at(results.size()).shape));
  return results;
}

/// kthvalue(x, k, axis, keep)
Values import_kthvalue(GraphBuilder &b, const AtenCall &call) {
  Term x = term(b, call.value(0));
  if (x.rank() == 0)
    return {x.value, b.scalar_integer(0, DType::kI64)};
  int axis = wrap_axis(call.has(2) ? call.integer(2) : -1, x.rank());
  Sorted sorted = sort(x, axis, false);
  return pick(b, call, sorted.values, sorted.places, axis, call.size(1, b.context()) - 1);
}

/// The lower median; a NaN anywhere is the answer, at its first place.
Values median(GraphBuilder &b, const AtenCall &call, Term x, int axis) {
  Sorted sorted = sort(x, axis, false);
  Expr middle = floor_div(x.size(axis) - 1, 2), one = b.context().integer(1);
  Term value = sorted.values.slice(axis, middle, one), place = sorted.places.slice(axis, middle, one);
  if (is_float(x.dtype())) {
    Term nan = is_nan(x);
    Term has_nan = {&b, b.reduce("any", nan.value, {axis}, true, DType::kBool)};
    Term first = {&b, b.reduce("argmax", nan.value, {axis}, true, DType::kI64)};
    value = choose(has_nan, value.like(__builtin_nan("")), value);
    place = choose(has_nan, first, place);
  }
  Values results{b.reshape(value.value, call.results.at(0).shape)};
  if (call.results.size() > 1)
    results.push_back(b.reshape(place.value, call.results[1].shape));
  return results;
}

Values import_median(GraphBuilder &b, const AtenCall &call) {
  Term x = term(b, call.value(0));
  Expr n = graph::element_count(b.context(), x.shape());
  if (n.is_const(0))
    throw UnsupportedError("aten.median of nothing");
  return median(b, call, x.reshape({n}), 0);
}

Values import_median_axis(GraphBuilder &b, const AtenCall &call) {
  Term x = term(b, call.value(0));
  if (x.rank() == 0)
    return {x.value, b.scalar_integer(0, DType::kI64)};
  return median(b, call, x, wrap_axis(call.integer(1), x.rank()));
}

constexpr AtenRule kRules[] = {
    {"aten.sort.default", import_sort},       {"aten.sort.stable", import_sort_stable},
    {"aten.argsort.default", import_argsort}, {"aten.argsort.stable", import_argsort_stable},
    {"aten.topk.default", import_topk},       {"aten.kthvalue.default", import_kthvalue},
    {"aten.median.default", import_median},   {"aten.median.dim", import_median_axis},
};

} // namespace

OpTable aten_sort() { return {{}, kRules}; }

} // namespace oxyfuel
