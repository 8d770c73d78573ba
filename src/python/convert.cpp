#include "python/convert.h"

#include <nanobind/stl/complex.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <string>

namespace oxyfuel::python {

namespace {

bool is_sequence(nb::handle value) { return PyList_Check(value.ptr()) || PyTuple_Check(value.ptr()); }

[[noreturn]] void refuse(nb::handle value, const char *wanted) {
  const std::string found = nb::cast<std::string>(nb::str(value.type().attr("__name__")));
  throw nb::type_error(("found " + found + ", wanted " + wanted).c_str());
}

} // namespace

Expr to_size(nb::handle value, ExprContext &context) {
  if (PyLong_Check(value.ptr()))
    return context.integer(nb::cast<int64_t>(value));
  if (nb::isinstance<Expr>(value))
    return nb::cast<Expr>(value);
  refuse(value, "a size");
}

std::vector<Expr> to_sizes(nb::handle sequence, ExprContext &context) {
  if (!is_sequence(sequence))
    refuse(sequence, "a list of sizes");
  std::vector<Expr> sizes;
  sizes.reserve(nb::len(sequence));
  for (nb::handle item : sequence)
    sizes.push_back(to_size(item, context));
  return sizes;
}

graph::Type to_type(nb::handle pair, ExprContext &context) {
  return {nb::cast<DType>(pair[0]), to_sizes(pair[1], context)};
}

AtenArgument to_argument(nb::handle value) {
  PyObject *object = value.ptr();
  if (value.is_none())
    return {};
  if (nb::isinstance<graph::Value>(value))
    return {nb::cast<graph::Value *>(value)};
  if (PyBool_Check(object))
    return {object == Py_True};
  if (PyLong_Check(object))
    return {nb::cast<int64_t>(value)};
  if (PyFloat_Check(object))
    return {PyFloat_AS_DOUBLE(object)};
  if (is_sequence(value)) {
    std::vector<AtenArgument> items;
    items.reserve(nb::len(value));
    for (nb::handle item : value)
      items.push_back(to_argument(item));
    return {std::move(items)};
  }
  if (nb::isinstance<Expr>(value))
    return {nb::cast<Expr>(value)};
  if (nb::isinstance<DType>(value))
    return {nb::cast<DType>(value)};
  if (PyUnicode_Check(object))
    return {nb::cast<std::string>(value)};
  if (PyComplex_Check(object))
    return {nb::cast<std::complex<double>>(value)};
  refuse(value, "an argument of an operator");
}

graph::Attribute to_attribute(nb::handle value) {
  PyObject *object = value.ptr();
  if (PyBool_Check(object))
    return object == Py_True;
  if (PyLong_Check(object))
    return nb::cast<int64_t>(value);
  if (PyFloat_Check(object))
    return PyFloat_AS_DOUBLE(object);
  if (PyUnicode_Check(object))
    return nb::cast<std::string>(value);
  if (nb::isinstance<Expr>(value))
    return nb::cast<Expr>(value);
  if (nb::isinstance<DType>(value))
    return nb::cast<DType>(value);
  if (nb::isinstance<graph::Graph>(value))
    return nb::cast<std::shared_ptr<graph::Graph>>(value);
  if (!is_sequence(value))
    refuse(value, "an attribute");
  std::vector<int64_t> integers;
  std::vector<Expr> sizes;
  for (nb::handle item : value)
    if (PyLong_Check(item.ptr()))
      integers.push_back(nb::cast<int64_t>(item));
    else
      sizes.push_back(nb::cast<Expr>(item));
  if (sizes.empty())
    return integers;
  if (!integers.empty())
    refuse(value, "a list of integers alone or of expressions alone");
  return sizes;
}

} // namespace oxyfuel::python
