// Copies where plain strided memory is needed and a view is no such thing.
#include "passes/graph/materialise.h"

#include <unordered_map>

#include "ops/op.h"
#include "passes/graph/strided.h"

namespace oxyfuel::graph {
namespace {

bool needs_memory(const Node &node) {
  switch (node.op->kind) {
  case OpKind::kContraction:
  case OpKind::kAttention:
  case OpKind::kExtern:
  case OpKind::kRegion: return true;
  default: return false;
  }
}

class Materialise {
public:
  Materialise(Graph &graph, PassContext &context) : graph_(graph), pass_(context) {}

  bool run() {
    std::vector<Node *> nodes;
    for (const auto &node : graph_.nodes())
      nodes.push_back(node.get());
    for (Node *node : nodes)
      if (needs_memory(*node))
        for (size_t i = 0; i < node->operands.size(); ++i)
          if (Value *operand = node->operands[i])
            if (Value *copy =
                    copy_of(operand, node->op->kind == OpKind::kExtern || node->op->kind == OpKind::kRegion, node))
              graph_.set_operand(node, static_cast<int>(i), copy);
    for (Value *&output : graph_.outputs)
      if (output)
        if (Value *copy = copy_of(output, true, nullptr))
          output = copy;
    for (Mutation &mutation : graph_.mutations)
      if (Value *copy = copy_of(mutation.value, false, nullptr))
        mutation.value = copy;
    return changed_;
  }

private:
  /// A copy of `value` when it is not memory as it stands; null when it is. Copies are shared by all uses.
  Value *copy_of(Value *value, bool is_tensor, Node *before) {
    if (auto it = copies_.find(value); it != copies_.end())
      return it->second;
    Value *base = view_base(value);
    bool is_computed =
        !base->producer || base->producer->op->kind != OpKind::kIndexed || !base->producer->operands.empty();
    // Tensors handed to PyTorch have no negative strides.
    std::optional<StridedView> view = is_computed ? as_strided(graph_.context(), value) : std::nullopt;
    bool is_memory = view.has_value();
    if (is_memory && is_tensor)
      for (Expr stride : view->strides)
        is_memory = is_memory && (!stride.constant() || *stride.constant() >= 0);
    if (is_memory)
      return nullptr;
    Node *copy = graph_.add(op("copy"), {value}, {{"dtype", value->type.dtype}}, before);
    if (value->producer)
      copy->location = value->producer->location;
    changed_ = true;
    // A copy made for a later user may come before others: remember it only when every user can see it.
    Value *result = copy->result();
    if (!before)
      copies_[value] = result;
    return result;
  }

  Graph &graph_;
  PassContext &pass_;
  bool changed_ = false;
  std::unordered_map<Value *, Value *> copies_;
};

} // namespace

bool materialise(Graph &graph, PassContext &context) { return Materialise(graph, context).run(); }

} // namespace oxyfuel::graph
