// The Python module oxyfuel._C: one function a noun, each in bind_<noun>.cpp.
#pragma once

#include <nanobind/nanobind.h>

namespace oxyfuel::python {

namespace nb = nanobind;

/// The three error classes of support/error.h as exceptions named oxyfuel.UnsupportedError and so on.
void bind_errors(nb::module_ &module);
/// Element types.
void bind_dtype(nb::module_ &module);
/// Integer expressions over size symbols.
void bind_expr(nb::module_ &module);
/// Graph IR for the importer.
void bind_graph(nb::module_ &module);
/// Compiling a graph, and what comes out.
void bind_program(nb::module_ &module);
/// Running a program on PyTorch tensors.
void bind_executable(nb::module_ &module);
/// The processor, what it reaches at most, and profilers outside of the process.
void bind_machine(nb::module_ &module);

} // namespace oxyfuel::python
