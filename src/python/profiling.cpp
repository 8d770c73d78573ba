#include "python/profiling.h"

#include <atomic>
#include <nanobind/stl/string.h>
#include <string>

namespace oxyfuel::python {

namespace {

std::atomic<bool> records{false};

// Both stay until the process ends.
PyObject *profiler_state = nullptr; // the variables of torch.autograd.profiler
PyObject *range_type = nullptr;     // a context manager made from a name

void attach_profiler(nb::dict state, nb::object range) {
  profiler_state = state.release().ptr();
  range_type = range.release().ptr();
}

/// Extern steps show what they call by themselves.
bool is_shown(const runtime::Step &step) {
  return step.kind != runtime::Step::Kind::kExtern && step.kind != runtime::Step::Kind::kSizes;
}

} // namespace

bool records_steps() { return records.load(std::memory_order_relaxed); }

bool torch_profiler_is_on() {
  static PyObject *name = PyUnicode_InternFromString("_is_profiler_enabled");
  return profiler_state && PyDict_GetItem(profiler_state, name) == Py_True;
}

void StepRanges::begin(const runtime::Plan &plan, int32_t index) {
  const runtime::Step &step = plan.steps[index];
  if (!is_shown(step))
    return;
  ranges_.resize(plan.steps.size());
  try {
    if (!ranges_[index]) {
      const std::string place = step.location.substr(0, step.location.find(' '));
      const std::string text = "oxyfuel::" + (step.name.empty() ? std::string("step") : step.name) +
                               (place.empty() ? "" : " (" + place + ")");
      ranges_[index] = nb::handle(range_type)(text);
    }
    ranges_[index].attr("__enter__")();
  } catch (nb::python_error &error) {
    ranges_[index].reset();
    error.discard_as_unraisable("a range of torch.profiler");
  }
}

void StepRanges::end(int32_t index) {
  if (static_cast<size_t>(index) >= ranges_.size() || !ranges_[index])
    return;
  try {
    ranges_[index].attr("__exit__")(nb::none(), nb::none(), nb::none());
  } catch (nb::python_error &error) {
    error.discard_as_unraisable("a range of torch.profiler");
  }
}

void bind_profiling(nb::module_ &module) {
  module.def("attach_profiler", attach_profiler, nb::arg("state"), nb::arg("range"),
             "`state`: the variables of torch.autograd.profiler; `range`: torch._C._profiler._RecordFunctionFast.");
  module.def(
      "record_steps", [](bool wanted) { records.store(wanted, std::memory_order_relaxed); }, nb::arg("wanted"),
      "Calls add to the step times of their executables from now on, or no longer.");
}

} // namespace oxyfuel::python
