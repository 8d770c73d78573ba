// Writing at computed places.
#include <cmath>

#include "ops/aten_index.h"
#include "ops/compose.h"
#include "ops/table.h"
#include "support/error.h"

namespace oxyfuel {

namespace {

const graph::Type &result_type(const AtenCall &call) { return call.results.at(0); }

/// The base, axis, places and updates of the scatter family, made at least one-dimensional.
struct Scatter {
  Term base, places, update;
  int64_t axis = 0;

  Term run(std::string mode, Term onto, Term update_of) const {
    return {base.b,
            base.b->make("scatter", {onto.value, places.value, update_of.value}, {{"axis", axis}, {"mode", mode}})};
  }
};

Scatter scatter_of(GraphBuilder &b, const AtenCall &call) {
  Scatter s{term(b, at_least_1d(b, call.value(0))), term(b, at_least_1d(b, call.value(2))), {}, 0};
  s.axis = wrap_axis(call.integer(1), s.base.rank());
  if (graph::Value *update = call.tensor_or_null(3); update && update->type.rank() > 0)
    s.update = term(b, update).to(s.base.dtype());
  else
    s.update =
        Term{&b, b.cast(b.number(call.arguments.at(3), s.base.dtype()), s.base.dtype())}.expand(s.places.shape());
  return s;
}

Values finish(GraphBuilder &b, const AtenCall &call, Term value) {
  return {b.reshape(b.cast(value.value, result_type(call).dtype), result_type(call).shape)};
}

/// Sums and products of half types are rounded once, at the end.
Values combine_once(GraphBuilder &b, const AtenCall &call, const Scatter &s, const std::string &mode) {
  DType wide_type = opmath_of(s.base.dtype());
  return finish(b, call, s.run(mode, s.base.to(wide_type), s.update.to(wide_type)));
}

Values import_scatter(GraphBuilder &b, const AtenCall &call) {
  Scatter s = scatter_of(b, call);
  return finish(b, call, s.run("set", s.base, s.update));
}

Values import_scatter_add(GraphBuilder &b, const AtenCall &call) {
  return combine_once(b, call, scatter_of(b, call), "add");
}

/// scatter.reduce(x, axis, places, update, reduce)
Values import_scatter_mode(GraphBuilder &b, const AtenCall &call) {
  return combine_once(b, call, scatter_of(b, call), call.text(4) == "add" ? "add" : "mul");
}

/// The least or the largest value of a type.
graph::Value *limit(GraphBuilder &b, DType t, bool is_least) {
  if (is_float(t))
    return b.scalar(is_least ? -__builtin_inf() : __builtin_inf(), t);
  if (is_bool(t) || !is_signed_integer(t))
    return b.scalar_integer(is_least ? 0 : is_bool(t) ? 1 : (int64_t(1) << 8 * size_of(t)) - 1, t);
  int shift = static_cast<int>(64 - 8 * size_of(t));
  return b.scalar_integer((is_least ? INT64_MIN : INT64_MAX) >> shift, t);
}

/// scatter_reduce.two(x, axis, places, update, reduce, include_self)
Values import_scatter_reduce(GraphBuilder &b, const AtenCall &call) {
  Scatter s = scatter_of(b, call);
  std::string reduce = call.text(4);
  bool include_self = !call.has(5) || call.boolean(5);
  DType type = opmath_of(s.base.dtype());
  if (is_complex(type) || type == DType::kU64)
    throw UnsupportedError(call.overload + " of " + std::string(name_of(type)));
  Term base = s.base.to(type), update = s.update.to(type);
  std::string mode = reduce == "sum" || reduce == "mean" ? "add"
                     : reduce == "prod"                  ? "mul"
                     : reduce == "amax"                  ? "max"
                                                         : "min";
  Term ones = full(b, s.places.shape(), 1, type), touched = s.run("add", full(b, base.shape(), 0, type), ones);
  if (!include_self) {
    Term start = mode == "add" || mode == "mul" ? base.like(mode == "mul") : Term{&b, limit(b, type, mode == "max")};
    base = choose(touched > touched.like(0), start, base);
  }
  Term value = s.run(mode, base, update);
  if (reduce == "mean") {
    Term n = include_self ? touched + 1 : combine("maximum", touched, touched.like(1));
    value = is_float(type) ? value / n : combine("floor_div", value, n);
  }
  return finish(b, call, value);
}

/// Operands of index_put along one axis only.
Values along_axis(const Term &base, const Term &values, int64_t axis, graph::Value *places) {
  Values operands{base.value, values.value};
  operands.resize(2 + base.rank());
  operands[2 + axis] = places;
  return operands;
}

/// index_add(x, axis, places, source, alpha)
Values import_index_add(GraphBuilder &b, const AtenCall &call) {
  Term base = wide(b, at_least_1d(b, call.value(0))), source = wide(b, at_least_1d(b, call.value(3))).to(base.dtype());
  int64_t axis = wrap_axis(call.integer(1), base.rank());
  if (call.has(4) && !(std::holds_alternative<int64_t>(call.arguments[4].data) && call.integer(4) == 1))
    source = combine("mul", source, {&b, b.number(call.arguments[4], base.dtype())});
  return finish(
      b, call,
      {&b, b.make("index_put", along_axis(base, source, axis, at_least_1d(b, call.value(2))), {{"accumulate", true}})});
}

/// index_copy(x, axis, places, source)
Values import_index_copy(GraphBuilder &b, const AtenCall &call) {
  Term base = term(b, at_least_1d(b, call.value(0))), source = term(b, at_least_1d(b, call.value(3)));
  int64_t axis = wrap_axis(call.integer(1), base.rank());
  return finish(b, call,
                {&b, b.make("index_put", along_axis(base, source, axis, at_least_1d(b, call.value(2))),
                            {{"accumulate", false}})});
}

/// index_fill(x, axis, places, value)
Values import_index_fill(GraphBuilder &b, const AtenCall &call) {
  Term base = term(b, at_least_1d(b, call.value(0)));
  int64_t axis = wrap_axis(call.integer(1), base.rank());
  Term value = {&b, b.cast(b.number(call.arguments.at(3), base.dtype()), base.dtype())};
  return finish(
      b, call,
      {&b, b.make("index_put", along_axis(base, value, axis, at_least_1d(b, call.value(2))), {{"accumulate", false}})});
}

/// A mask over the leading axes with one value to write is a choice.
Values put_by_mask(GraphBuilder &b, const AtenCall &call, graph::Value *mask) {
  Term x = term(b, call.value(0)), value = term(b, call.value(2)).to(x.dtype());
  if ((call.has(3) && call.boolean(3)) || value.rank() != 0)
    throw UnsupportedError(call.overload + " of several values through a mask");
  Shape shape = mask->type.shape;
  shape.resize(x.rank(), b.context().integer(1));
  return {choose(term(b, mask).reshape(shape), value.expand(x.shape()), x).value};
}

/// index_put(x, places, values, accumulate)
Values import_index_put(GraphBuilder &b, const AtenCall &call) {
  std::vector<graph::Value *> given = call.values(1);
  if (given.size() == 1 && given[0] && is_bool(given[0]->type.dtype))
    return put_by_mask(b, call, given[0]);
  std::vector<graph::Value *> places = places_of(call, 1);
  bool is_sum = call.has(3) && call.boolean(3);
  Term x = term(b, call.value(0)), values = term(b, call.value(2));
  DType type = is_sum ? opmath_of(x.dtype()) : x.dtype();
  places.resize(x.rank());
  Values operands{x.to(type).value, values.to(type).value};
  operands.insert(operands.end(), places.begin(), places.end());
  return finish(b, call, {&b, b.make("index_put", operands, {{"accumulate", is_sum}})});
}

/// put(x, places, source, accumulate): x as if it had one axis.
Values import_put(GraphBuilder &b, const AtenCall &call) {
  Term x = term(b, call.value(0)), source = term(b, call.value(2));
  bool is_sum = call.has(3) && call.boolean(3);
  DType type = is_sum ? opmath_of(x.dtype()) : x.dtype();
  Term flat = x.to(type).reshape({graph::element_count(b.context(), x.shape())});
  graph::Value *places = call.value(1);
  return finish(b, call,
                {&b, b.make("index_put", {flat.value, source.to(type).reshape(places->type.shape).value, places},
                            {{"accumulate", is_sum}})});
}

/// _unsafe_masked_index_put_accumulate(x, mask, places, values)
Values import_masked_put(GraphBuilder &b, const AtenCall &call) {
  Term x = wide(b, call.value(0)), values = wide(b, call.value(3));
  std::vector<graph::Value *> places = call.values(2);
  places.resize(x.rank());
  values = choose(term(b, call.value(1)), values, values.like(0));
  Values operands{x.value, values.value};
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (!places[axis]) {
      operands.push_back(nullptr);
      continue;
    }
    Term place = term(b, places[axis]), last{&b, b.scalar_size(x.size(axis) - 1, place.dtype())};
    operands.push_back(combine("minimum", combine("maximum", place, last.like(0) - last - 1), last).value);
  }
  return finish(b, call, {&b, b.make("index_put", operands, {{"accumulate", true}})});
}

Expr bound(Expr value, Expr size) {
  if (auto constant = value.constant(); constant && *constant >= 0)
    return *constant == INT64_MAX ? size : min(value, size);
  Expr zero = size.like(0);
  return max(min(oxyfuel::select(value < zero, value + size, value), size), zero);
}

/// slice_scatter(x, update, axis, start, end, step)
Values import_slice_scatter(GraphBuilder &b, const AtenCall &call) {
  Term x = term(b, call.value(0)), update = term(b, call.value(1)).to(x.dtype());
  int axis = wrap_axis(call.has(2) ? call.integer(2) : 0, x.rank());
  Expr start = call.has(3) ? bound(call.size(3, b.context()), x.size(axis)) : b.context().integer(0);
  int64_t step = call.has(5) ? call.integer(5) : 1;
  return {
      b.make("slice_scatter", {x.value, update.value}, {{"axis", int64_t(axis)}, {"start", start}, {"step", step}})};
}

/// select_scatter(x, update, axis, place)
Values import_select_scatter(GraphBuilder &b, const AtenCall &call) {
  Term x = term(b, call.value(0));
  int axis = wrap_axis(call.integer(2), x.rank());
  Expr place = call.size(3, b.context());
  place = oxyfuel::select(place < place.like(0), place + x.size(axis), place);
  Term update = term(b, call.value(1)).to(x.dtype()).unsqueeze(axis);
  return {b.make("slice_scatter", {x.value, update.value},
                 {{"axis", int64_t(axis)}, {"start", place}, {"step", int64_t(1)}})};
}

/// select_backward(g, sizes, axis, place), slice_backward(g, sizes, axis, start, end, step): into zeros.
Values into_zeros(GraphBuilder &b, const AtenCall &call, bool is_select) {
  Term g = term(b, call.value(0)), zeros = full(b, result_type(call).shape, 0, result_type(call).dtype);
  int axis = wrap_axis(call.integer(2), zeros.rank());
  Expr size = zeros.size(axis), start = call.size(3, b.context());
  start = is_select ? oxyfuel::select(start < start.like(0), start + size, start) : bound(start, size);
  return {b.make("slice_scatter", {zeros.value, is_select ? g.unsqueeze(axis).value : g.value},
                 {{"axis", int64_t(axis)}, {"start", start}, {"step", is_select ? int64_t(1) : call.integer(5)}})};
}

Values import_select_backward(GraphBuilder &b, const AtenCall &call) { return into_zeros(b, call, true); }
Values import_slice_backward(GraphBuilder &b, const AtenCall &call) { return into_zeros(b, call, false); }

Values put_diagonal(GraphBuilder &b, Term x, Term update, const AtenCall &call, int first) {
  auto axis = [&](int i, int64_t otherwise) {
    return int64_t(wrap_axis(call.has(i) ? call.integer(i) : otherwise, x.rank()));
  };
  return {b.make("diagonal_scatter", {x.value, update.to(x.dtype()).value},
                 {{"offset", call.has(first) ? call.integer(first) : int64_t(0)},
                  {"axis1", axis(first + 1, 0)},
                  {"axis2", axis(first + 2, 1)}})};
}

Values import_diagonal_scatter(GraphBuilder &b, const AtenCall &call) {
  return put_diagonal(b, term(b, call.value(0)), term(b, call.value(1)), call, 2);
}

Values import_diagonal_backward(GraphBuilder &b, const AtenCall &call) {
  return put_diagonal(b, full(b, result_type(call).shape, 0, result_type(call).dtype), term(b, call.value(0)), call, 2);
}

/// masked_scatter(x, mask, source): the n-th place where the mask holds gets source[n].
Values import_masked_scatter(GraphBuilder &b, const AtenCall &call) {
  Term x = term(b, call.value(0)).expand(result_type(call).shape), source = term(b, call.value(2));
  Term mask = term(b, call.value(1)).expand(x.shape());
  Expr n = graph::element_count(b.context(), x.shape());
  Term flat_mask = mask.reshape({n});
  Term rank = {&b,
               b.make("scan", {flat_mask.to(DType::kI64).value}, {{"axis", int64_t(0)}, {"mode", std::string("sum")}})};
  Term place = choose(flat_mask, rank - 1, rank.like(0));
  Expr available = graph::element_count(b.context(), source.shape());
  if (available.is_const(0))
    return {x.value};
  Term taken = {&b, b.make("index", {source.reshape({available}).value, place.value}, {})};
  return {choose(flat_mask, taken, x.reshape({n})).reshape(x.shape()).value};
}

/// histc(x, bins, low, high): how many elements lie in each of `bins` equal parts of [low, high].
Values import_histc(GraphBuilder &b, const AtenCall &call) {
  Term x = term(b, call.value(0));
  int64_t bins = call.integer(1);
  double low = call.number(2), high = call.number(3);
  if (x.dtype() != DType::kF32 && x.dtype() != DType::kF64)
    throw UnsupportedError(call.overload + " of " + std::string(name_of(x.dtype())));
  if (!(low < high) || std::isinf(low) || std::isinf(high))
    throw UnsupportedError(call.overload + " over the range of the elements");
  x = x.reshape({graph::element_count(b.context(), x.shape())});
  Term first = x.like(low), last = x.like(high);
  Term part = ((x - first) * static_cast<double>(bins) / (last - first)).to(DType::kI64);
  // The last part has its upper end; what lies outside, and NaN, goes to a part that is dropped.
  part = choose(both(x >= first, x <= last), combine("minimum", part, part.like(static_cast<double>(bins - 1))),
                part.like(static_cast<double>(bins)));
  Scatter s{full(b, sizes(b.context(), {bins + 1}), 0, DType::kI64), part, full(b, part.shape(), 1, DType::kI64), 0};
  return finish(b, call, s.run("add", s.base, s.update).slice(0, b.context().integer(0), b.context().integer(bins)));
}

constexpr AtenRule kRules[] = {
    {"aten.scatter.src aten.scatter.value", import_scatter},
    {"aten.scatter_add.default", import_scatter_add},
    {"aten.scatter.reduce aten.scatter.value_reduce", import_scatter_mode},
    {"aten.scatter_reduce.two", import_scatter_reduce},
    {"aten.index_add.default", import_index_add},
    {"aten.index_copy.default", import_index_copy},
    {"aten.index_fill.int_Scalar aten.index_fill.int_Tensor", import_index_fill},
    {"aten.index_put.default aten._unsafe_index_put.default aten._index_put_impl.default", import_index_put},
    {"aten.put.default", import_put},
    {"aten._unsafe_masked_index_put_accumulate.default", import_masked_put},
    {"aten.slice_scatter.default", import_slice_scatter},
    {"aten.select_scatter.default", import_select_scatter},
    {"aten.select_backward.default", import_select_backward},
    {"aten.slice_backward.default", import_slice_backward},
    {"aten.diagonal_scatter.default", import_diagonal_scatter},
    {"aten.diagonal_backward.default", import_diagonal_backward},
    {"aten.masked_scatter.default", import_masked_scatter},
    {"aten.histc.default", import_histc},
};

} // namespace

OpTable aten_scatter() { return {{}, kRules}; }

} // namespace oxyfuel
