// Channels innermost around convolutions.
#include "passes/graph/assign_layouts.h"

#include <unordered_set>

#include "ops/op.h"
#include "passes/graph/strided.h"

namespace oxyfuel::graph {
namespace {

class AssignLayouts {
public:
  AssignLayouts(Graph &graph, PassContext &context) : graph_(graph), pass_(context) {}

  bool run() {
    for (Value *output : graph_.outputs)
      if (output)
        decided_.insert(view_base(output));
    for (const auto &node : graph_.nodes())
      if (node->op->name == "convolution" && node->result()->type.rank() >= 3) {
        reach(node->result());
        reach(node->operands[0]);
      }
    while (!pending_.empty()) {
      Value *value = pending_.back();
      pending_.pop_back();
      for (Node *user : value->users)
        if (keeps_places(*user))
          reach(user->result());
      if (value->producer && keeps_places(*value->producer))
        for (Value *operand : value->producer->operands)
          if (operand)
            reach(operand);
    }
    return changed_;
  }

private:
  static bool keeps_places(const Node &node) {
    if (node.op->kind == OpKind::kPointwise)
      return node.op->name != "copy" || node.result()->layout.strides.empty();
    std::string_view name = node.op->name;
    return name == "windows" || name == "pad" || name == "concat" ||
           (node.op->kind == OpKind::kReduction && node.operands[0]->producer &&
            node.operands[0]->producer->op->name == "windows");
  }

  void reach(Value *value) {
    if (!seen_.insert(value).second || value->type.rank() < 3)
      return;
    pending_.push_back(value);
    bool is_windows = value->producer && value->producer->op->name == "windows";
    bool is_ours = value->producer && value->producer->op->kind != OpKind::kView &&
                   value->producer->op->kind != OpKind::kExtern && value->producer->op->kind != OpKind::kRegion;
    if (!is_ours || is_windows || decided_.count(value) || !value->layout.strides.empty() || !pass_.spend_fuel())
      return;
    int rank = value->type.rank();
    std::vector<int> order{0};
    for (int i = 2; i < rank; ++i)
      order.push_back(i);
    order.push_back(1);
    value->layout.strides = ordered_strides(graph_.context(), value->type.shape, order);
    changed_ = true;
  }

  Graph &graph_;
  PassContext &pass_;
  bool changed_ = false;
  std::vector<Value *> pending_;
  std::unordered_set<Value *> seen_, decided_;
};

} // namespace

bool assign_layouts(Graph &graph, PassContext &context) { return AssignLayouts(graph, context).run(); }

} // namespace oxyfuel::graph
