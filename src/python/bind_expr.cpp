// Integer expressions for the importer, which turns PyTorch's symbolic sizes into them. Operators take plain integers
// too.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "ir/expr.h"
#include "python/module.h"

namespace oxyfuel::python {

namespace {

/// The other operand of a binary operator: an Expr, or an integer in the context of `like`.
Expr operand(nb::handle value, Expr like) {
  if (nb::isinstance<Expr>(value))
    return nb::cast<Expr>(value);
  return like.context().integer(nb::cast<int64_t>(value));
}

template <class F> auto binary(F f) {
  return [f](Expr a, nb::handle b) { return f(a, operand(b, a)); };
}
template <class F> auto reflected(F f) {
  return [f](Expr a, nb::handle b) { return f(operand(b, a), a); };
}

} // namespace

void bind_expr(nb::module_ &module) {
  const auto plus = [](Expr a, Expr b) { return a + b; };
  const auto minus = [](Expr a, Expr b) { return a - b; };
  const auto times = [](Expr a, Expr b) { return a * b; };
  const auto floor_divide = [](Expr a, Expr b) { return floor_div(a, b); };
  const auto modulo = [](Expr a, Expr b) { return floor_mod(a, b); };
  nb::class_<Expr>(module, "Expr", "An integer or boolean expression over size symbols; lives as long as its graph.")
      .def("__add__", binary(plus))
      .def("__radd__", reflected(plus))
      .def("__sub__", binary(minus))
      .def("__rsub__", reflected(minus))
      .def("__mul__", binary(times))
      .def("__rmul__", reflected(times))
      .def("__floordiv__", binary(floor_divide))
      .def("__rfloordiv__", reflected(floor_divide))
      .def("__mod__", binary(modulo), "Rounds towards minus infinity, as Python does.")
      .def("__rmod__", reflected(modulo))
      .def("__neg__", [](Expr a) { return -a; })
      .def("truncated_div", binary([](Expr a, Expr b) { return a / b; }))
      .def("minimum", binary([](Expr a, Expr b) { return min(a, b); }))
      .def("maximum", binary([](Expr a, Expr b) { return max(a, b); }))
      .def("equal", binary([](Expr a, Expr b) { return eq(a, b); }))
      .def("not_equal", binary([](Expr a, Expr b) { return ne(a, b); }))
      .def("less", binary([](Expr a, Expr b) { return a < b; }))
      .def("less_equal", binary([](Expr a, Expr b) { return a <= b; }))
      .def("logical_and", [](Expr a, Expr b) { return a && b; })
      .def("logical_or", [](Expr a, Expr b) { return a || b; })
      .def("logical_not", [](Expr a) { return !a; })
      .def("select",
           [](Expr condition, nb::handle a, nb::handle b) {
             Expr like = condition.context().integer(0);
             return select(condition, operand(a, like), operand(b, like));
           })
      .def(
          "as_integer", [](Expr a) { return cast(a, DType::kI64); }, "A condition as 0 or 1.")
      .def_prop_ro(
          "constant", [](Expr a) { return a.constant(); }, "The value, when it is known.")
      .def_prop_ro("is_boolean", [](Expr a) { return is_bool(a.dtype()); })
      .def("__str__", [](Expr a) { return print(a); })
      .def("__repr__", [](Expr a) { return print(a); });
}

} // namespace oxyfuel::python
