// Padding by a value, by reflection and by repetition, and triangles.
#include "ops/compose.h"
#include "ops/table.h"
#include "support/error.h"

namespace oxyfuel {

namespace {

struct Amounts {
  Shape lower, upper; ///< of every axis
};

/// PyTorch's list starts with the last axis: (lower, upper) pairs.
Amounts amounts_of(ExprContext &context, const Shape &list, int rank) {
  Amounts amounts{Shape(rank, context.integer(0)), Shape(rank, context.integer(0))};
  for (size_t i = 0; i + 1 < list.size(); i += 2) {
    int axis = rank - 1 - static_cast<int>(i / 2);
    amounts.lower.at(axis) = list[i], amounts.upper.at(axis) = list[i + 1];
  }
  return amounts;
}

Values import_constant_pad(GraphBuilder &b, const AtenCall &call) {
  Term x = term(b, call.value(0));
  Amounts amounts = amounts_of(b.context(), call.sizes(1, b.context()), x.rank());
  Attributes attributes{{"lower", amounts.lower}, {"upper", amounts.upper}};
  if (call.has(2) && std::holds_alternative<int64_t>(call.arguments[2].data))
    attributes["value"] = call.integer(2);
  else
    attributes["value"] = call.has(2) ? call.number(2) : 0.0;
  return {b.make("pad", {x.value}, std::move(attributes))};
}

Values pad_map(GraphBuilder &b, const AtenCall &call, const std::string &mode) {
  Term x = term(b, call.value(0));
  Amounts amounts = amounts_of(b.context(), call.sizes(1, b.context()), x.rank());
  return {b.make("pad_map", {x.value}, {{"mode", mode}, {"lower", amounts.lower}, {"upper", amounts.upper}})};
}

Values import_reflection_pad(GraphBuilder &b, const AtenCall &call) { return pad_map(b, call, "reflect"); }
Values import_replication_pad(GraphBuilder &b, const AtenCall &call) { return pad_map(b, call, "replicate"); }

/// pad_map_backward(g, x, padding): axis by axis, elements of g are added where they were read.
Values pad_map_backward(GraphBuilder &b, const AtenCall &call, const std::string &mode) {
  Term g = wide(b, call.value(0)), x = term(b, call.value(1));
  Amounts amounts = amounts_of(b.context(), call.sizes(2, b.context()), x.rank());
  for (int axis = 0; axis < x.rank(); ++axis) {
    if (amounts.lower[axis].is_const(0) && amounts.upper[axis].is_const(0))
      continue;
    Term line = numbers(b, x.size(axis), 1, 0);
    Term places = {
        &b, b.make("pad_map", {line.value},
                   {{"mode", mode}, {"lower", Shape{amounts.lower[axis]}}, {"upper", Shape{amounts.upper[axis]}}})};
    Shape shape = g.shape();
    shape[axis] = x.size(axis);
    Values operands{full(b, shape, 0, g.dtype()).value, g.value};
    operands.resize(2 + g.rank());
    operands[2 + axis] = places.value;
    g = {&b, b.make("index_put", operands, {{"accumulate", true}})};
  }
  return {g.to(call.results.at(0).dtype).value};
}

Values import_reflection_pad_backward(GraphBuilder &b, const AtenCall &call) {
  return pad_map_backward(b, call, "reflect");
}
Values import_replication_pad_backward(GraphBuilder &b, const AtenCall &call) {
  return pad_map_backward(b, call, "replicate");
}

/// Keeps elements whose column minus row is at most (tril) or at least (triu) the diagonal's number.
Values triangle(GraphBuilder &b, const AtenCall &call, bool is_lower) {
  Term x = term(b, call.value(0));
  int rank = x.rank();
  int64_t diagonal = call.has(1) ? call.integer(1) : 0;
  Term row = numbers(b, x.size(rank - 2), rank, rank - 2) + double(diagonal);
  Term column = numbers(b, x.size(rank - 1), rank, rank - 1);
  Term zero = {&b, b.cast(b.scalar(0, x.dtype()), x.dtype())};
  return {choose(is_lower ? column <= row : column >= row, x, zero).value};
}

Values import_tril(GraphBuilder &b, const AtenCall &call) { return triangle(b, call, true); }
Values import_triu(GraphBuilder &b, const AtenCall &call) { return triangle(b, call, false); }

constexpr AtenRule kRules[] = {
    {"aten.constant_pad_nd.default", import_constant_pad},
    {"aten.reflection_pad1d.default aten.reflection_pad2d.default aten.reflection_pad3d.default",
     import_reflection_pad},
    {"aten.replication_pad1d.default aten.replication_pad2d.default aten.replication_pad3d.default",
     import_replication_pad},
    {"aten.reflection_pad1d_backward.default aten.reflection_pad2d_backward.default "
     "aten.reflection_pad3d_backward.default",
     import_reflection_pad_backward},
    {"aten.replication_pad1d_backward.default aten.replication_pad2d_backward.default "
     "aten.replication_pad3d_backward.default",
     import_replication_pad_backward},
    {"aten.tril.default", import_tril},
    {"aten.triu.default", import_triu},
};

} // namespace

OpTable aten_pad() { return {{}, kRules}; }

} // namespace oxyfuel
