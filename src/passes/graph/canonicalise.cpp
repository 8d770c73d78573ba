// A rule looks at one node and gives the value that replaces its result, or null. Rules see operands that are canonical
// already, so that one sweep in order does most of the work; sweeps repeat until none changes anything.
#include "passes/graph/canonicalise.h"

#include <algorithm>
#include <numeric>

#include "ops/op.h"
#include "ops/shape.h"
#include "passes/graph/simplify_pointwise.h"

namespace oxyfuel::graph {

namespace {

/// The node of operator `name` that makes `value`, when its layout is free.
Node *producer_of(const Value *value, std::string_view name) {
  Node *node = value->producer;
  return node && node->op->name == name && value->layout.strides.empty() ? node : nullptr;
}

bool is_one(Expr size) { return size.is_const(1); }

/// Dimensions whose size is not 1, in order.
std::vector<int64_t> wide_dims(const std::vector<Expr> &shape) {
  std::vector<int64_t> dims;
  for (size_t i = 0; i < shape.size(); ++i)
    if (!is_one(shape[i]))
      dims.push_back(static_cast<int64_t>(i));
  return dims;
}

/// Neither adds nor crops.
bool is_empty_pad(Graph &graph, const Node &pad) {
  for (const char *side : {"lower", "upper"})
    for (Expr amount : sizes_attribute(pad, side, graph.context()))
      if (!amount.is_const(0))
        return false;
  return true;
}

class ViewRules {
public:
  ViewRules(Graph &graph, Node &node) : graph_(graph), node_(node), x_(node.operands[0]) {}

  Value *apply() {
    std::string_view name = node_.op->name;
    if (name == "permute")
      return permute();
    if (name == "reshape")
      return reshape();
    if (name == "expand")
      return expand();
    if (name == "slice")
      return slice();
    if (name == "flip")
      return flip();
    return nullptr;
  }

private:
  Value *permute() {
    const auto &dims = node_.get<std::vector<int64_t>>("dims");
    if (std::is_sorted(dims.begin(), dims.end()))
      return x_;
    if (Node *inner = producer_of(x_, "permute")) {
      const auto &inner_dims = inner->get<std::vector<int64_t>>("dims");
      std::vector<int64_t> composed;
      for (int64_t dim : dims)
        composed.push_back(inner_dims[dim]);
      return make("permute", inner->operands[0], {{"dims", composed}});
    }
    // Only dimensions of size 1 move: the elements keep their order.
    std::vector<int64_t> moved;
    for (int64_t dim : dims)
      if (!is_one(x_->type.shape[dim]))
        moved.push_back(dim);
    if (std::is_sorted(moved.begin(), moved.end()))
      return make_shaped("reshape", x_);
    return nullptr;
  }

  Value *reshape() {
    if (x_->type.shape == shape())
      return x_;
    if (Node *inner = producer_of(x_, "reshape"))
      return make_shaped("reshape", inner->operands[0]);
    return nullptr;
  }

  Value *expand() {
    if (x_->type.shape == shape())
      return x_;
    if (Node *inner = producer_of(x_, "expand"))
      return make_shaped("expand", inner->operands[0]);
    // A reshape that only puts dimensions of size 1 in front is done by the expand.
    if (Node *inner = producer_of(x_, "reshape")) {
      const auto &from = inner->operands[0]->type.shape;
      const auto &to = x_->type.shape;
      size_t added = to.size() - std::min(from.size(), to.size());
      if (to.size() > from.size() && std::all_of(to.begin(), to.begin() + added, is_one) &&
          std::equal(from.begin(), from.end(), to.begin() + added))
        return make_shaped("expand", inner->operands[0]);
    }
    const auto &from = x_->type.shape;
    if (wide_dims(from).size() == wide_dims(shape()).size() && node_.result()->type.rank() > x_->type.rank())
      return make_shaped("reshape", x_);
    return nullptr;
  }

