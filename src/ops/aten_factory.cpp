// Overloads that make tensors from numbers, copy them, or change their type.
#include "ops/compose.h"
#include "ops/table.h"
#include "support/error.h"

#include <algorithm>
#include <cmath>

namespace oxyfuel {

namespace {

/// A tensor filled with one number; its type and shape are those that PyTorch gives.
Values filled(GraphBuilder &b, const AtenCall &call, graph::Value *number) {
  const graph::Type &type = call.results.at(0);
  return {b.expand(b.cast(number, type.dtype), type.shape)};
}

Values import_zeros(GraphBuilder &b, const AtenCall &call) {
  return filled(b, call, b.scalar(0, call.results.at(0).dtype));
}
Values import_ones(GraphBuilder &b, const AtenCall &call) {
  return filled(b, call, b.scalar(1, call.results.at(0).dtype));
}

/// The number is argument 1 of full, full_like and fill, argument 2 of new_full.
Values import_full(GraphBuilder &b, const AtenCall &call) {
  return filled(b, call, b.number(call.arguments.at(1), call.results.at(0).dtype));
}
Values import_new_full(GraphBuilder &b, const AtenCall &call) {
  return filled(b, call, b.number(call.arguments.at(2), call.results.at(0).dtype));
}
Values import_scalar_tensor(GraphBuilder &b, const AtenCall &call) {
  return filled(b, call, b.number(call.arguments.at(0), call.results.at(0).dtype));
}

bool is_real_number(const AtenArgument &argument) { return std::holds_alternative<double>(argument.data); }

graph::Attribute range_attribute(const AtenCall &call, int i, ExprContext &context) {
  if (is_real_number(call.arguments.at(i)))
    return call.number(i);
  return call.size(i, context);
}

/// Arguments start and step at the given places; start -1: 0, step -1: 1. The length is PyTorch's.
Values range(GraphBuilder &b, const AtenCall &call, int start, int step) {
  const graph::Type &type = call.results.at(0);
  Attributes attributes{{"length", type.shape.at(0)}, {"dtype", type.dtype}};
  ExprContext &context = b.context();
  attributes["start"] = start < 0 ? graph::Attribute(context.integer(0)) : range_attribute(call, start, context);
  attributes["step"] =
      step < 0 || !call.has(step) ? graph::Attribute(context.integer(1)) : range_attribute(call, step, context);
  if (!is_float(type.dtype))
    for (const char *name : {"start", "step"})
      if (std::holds_alternative<double>(attributes[name]))
        throw UnsupportedError(call.overload + " of integers from a floating number");
  return {b.make("iota", {}, std::move(attributes))};
}

Values import_arange(GraphBuilder &b, const AtenCall &call) { return range(b, call, -1, -1); }
Values import_arange_start(GraphBuilder &b, const AtenCall &call) { return range(b, call, 0, -1); }
Values import_arange_step(GraphBuilder &b, const AtenCall &call) { return range(b, call, 0, 2); }
Values import_prims_iota(GraphBuilder &b, const AtenCall &call) { return range(b, call, 1, 2); }

/// An end of a linspace as a double: integers are truncated first, as in eager.
Term linspace_end(GraphBuilder &b, const AtenCall &call, int i) {
  const DType type = call.results.at(0).dtype;
  if (graph::Value *tensor = call.tensor_or_null(i))
    return term(b, tensor).to(is_float(type) ? DType::kF64 : type).to(DType::kF64);
  const double number = call.number(i);
  return term(b, b.scalar(is_float(type) ? number : std::trunc(number), DType::kF64));
}

/// Both halves from their own end, as eager's linspace.
Values import_linspace(GraphBuilder &b, const AtenCall &call) {
  const graph::Type &type = call.results.at(0);
  auto steps = type.shape.at(0).constant();
  if (is_complex(type.dtype) || !steps)
    throw UnsupportedError(call.overload + " of complex numbers or with an unknown number of steps");
  Term start = linspace_end(b, call, 0), end = linspace_end(b, call, 1);
  Term step = (end - start) / std::max<double>(1, double(*steps - 1));
  Term place = numbers(b, type.shape[0], 1, 0, DType::kF64);
  Term from_start = place * step + start, from_end = end - (place.like(double(*steps - 1)) - place) * step;
  Term is_first_half = place < place.like(*steps == 1 ? 1 : double(*steps / 2));
  return {choose(is_first_half, from_start, from_end).to(type.dtype).value};
}

Values import_eye(GraphBuilder &b, const AtenCall &call) {
  const graph::Type &type = call.results.at(0);
  Term row = numbers(b, type.shape.at(0), 2, 0), column = numbers(b, type.shape.at(1), 2, 1);
  return {equal(row, column).to(type.dtype).value};
}

/// The operand itself: values do not change, and strides are told beside the graph.
Values import_same(GraphBuilder &b, const AtenCall &call) { return {b.cast(call.value(0), call.results.at(0).dtype)}; }

/// copy(dst, src): src in dst's type and shape.
Values import_copy(GraphBuilder &b, const AtenCall &call) {
  const graph::Type &type = call.results.at(0);
  return {b.expand(b.cast(call.value(1), type.dtype), type.shape)};
}

Values import_view_dtype(GraphBuilder &b, const AtenCall &call) {
  graph::Value *x = call.value(0);
  DType to = call.results.at(0).dtype;
  if (size_of(to) != size_of(x->type.dtype) || is_complex(to) || is_complex(x->type.dtype))
    throw UnsupportedError(call.overload + " between types of different sizes");
  return {x->type.dtype == to ? x : b.make("bitcast", {x}, {{"dtype", to}})};
}

constexpr AtenRule kRules[] = {
    {"aten.zeros.default aten.zeros_like.default aten.new_zeros.default aten.empty.memory_format "
     "aten.empty_like.default "
     "aten.new_empty.default aten.empty_strided.default aten.new_empty_strided.default aten.empty_permuted.default "
     "aten._efficientzerotensor.default aten.zero.default",
     import_zeros},
    {"aten.ones.default aten.ones_like.default aten.new_ones.default", import_ones},
    {"aten.full.default aten.full_like.default aten.fill.Scalar aten.fill.Tensor", import_full},
    {"aten.new_full.default", import_new_full},
    {"aten.scalar_tensor.default", import_scalar_tensor},
    {"aten.arange.default", import_arange},
    {"aten.arange.start", import_arange_start},
    {"aten.arange.start_step", import_arange_step},
    {"prims.iota.default", import_prims_iota},
    {"aten.linspace.default aten.linspace.Tensor_Tensor aten.linspace.Tensor_Scalar aten.linspace.Scalar_Tensor",
     import_linspace},
    {"aten.eye.default aten.eye.m", import_eye},
    {"aten._to_copy.default aten.clone.default aten.detach.default aten.alias.default aten.lift_fresh.default "
     "aten.lift_fresh_copy.default aten.contiguous.default aten.to.dtype aten.alias_copy.default "
     "aten.detach_copy.default prims.convert_element_type.default prims.device_put.default prims.clone.default "
     "aten._conj_copy.default aten.lift.default aten.resolve_neg.default aten.resolve_conj.default",
     import_same},
    {"aten.copy.default", import_copy},
    {"aten.view.dtype", import_view_dtype},
};

} // namespace

OpTable aten_factory() { return {{}, kRules}; }

} // namespace oxyfuel
