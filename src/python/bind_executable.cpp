#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "python/executable.h"
#include "python/profiling.h"
#include "python/torch_bridge.h"
#include "runtime/threads.h"

namespace oxyfuel::python {

namespace {

OutputRecipe to_recipe(nb::handle item) {
  using Kind = OutputRecipe::Kind;
  const std::string kind = nb::cast<std::string>(item[0]);
  OutputRecipe recipe;
  if (kind == "constant") {
    recipe.constant = nb::borrow(item[1]);
    return recipe;
  }
  recipe.index = nb::cast<int32_t>(item[1]);
  if (kind == "argument")
    recipe.kind = Kind::kArgument;
  else if (kind == "result")
    recipe.kind = Kind::kResult;
  else if (kind == "integer")
    recipe.kind = Kind::kInteger;
  else if (kind == "boolean")
    recipe.kind = Kind::kBoolean;
  else if (kind == "view" || kind == "shared") {
    recipe.kind = kind == "view" ? Kind::kView : Kind::kShared;
    recipe.shape = nb::cast<std::vector<int64_t>>(item[2]);
    recipe.strides = nb::cast<std::vector<int64_t>>(item[3]);
    recipe.offset = nb::cast<int64_t>(item[4]);
  } else
    throw nb::value_error(("no output is made as " + kind).c_str());
  return recipe;
}

const char *kind_name(runtime::Buffer::Kind kind) {
  using Kind = runtime::Buffer::Kind;
  switch (kind) {
  case Kind::kArgument: return "argument";
  case Kind::kOutput: return "output";
  case Kind::kArena: return "arena";
  case Kind::kBound: return "prepared weight";
  case Kind::kConstant: return "constant";
  case Kind::kExtern: return "extern result";
  case Kind::kDynamic: return "dynamic";
  }
  return "";
}

nb::tuple memory_map(Executable &self) {
  const runtime::Plan &plan = self.program().plan();
  const runtime::Program::MemoryMap map = self.program().memory_map();
  nb::list buffers;
  for (const auto &[index, bytes, offset] : map.buffers) {
    const runtime::Buffer &buffer = plan.buffers[index];
    const bool has_step =
        buffer.kind != runtime::Buffer::Kind::kBound && buffer.first_step < static_cast<int32_t>(plan.steps.size());
    buffers.append(nb::make_tuple(kind_name(buffer.kind), has_step ? plan.steps[buffer.first_step].name : "",
                                  std::string(name_of(buffer.dtype)), bytes, offset, buffer.first_step,
                                  buffer.last_step));
  }
  return nb::make_tuple(map.arena_bytes, buffers);
}

void make_executable(Executable *self, nb::bytes program, int32_t argument_count, std::vector<int32_t> positions,
                     nb::list constants, nb::list outputs, nb::list externs) {
  Signature signature;
  signature.argument_count = argument_count;
  signature.positions = std::move(positions);
  for (nb::handle constant : constants)
    signature.constants.push_back(nb::borrow(constant));
  for (nb::handle output : outputs)
    signature.outputs.push_back(to_recipe(output));
  for (nb::handle item : externs)
    signature.externs.push_back({nb::borrow(item[0]), nb::cast<std::vector<int32_t>>(item[1]),
                                 nb::cast<std::vector<int32_t>>(item[2]),
                                 nb::cast<std::vector<std::vector<int32_t>>>(item[3]), nb::cast<int32_t>(item[4]),
                                 nb::cast<std::vector<int32_t>>(item[5])});
  new (self) Executable(std::move(program), std::move(signature));
}

} // namespace

void bind_executable(nb::module_ &module) {
  bind_bridge(module);
  bind_profiling(module);
  module.def("override_thread_limit", runtime::override_thread_limit, nb::arg("threads"),
             "Lets calls have this many threads whatever the machine has, for tests; 0 undoes it.");
  module.def("bump_epoch", bump_epoch, "Weights may have changed without their version counters: bind them again.");
  nb::class_<Executable>(module, "Executable", "A compiled program on PyTorch tensors; calls may come from any thread.")
      .def("__init__", make_executable, nb::arg("program"), nb::arg("argument_count"), nb::arg("positions"),
           nb::arg("constants"), nb::arg("outputs"), nb::arg("externs"))
      .def("__call__", &Executable::call, nb::arg("arguments"),
           "Empties the list of arguments; gives a list of results.")
      .def("step_times", &Executable::step_times,
           "(kind, name, location, runs, nanoseconds, begin, end) of each step over the calls that were recorded.")
      .def("forget_step_times", &Executable::forget_step_times)
      .def("memory_map", memory_map,
           "(bytes of the arena, buffers) at the sizes that were met last; a buffer: (kind, name, dtype, bytes, offset "
           "in "
           "the arena or -1, first step, last step).")
      .def("invalidate", [](Executable &self) { self.program().invalidate(); })
      .def("trim", [](Executable &self) { self.program().trim(); })
      .def_prop_ro("bind_count", [](Executable &self) { return self.program().bind_count(); })
      .def_prop_ro("memory", [](Executable &self) {
        const runtime::Program::Memory memory = self.program().memory();
        return nb::make_tuple(memory.arenas, memory.bindings);
      });
}

} // namespace oxyfuel::python