  Value *slice() {
    int64_t axis = node_.get<int64_t>("axis");
    std::optional<Expr> start = size_of("start", node_);
    int64_t step = node_.get_or<int64_t>("step", 1);
    if (start && start->is_const(0) && step == 1 && x_->type.shape == shape())
      return x_;
    Node *inner = producer_of(x_, "slice");
    if (!inner || inner->get<int64_t>("axis") != axis || !start)
      return nullptr;
    std::optional<Expr> inner_start = size_of("start", *inner);
    int64_t inner_step = inner->get_or<int64_t>("step", 1);
    if (!inner_start)
      return nullptr;
    return make("slice", inner->operands[0],
                {{"axis", axis},
                 {"start", *inner_start + *start * inner_step},
                 {"step", step * inner_step},
                 {"length", shape()[axis]}});
  }

  Value *flip() {
    std::vector<int64_t> axes;
    for (int64_t axis : node_.get<std::vector<int64_t>>("axes"))
      if (!is_one(x_->type.shape[axis]))
        axes.push_back(axis);
    if (axes.empty())
      return x_;
    Node *inner = producer_of(x_, "flip");
    if (!inner)
      return nullptr;
    std::vector<int64_t> inner_axes = inner->get<std::vector<int64_t>>("axes"), both;
    std::sort(axes.begin(), axes.end());
    std::sort(inner_axes.begin(), inner_axes.end());
    std::set_symmetric_difference(axes.begin(), axes.end(), inner_axes.begin(), inner_axes.end(),
                                  std::back_inserter(both));
    return both.empty() ? inner->operands[0] : make("flip", inner->operands[0], {{"axes", both}});
  }

  const std::vector<Expr> &shape() const { return node_.result()->type.shape; }

  /// A size attribute, which may be an integer or an expression.
  std::optional<Expr> size_of(std::string_view name, const Node &node) const {
    auto at = node.attributes.find(name);
    if (at == node.attributes.end())
      return std::nullopt;
    if (auto value = std::get_if<int64_t>(&at->second))
      return graph_.context().integer(*value);
    auto value = std::get_if<Expr>(&at->second);
    return value ? std::optional(*value) : std::nullopt;
  }

  Value *make(std::string_view name, Value *operand, std::map<std::string, Attribute, std::less<>> attributes) {
    Node *made = graph_.add(op(name), {operand}, std::move(attributes), &node_);
    made->location = node_.location;
    return made->result();
  }
  Value *make_shaped(std::string_view name, Value *operand) { return make(name, operand, {{"shape", shape()}}); }

  Graph &graph_;
  Node &node_;
  Value *x_;
};

Value *simplify(Graph &graph, Node &node) {
  if (node.results.size() != 1 || !node.result()->layout.strides.empty())
    return nullptr;
  if (node.op->name == "pad" && node.operands[0]->type.shape == node.result()->type.shape && is_empty_pad(graph, node))
    return node.operands[0];
  if (node.op->kind == OpKind::kView)
    if (Value *value = ViewRules(graph, node).apply())
      return value;
  return simplify_pointwise(graph, node);
}

bool sweep(Graph &graph, PassContext &context) {
  bool changed = false;
  std::vector<Node *> nodes;
  for (const auto &node : graph.nodes())
    nodes.push_back(node.get());
  for (Node *node : nodes) {
    for (const auto &[name, attribute] : node->attributes)
      if (auto region = std::get_if<std::shared_ptr<Graph>>(&attribute))
        changed |= canonicalise(**region, context);
    bool used = std::any_of(node->results.begin(), node->results.end(),
                            [&](const auto &result) { return graph.is_used(result.get()); });
    if (!used || context.options.fuel <= 0)
      continue;
    if (drop_broadcasts(graph, *node)) {
      changed = true;
      context.spend_fuel();
    }
    if (Value *value = simplify(graph, *node)) {
      if (value->name.empty() && value->producer)
        value->name = node->result()->name;
      graph.replace_uses(node->result(), value);
      changed = true;
      context.spend_fuel();
    }
  }
  if (changed)
    graph.remove_dead();
  return changed;
}

} // namespace

bool canonicalise(Graph &graph, PassContext &context) {
  bool changed = false;
  while (sweep(graph, context))
    changed = true;
  return changed;
}

} // namespace oxyfuel::graph
