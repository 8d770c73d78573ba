#include "python/module.h"

#include "runtime/abi.h"

NB_MODULE(_C, module) {
  namespace python = oxyfuel::python;
  namespace nb = nanobind;
  module.doc() = "Oxyfuel's compiler and runtime; the package `oxyfuel` is what users see.";
  nb::set_leak_warnings(false); // compiled functions live until the process ends
  module.attr("version") = OXYFUEL_VERSION;
  module.attr("abi_version") = static_cast<int>(kOxyfuelAbiVersion);
  python::bind_errors(module);
  python::bind_dtype(module);
  python::bind_expr(module);
  python::bind_graph(module);
  python::bind_program(module);
  python::bind_executable(module);
  python::bind_machine(module);
}
