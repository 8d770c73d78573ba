// Group nodes from a grouping: regions are clones of the grouped nodes, with the views and constants that they read.
#include <algorithm>

#include "ops/op.h"
#include "passes/graph/fuse_state.h"
#include "support/error.h"

namespace oxyfuel::graph {
namespace {

class RegionBuilder {
public:
  RegionBuilder(Graph &graph, const FusionGroup &group, const std::unordered_set<Node *> &repeated)
      : region_(std::make_shared<Graph>(graph.shared_context())), repeated_(repeated),
        members_(group.nodes.begin(), group.nodes.end()) {
    region_->name = group.kind;
  }

  std::shared_ptr<Graph> region() { return region_; }
  const std::vector<Value *> &operands() const { return operands_; }

  Value *clone(Value *value) {
    if (auto it = copies_.find(value); it != copies_.end())
      return it->second;
    Node *node = value->producer;
    if (node && (members_.count(node) || is_free(*node) || repeated_.count(node))) {
      std::vector<Value *> operands;
      for (Value *operand : node->operands)
        operands.push_back(operand ? clone(operand) : nullptr);
      std::vector<Type> types;
      for (const auto &result : node->results)
        types.push_back(result->type);
      Node *copy = region_->add_typed(node->op, std::move(operands), node->attributes, std::move(types));
      copy->location = node->location;
      for (size_t i = 0; i < node->results.size(); ++i) {
        copy->result(static_cast<int>(i))->layout = node->result(static_cast<int>(i))->layout;
        copies_[node->result(static_cast<int>(i))] = copy->result(static_cast<int>(i));
      }
      return copies_.at(value);
    }
    Value *input = region_->add_input(value->type, "a" + std::to_string(operands_.size()));
    input->layout = value->layout;
    input->is_static = value->is_static;
    operands_.push_back(value);
    return copies_[value] = input;
  }

private:
  std::shared_ptr<Graph> region_;
  const std::unordered_set<Node *> &repeated_;
  std::unordered_set<Node *> members_;
  std::unordered_map<Value *, Value *> copies_;
  std::vector<Value *> operands_;
};

} // namespace

bool is_free(const Node &node) {
  return node.op->kind == OpKind::kView || (node.op->kind == OpKind::kIndexed && node.operands.empty());
}

void build_groups(Graph &graph, const Fusion &fusion) {
  std::unordered_map<Value *, Value *> results;
  std::vector<Node *> made;
  for (const auto &group : fusion.groups) {
    RegionBuilder builder(graph, *group, fusion.repeated);
    std::vector<Value *> roots(group->roots.rbegin(), group->roots.rend());
    std::vector<Type> types;
    std::shared_ptr<Graph> region = builder.region();
    for (Value *root : roots) {
      region->outputs.push_back(builder.clone(root));
      types.push_back(root->type);
    }
    Node *node = graph.add_typed(op("group"), builder.operands(), {{"kind", group->kind}, {"region", region}}, types);
    node->location = group->anchor ? group->anchor->location : roots[0]->producer->location;
    if (group->anchor && group->anchor->has("in_memory_of"))
      node->attributes["in_memory_of"] = group->anchor->get<int64_t>("in_memory_of");
    for (size_t i = 0; i < roots.size(); ++i) {
      node->result(static_cast<int>(i))->layout = roots[i]->layout;
      results[roots[i]] = node->result(static_cast<int>(i));
    }
    made.push_back(node);
  }
  for (auto &[from, to] : results)
    graph.replace_uses(from, to);
  graph.sort();
  graph.remove_dead();
  graph.sort();
}

} // namespace oxyfuel::graph
