#include "python/module.h"
#include "support/error.h"

namespace oxyfuel::python {

namespace {

template <class E> void bind_error(nb::module_ &module, const char *name, const char *doc) {
  nb::exception<E> type(module, name, PyExc_RuntimeError);
  type.attr("__module__") = "oxyfuel";
  type.attr("__doc__") = doc;
}

} // namespace

void bind_errors(nb::module_ &module) {
  bind_error<UnsupportedError>(module, "UnsupportedError", "Something that Oxyfuel does not compile; PyTorch runs it.");
  bind_error<CompileError>(module, "CompileError", "The user's program is at fault.");
  bind_error<InternalError>(module, "InternalError", "A bug of Oxyfuel.");
}

} // namespace oxyfuel::python
