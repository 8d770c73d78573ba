#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "driver/compile.h"
#include "driver/interpret.h"
#include "ops/interpret.h"
#include "ops/op.h"
#include "passes/pass_manager.h"
#include "python/module.h"
#include "support/memory.h"

namespace oxyfuel::python {

namespace {

nb::dict to_dict(const CompileReport &report) {
  nb::list kernels, remarks, seconds;
  for (const KernelInfo &kernel : report.kernels) {
    nb::dict item;
    item["name"] = kernel.name;
    item["fused"] = kernel.fused;
    item["locations"] = kernel.locations;
    item["schedule"] = kernel.schedule;
    item["flops"] = kernel.flops;
    item["bytes"] = kernel.bytes;
    item["step"] = kernel.step;
    item["kernel"] = kernel.kernel;
    kernels.append(item);
  }
  for (const Remark &remark : report.remarks)
    remarks.append(nb::make_tuple(remark.pass, remark.where, remark.text));
  for (const auto &[stage, time] : report.seconds)
    seconds.append(nb::make_tuple(stage, time));
  nb::dict result;
  result["kernels"] = kernels;
  result["externs"] = report.externs;
  result["remarks"] = remarks;
  result["seconds"] = seconds;
  result["kernels_generated"] = report.kernels_generated;
  result["kernels_cached"] = report.kernels_cached;
  result["cache_problem"] = report.cache_problem;
  result["contraction_flops"] = report.contraction_flops;
  return result;
}

nb::tuple compile_graph(graph::Graph &graph, const CompileSettings &settings) {
  CompiledProgram program;
  try {
    nb::gil_scoped_release released;
    program = compile(graph, settings);
    release_free_memory();
  } catch (const DeclinedError &declined) {
    if (declined.operations.empty())
      throw;
    nb::dict refusal;
    refusal["reason"] = std::string(declined.what());
    refusal["operations"] = declined.operations;
    return nb::make_tuple(nb::none(), refusal);
  }
  return nb::make_tuple(nb::bytes(program.bytes.data(), program.bytes.size()), to_dict(program.report));
}

nb::list to_bytes(const std::vector<graph::Tensor> &tensors) {
  nb::list results;
  for (const graph::Tensor &tensor : tensors)
    results.append(nb::bytes(tensor.data.data(), tensor.data.size()));
  return results;
}

std::vector<std::byte> copy_of(nb::bytes bytes) {
  const auto *first = static_cast<const std::byte *>(bytes.data());
  return {first, first + bytes.size()};
}

nb::list interpret_graph(const std::string &text, const std::vector<nb::bytes> &inputs) {
  std::unique_ptr<graph::Graph> graph = graph::parse(text);
  std::vector<graph::Tensor> tensors;
  for (size_t i = 0; i < graph->inputs().size(); ++i) {
    const graph::Type &type = graph->inputs()[i]->type;
    tensors.push_back({type.dtype, {}, copy_of(inputs.at(i))});
    for (Expr extent : type.shape)
      tensors.back().shape.push_back(extent.constant().value());
  }
  return to_bytes(graph::interpret(*graph, tensors, {}));
}

nb::list interpret_loops(const std::string &text, const std::vector<nb::bytes> &inputs,
                         const CompileSettings &settings) {
  std::unique_ptr<graph::Graph> graph = graph::parse(text);
  std::vector<std::vector<std::byte>> memory;
  for (const nb::bytes &input : inputs)
    memory.push_back(copy_of(input));
  return to_bytes(interpret_kernels(*graph, settings, memory));
}

} // namespace

void bind_program(nb::module_ &module) {
  module.def("can_run_new_code", can_run_new_code, "Whether the system lets this process run code that it makes.");
  module.def(
      "pass_names",
      [] {
        std::vector<std::string> names;
        for (const GraphPass &pass : graph_passes())
          names.emplace_back(pass.name);
        for (const LoopPass &pass : loop_passes())
          names.emplace_back(pass.name);
        return names;
      },
      "Names of all passes, in no order.");
  nb::class_<PassOptions>(module, "PassOptions")
      .def(nb::init<>())
      .def_static("from_environment", PassOptions::from_environment)
      .def_rw("verify", &PassOptions::verify)
      .def_rw("dump_directory", &PassOptions::dump_directory)
      .def_rw("round_trip", &PassOptions::round_trip)
      .def_rw("fusion", &PassOptions::fusion)
      .def_rw("fuel", &PassOptions::fuel)
      .def("skip", [](PassOptions &self, std::string name) { self.skipped.insert(std::move(name)); });
  nb::class_<CompileSettings>(module, "CompileSettings")
      .def(nb::init<>())
      .def_rw("target", &CompileSettings::target)
      .def_rw("threads", &CompileSettings::threads)
      .def_rw("verify", &CompileSettings::verify)
      .def_rw("scalar", &CompileSettings::scalar)
      .def_rw("cache_directory", &CompileSettings::cache_directory)
      .def_rw("dump_directory", &CompileSettings::dump_directory)
      .def_rw("passes", &CompileSettings::passes)
      .def(
          "add_argument",
          [](CompileSettings &self, bool is_integer, int index) { self.arguments.push_back({is_integer, index}); },
          "The next argument of the program: an input of the graph, or an integer that is a symbol of it.");
  module.def(
      "compile", compile_graph, nb::arg("graph"), nb::arg("settings"),
      "Compiles a graph, which is used up. Gives the program as bytes, and a report. Where a group of operators has no "
      "lowering: None, and the reason with the numbers of these operators (`operation` of import_node).");
  module.def(
      "interpret_graph", interpret_graph, nb::arg("text"), nb::arg("inputs"),
      "Results, row-major, of a graph without symbols by the interpreter of Graph IR; inputs are row-major too.");
  module.def("interpret_kernels", interpret_loops, nb::arg("text"), nb::arg("inputs"), nb::arg("settings"),
             "The same by the interpreter of Loop IR, from the kernels that `compile` makes; inputs are bytes in the "
             "strides of the graph.");
}

} // namespace oxyfuel::python
