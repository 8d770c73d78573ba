// The rules that every graph obeys between passes.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/graph/op_info.h"
#include "support/error.h"

namespace oxyfuel::graph {

namespace {

class Verifier {
public:
  explicit Verifier(const Graph &graph) : graph_(graph) {}

  void run() {
    for (size_t i = 0; i < graph_.inputs().size(); ++i) {
      const Value *input = graph_.inputs()[i].get();
      place_ = "input %" + input->name;
      require(!input->producer && input->index == static_cast<int>(i), "its producer or index is wrong");
      check_value(input);
      defined_.insert(input);
    }
    for (const auto &node : graph_.nodes())
      check_node(*node);
    check_ends();
    check_users();
  }

private:
  void require(bool holds, const std::string &rule) {
    if (!holds)
      throw InternalError("graph @" + graph_.name + ": " + place_ + ": " + rule);
  }

  void check_size(Expr e) {
    require(static_cast<bool>(e), "a size is missing");
    require(&e.context() == graph_.shared_context().get(), "a size belongs to another graph's context");
    require(is_integer(e.dtype()), "a size is not an integer");
  }

  void check_layout(const Layout &layout, const Type &type) {
    require(layout.strides.empty() || layout.strides.size() == type.shape.size(),
            "a layout has " + std::to_string(layout.strides.size()) + " strides for rank " +
                std::to_string(type.rank()));
    for (Expr stride : layout.strides)
      check_size(stride);
    if (layout.offset)
      check_size(layout.offset);
  }

  void check_value(const Value *value) {
    for (Expr size : value->type.shape) {
      check_size(size);
      require(size.constant().value_or(0) >= 0, "a size is negative");
    }
    check_layout(value->layout, value->type);
  }

  void check_node(const Node &node) {
    place_ = "node of no operator";
    require(node.op, "it has none");
    place_ = std::string(node.op->name) + " (node " + std::to_string(position_++) + ")" +
             (node.location.place.empty() ? "" : " at " + node.location.place);
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const Value *operand = node.operands[i];
      if (!operand)
        continue;
      require(defined_.count(operand), "operand " + std::to_string(i) + " is not defined before it");
      ++uses_[operand][&node];
    }
    for (const auto &[name, attribute] : node.attributes)
      check_attribute(name, attribute);
    for (size_t i = 0; i < node.results.size(); ++i) {
      const Value *result = node.result(static_cast<int>(i));
      require(result->producer == &node && result->index == static_cast<int>(i),
              "a result's producer or index is wrong");
      check_value(result);
    }
    check_types(node);
    if (node.op->name == "group")
      check_group(node);
    for (const auto &result : node.results)
      defined_.insert(result.get());
  }

  void check_attribute(const std::string &name, const Attribute &attribute) {
    auto check_one = [&](Expr e) {
      require(static_cast<bool>(e), "attribute " + name + " holds an empty expression");
      require(&e.context() == graph_.shared_context().get(), "attribute " + name + " belongs to another context");
    };
    if (auto e = std::get_if<Expr>(&attribute))
      check_one(*e);
    if (auto list = std::get_if<std::vector<Expr>>(&attribute))
      std::for_each(list->begin(), list->end(), check_one);
    if (auto region = std::get_if<std::shared_ptr<Graph>>(&attribute)) {
      require(*region != nullptr, "attribute " + name + " holds no graph");
      require((*region)->shared_context() == graph_.shared_context(), "region " + name + " has another context");
      require((*region)->symbols.empty(), "region " + name + " declares symbols of its own");
      verify(**region);
    }
  }

  void check_types(const Node &node) {
    if (!node.op->infer)
      return;
    std::vector<Type> inferred;
    try {
      inferred = node.op->infer(node, *graph_.shared_context());
    } catch (const Error &error) {
      require(false, std::string("its operands are refused: ") + error.what());
    }
    require(inferred.size() == node.results.size(), "it has " + std::to_string(node.results.size()) +
                                                        " results and should have " + std::to_string(inferred.size()));
    for (size_t i = 0; i < inferred.size(); ++i)
      require(agree(inferred[i], node.results[i]->type), "result " + std::to_string(i) + " is " +
                                                             print(node.results[i]->type) + " and should be " +
                                                             print(inferred[i]));
  }

  void check_group(const Node &node) {
    const Graph &region = *node.get<std::shared_ptr<Graph>>("region");
    require(region.inputs().size() == node.operands.size(), "its region has another number of inputs");
    require(region.outputs.size() == node.results.size(), "its region has another number of outputs");
    for (size_t i = 0; i < node.operands.size(); ++i)
      require(node.operands[i] && agree(node.operands[i]->type, region.inputs()[i]->type),
              "operand " + std::to_string(i) + " has another type than the region's input");
    for (size_t i = 0; i < node.results.size(); ++i)
      require(region.outputs[i] && agree(node.results[i]->type, region.outputs[i]->type),
              "result " + std::to_string(i) + " has another type than the region's output");
  }

  void check_ends() {
    place_ = "outputs";
    require(graph_.output_layouts.empty() || graph_.output_layouts.size() == graph_.outputs.size(),
            "their layouts are another number");
    for (size_t i = 0; i < graph_.outputs.size(); ++i) {
      if (!graph_.outputs[i])
        continue;
      require(defined_.count(graph_.outputs[i]), "output " + std::to_string(i) + " is not defined");
      if (i < graph_.output_layouts.size())
        check_layout(graph_.output_layouts[i], graph_.outputs[i]->type);
    }
    place_ = "mutations";
    for (const Mutation &mutation : graph_.mutations) {
      require(mutation.target && !mutation.target->producer && defined_.count(mutation.target), "a target is no input");
      require(mutation.value && defined_.count(mutation.value), "a value is not defined");
      require(agree(mutation.target->type, mutation.value->type),
              "input %" + mutation.target->name + " takes a value of another type");
    }
  }

  void check_users() {
    for (const Value *value : defined_) {
      place_ = value->producer ? "a result of " + std::string(value->producer->op->name) : "input %" + value->name;
      auto expected = uses_[value];
      for (const Node *user : value->users)
        require(expected[user]-- > 0, "it lists a user that does not use it");
      for (const auto &[user, count] : expected)
        require(count == 0, "it does not list its user " + std::string(user->op->name));
    }
  }

  const Graph &graph_;
  std::string place_;
  int position_ = 0;
  std::unordered_set<const Value *> defined_;
  std::unordered_map<const Value *, std::unordered_map<const Node *, int>> uses_;
};

} // namespace

void verify(const Graph &graph) { Verifier(graph).run(); }

} // namespace oxyfuel::graph
