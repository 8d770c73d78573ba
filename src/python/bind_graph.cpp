// Graph IR as the importer builds it. Values and expressions that Python holds belong to their graph: they may not be
// used after it is gone or compiled.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <unordered_map>

#include "python/convert.h"
#include "support/error.h"

namespace oxyfuel::python {

namespace {

using graph::Graph;
using graph::Value;

const char *kind_name(OpKind kind) {
  switch (kind) {
  case OpKind::kPointwise: return "pointwise";
  case OpKind::kView: return "view";
  case OpKind::kIndexed: return "indexed";
  case OpKind::kReduction: return "reduction";
  case OpKind::kContraction: return "contraction";
  case OpKind::kAttention: return "attention";
  case OpKind::kScatter: return "scatter";
  case OpKind::kScan: return "scan";
  case OpKind::kSort: return "sort";
  case OpKind::kRegion: return "region";
  case OpKind::kExtern: return "extern";
  }
  return "";
}

Expr add_symbol(Graph &graph, const std::string &name, std::optional<int64_t> lower, std::optional<int64_t> upper,
                int64_t hint) {
  Var *var = graph.context().new_var(name, DType::kI64, lower, upper);
  var->hint = hint;
  graph.symbols.push_back(var);
  return graph.context().var(var);
}

Value *add_input(Graph &graph, DType dtype, nb::handle shape, nb::handle strides, std::string name, bool is_static) {
  Value *value = graph.add_input({dtype, to_sizes(shape, graph.context())}, std::move(name));
  value->layout.strides = to_sizes(strides, graph.context());
  value->is_static = is_static;
  return value;
}

nb::list to_list(const std::vector<Value *> &values) {
  nb::list list;
  for (Value *value : values)
    list.append(value ? nb::cast(value, nb::rv_policy::reference) : nb::none());
  return list;
}

std::vector<graph::Type> to_types(nb::handle pairs, ExprContext &context) {
  std::vector<graph::Type> types;
  for (nb::handle pair : pairs)
    types.push_back(to_type(pair, context));
  return types;
}

nb::object import_node(Graph &graph, std::string overload, nb::handle arguments, nb::handle types, nb::handle strides,
                       std::string location, nb::handle operand_strides, int64_t operation) {
  ExprContext &context = graph.context();
  AtenCall call;
  call.overload = std::move(overload);
  for (nb::handle argument : arguments)
    call.arguments.push_back(to_argument(argument));
  call.results = to_types(types, context);
  for (nb::handle item : strides)
    call.result_strides.push_back(to_sizes(item, context));
  call.location = {std::move(location), operation};
  std::unordered_map<const Value *, std::vector<Expr>> known;
  for (nb::handle pair : operand_strides)
    known.emplace(nb::cast<Value *>(pair[0]), to_sizes(pair[1], context));
  call.strides_of = [&known](const Value *value) {
    auto at = known.find(value);
    return at == known.end() ? std::vector<Expr>{} : at->second;
  };
  auto results = import_aten(graph, call);
  return results ? nb::object(to_list(*results)) : nb::none();
}

nb::list add_extern(Graph &graph, int64_t id, std::string target, const std::vector<Value *> &operands,
                    nb::handle types, nb::handle strides, nb::handle integers, std::vector<int64_t> binds, bool is_pure,
                    std::string location) {
  ExprContext &context = graph.context();
  std::map<std::string, graph::Attribute, std::less<>> attributes{{"id", id}, {"target", std::move(target)}};
  if (std::vector<Expr> values = to_sizes(integers, context); !values.empty())
    attributes.emplace("integers", std::move(values));
  if (!binds.empty())
    attributes.emplace("binds", std::move(binds));
  graph::Node *node = graph.add_typed(op(is_pure ? "extern_pure" : "extern"), operands, std::move(attributes),
                                      to_types(types, context));
  node->location.place = std::move(location);
  nb::list results;
  for (const auto &result : node->results) {
    result->layout.strides = to_sizes(strides[results.size()], context);
    results.append(nb::cast(result.get(), nb::rv_policy::reference));
  }
  return results;
}

nb::list add_node(Graph &graph, const std::string &name, const std::vector<Value *> &operands, nb::dict attributes,
                  std::string location) {
  const OpInfo *info = find_op(name);
  if (!info)
    throw nb::value_error(("no operator is named " + name).c_str());
  std::map<std::string, graph::Attribute, std::less<>> converted;
  for (auto [key, value] : attributes)
    converted.emplace(nb::cast<std::string>(key), to_attribute(value));
  graph::Node *node = graph.add(info, operands, std::move(converted));
  node->location.place = std::move(location);
  nb::list results;
  for (const auto &result : node->results)
    results.append(nb::cast(result.get(), nb::rv_policy::reference));
  return results;
}

void add_output(Graph &graph, Value *value, nb::handle strides) {
  graph.outputs.push_back(value);
  graph::Layout layout;
  if (!strides.is_none())
    layout.strides = to_sizes(strides, graph.context());
  graph.output_layouts.push_back(std::move(layout));
}

} // namespace

void bind_graph(nb::module_ &module) {
  nb::class_<Value>(module, "Value", "A tensor in a graph.")
      .def_prop_ro("dtype", [](const Value &value) { return value.type.dtype; })
      .def_prop_ro("shape", [](const Value &value) { return value.type.shape; })
      .def_prop_ro("rank", [](const Value &value) { return value.type.rank(); })
      .def_prop_ro("is_extern",
                   [](const Value &value) { return value.producer && value.producer->op->kind == OpKind::kExtern; })
      .def_prop_ro("type", [](const Value &value) { return graph::print(value.type); });

  nb::class_<Graph>(module, "Graph", "A program as operators on whole tensors; see src/ir/graph/graph.h.")
      .def(
          "__init__",
          [](Graph *self, std::string name) {
            new (self) Graph();
            self->name = std::move(name);
          },
          nb::arg("name") = "main")
      .def_static("parse", [](const std::string &text) { return std::shared_ptr<Graph>(graph::parse(text)); })
      .def("symbol", add_symbol, nb::arg("name"), nb::arg("lower").none(), nb::arg("upper").none(), nb::arg("hint"),
           "A new size symbol with lower <= value < upper; `hint` is a likely value, never a guard.")
      .def("integer", [](Graph &graph, int64_t value) { return graph.context().integer(value); })
      .def("add_input", add_input, nb::arg("dtype"), nb::arg("shape"), nb::arg("strides"), nb::arg("name"),
           nb::arg("is_static"), nb::rv_policy::reference)
      .def("import_node", import_node, nb::arg("overload"), nb::arg("arguments"), nb::arg("types"), nb::arg("strides"),
           nb::arg("location"), nb::arg("operand_strides") = nb::tuple(), nb::arg("operation") = -1,
           "Results of an ATen call (None for those that the overload returns as None), or None when there is no rule. "
           "Raises UnsupportedError when the rule declines.")
      .def("add_extern", add_extern, nb::arg("id"), nb::arg("target"), nb::arg("operands"), nb::arg("types"),
           nb::arg("strides"), nb::arg("integers"), nb::arg("binds"), nb::arg("is_pure"), nb::arg("location"))
      .def("add", add_node, nb::arg("op"), nb::arg("operands"), nb::arg("attributes"), nb::arg("location") = "")
      .def("add_output", add_output, nb::arg("value").none(), nb::arg("strides").none() = nb::none())
      .def("add_mutation",
           [](Graph &graph, Value *target, Value *value) { graph.mutations.push_back({target, value}); })
      .def("remove_dead", [](Graph &graph) { return graph.remove_dead(); })
      .def("verify", [](const Graph &graph) { graph::verify(graph); })
      .def_prop_ro("node_count", [](const Graph &graph) { return graph.nodes().size(); })
      .def("__str__", [](const Graph &graph) { return graph::print(graph); });

  module.def(
      "rules",
      [] {
        nb::set names;
        for (const AtenRule *rule : all_rules())
          names.add(nb::str(rule->overload.data(), rule->overload.size()));
        return names;
      },
      "The ATen overloads that compile to our own code.");
  module.def(
      "operators",
      [] {
        nb::list operators;
        for (const OpInfo *info : all_ops())
          operators.append(nb::make_tuple(nb::str(info->name.data(), info->name.size()), kind_name(info->kind),
                                          nb::str(info->doc.data(), info->doc.size()), info->ulps));
        return operators;
      },
      "(name, kind, doc, ulps) of each operator of Graph IR, in the order of the table.");
}

} // namespace oxyfuel::python
