// Reading at computed places.
#include "ops/aten_index.h"

#include "ops/compose.h"
#include "ops/promote.h"
#include "ops/table.h"
#include "support/error.h"

namespace oxyfuel {

std::vector<graph::Value *> places_of(const AtenCall &call, int i) {
  std::vector<graph::Value *> places = call.values(i);
  for (graph::Value *place : places)
    if (place && (is_bool(place->type.dtype) || place->type.dtype == DType::kU8))
      throw UnsupportedError(call.overload + " with a mask: the size of its result depends on values");
  return places;
}

graph::Value *at_least_1d(GraphBuilder &b, graph::Value *x) { return x->type.rank() == 0 ? b.unsqueeze(x, 0) : x; }

namespace {

const graph::Type &result_type(const AtenCall &call) { return call.results.at(0); }

Values import_index(GraphBuilder &b, const AtenCall &call) {
  Values operands = places_of(call, 1);
  operands.insert(operands.begin(), call.value(0));
  if (call.overload == "aten._unsafe_index.Tensor")
    return {b.make("index", operands, {{"unchecked", true}})};
  return {b.make("index", operands)};
}

Values import_gather(GraphBuilder &b, const AtenCall &call) {
  graph::Value *x = at_least_1d(b, call.value(0)), *places = at_least_1d(b, call.value(2));
  int64_t axis = wrap_axis(call.integer(1), x->type.rank());
  if (x->type.rank() != places->type.rank()) // no places at all, of any rank
    return {full(b, result_type(call).shape, 0, x->type.dtype).value};
  return {b.reshape(b.make("gather", {x, places}, {{"axis", axis}}), result_type(call).shape)};
}

Values import_index_select(GraphBuilder &b, const AtenCall &call) {
  graph::Value *x = at_least_1d(b, call.value(0)), *places = at_least_1d(b, call.value(2));
  int64_t axis = wrap_axis(call.integer(1), x->type.rank());
  return {b.reshape(b.make("index_select", {x, places}, {{"axis", axis}}), result_type(call).shape)};
}

/// embedding(weight, indices, …)
Values import_embedding(GraphBuilder &b, const AtenCall &call) {
  return {b.make("index_select", {call.value(0), call.value(1)}, {{"axis", int64_t(0)}})};
}

/// embedding_dense_backward(g, indices, rows, padding_idx, scale_grad_by_freq)
Values import_embedding_backward(GraphBuilder &b, const AtenCall &call) {
  if (call.boolean(4))
    throw UnsupportedError(call.overload + " scaled by frequency");
  Term g = wide(b, call.value(0)), places = term(b, call.value(1));
  Term skipped = {&b, b.scalar_integer(call.integer(3), places.dtype())};
  if (call.integer(3) >= 0)
    g = choose(equal(places, skipped).unsqueeze(places.rank()), g.like(0), g);
  Term base = full(b, result_type(call).shape, 0, g.dtype());
  graph::Value *sum = b.make("index_put", {base.value, g.value, places.value, nullptr}, {{"accumulate", true}});
  return {b.cast(sum, result_type(call).dtype)};
}

/// take(x, places): x as if it had one axis.
Values import_take(GraphBuilder &b, const AtenCall &call) {
  graph::Value *x = call.value(0);
  graph::Value *flat = b.reshape(x, {graph::element_count(b.context(), x->type.shape)});
  return {b.make("index", {flat, call.value(1)})};
}

Values search(GraphBuilder &b, const AtenCall &call, graph::Value *sorted, graph::Value *values, bool is_right) {
  DType common = promote(sorted->type.dtype, values->type.dtype);
  return {b.make("search_sorted", {b.cast(sorted, common), b.cast(values, common)},
                 {{"right", is_right}, {"dtype", result_type(call).dtype}})};
}

/// bucketize(values, boundaries, *, out_int32, right): eager's right means that equals go after, as in search_sorted.
Values import_bucketize(GraphBuilder &b, const AtenCall &call) {
  graph::Value *values =
      call.tensor_or_null(0) ? call.value(0) : b.number(call.arguments[0], call.value(1)->type.dtype);
  return search(b, call, call.value(1), values, call.has(3) && call.boolean(3));
}

/// searchsorted(sorted, values, *, out_int32, right, side, sorter)
Values import_searchsorted(GraphBuilder &b, const AtenCall &call) {
  graph::Value *sorted = call.value(0);
  graph::Value *values = call.tensor_or_null(1) ? call.value(1) : b.number(call.arguments[1], sorted->type.dtype);
  bool is_right = (call.has(3) && call.boolean(3)) || (call.has(4) && call.text(4) == "right");
  if (call.has(5))
    sorted = b.make("gather", {sorted, call.value(5)}, {{"axis", int64_t(sorted->type.rank() - 1)}});
  return search(b, call, sorted, values, is_right);
}

/// _unsafe_masked_index(x, mask, indices, fill): places are clamped by the reader, so only the mask matters.
Values import_masked_index(GraphBuilder &b, const AtenCall &call) {
  Term x = term(b, call.value(0));
  Values operands{x.value};
  std::vector<graph::Value *> places = call.values(2);
  for (size_t i = 0; i < places.size(); ++i) {
    if (!places[i]) {
      operands.push_back(nullptr);
      continue;
    }
    Term place = term(b, places[i]), last{&b, b.scalar_size(x.size(static_cast<int>(i)) - 1, place.dtype())};
    operands.push_back(combine("minimum", combine("maximum", place, place.like(0)), last).value);
  }
  Term found = {&b, b.make("index", operands, {{"unchecked", true}})};
  Term fill = {&b, b.cast(b.number(call.arguments.at(3), x.dtype()), x.dtype())};
  return {choose(term(b, call.value(1)), found, fill).value};
}

constexpr AtenRule kRules[] = {
    {"aten.index.Tensor aten._unsafe_index.Tensor", import_index},
    {"aten.gather.default", import_gather},
    {"aten.index_select.default", import_index_select},
    {"aten.embedding.default", import_embedding},
    {"aten.embedding_dense_backward.default", import_embedding_backward},
    {"aten.take.default", import_take},
    {"aten.bucketize.Tensor aten.bucketize.Scalar", import_bucketize},
    {"aten.searchsorted.Tensor aten.searchsorted.Scalar", import_searchsorted},
    {"aten._unsafe_masked_index.default", import_masked_index},
};

} // namespace

OpTable aten_index() { return {{}, kRules}; }

} // namespace oxyfuel
