// With a reshape of M = L + T to P = K + T, T being the longest common tail of sizes, an operand of shape P may be read
// as one of shape M: K and L hold the same number of elements in the same order.
#include "passes/graph/sink_reshapes.h"

#include <algorithm>
#include <unordered_set>

#include "ops/op.h"

namespace oxyfuel::graph {

namespace {

using Shape = std::vector<Expr>;

bool is_one(Expr size) { return size.is_const(1); }

class Sinker {
public:
  Sinker(Graph &graph, PassContext &context) : graph_(graph), context_(context) {}

  bool run() {
    std::vector<Node *> nodes;
    for (const auto &node : graph_.nodes())
      nodes.push_back(node.get());
    bool changed = false;
    for (Node *node : nodes) {
      if (node->op->kind == OpKind::kContraction)
        computed_.insert(node->result());
      if (node->results.size() != 1 || !node->result()->layout.strides.empty())
        continue;
      bool is_candidate = node->op->kind == OpKind::kPointwise || node->op->kind == OpKind::kReduction;
      if (is_candidate && sink_past(*node)) {
        changed = true;
        context_.spend_fuel();
      }
      if (context_.options.fuel <= 0)
        break;
    }
    if (changed)
      graph_.remove_dead();
    return changed;
  }

private:
  /// The reshape of a contraction's result, or of what was computed from one, that `value` is; null otherwise.
  Node *sinkable(const Value *value) const {
    Node *reshape = value ? value->producer : nullptr;
    if (!reshape || reshape->op->name != "reshape" || !value->layout.strides.empty())
      return nullptr;
    return computed_.count(reshape->operands[0]) ? reshape : nullptr;
  }

  bool sink_past(Node &node) {
    for (Value *operand : node.operands)
      if (Node *reshape = sinkable(operand)) {
        before_ = reshape->operands[0]->type.shape;
        after_ = operand->type.shape;
        tail_ = common_tail();
        if (node.op->kind == OpKind::kReduction ? sink_past_reduction(node, *reshape) : sink_past_pointwise(node))
          return true;
      }
    return false;
  }

  size_t common_tail() const {
    size_t tail = 0;
    while (tail < std::min(before_.size(), after_.size()) &&
           before_[before_.size() - 1 - tail] == after_[after_.size() - 1 - tail])
      ++tail;
    return tail;
  }

  bool sink_past_pointwise(Node &node) {
    if (node.result()->type.shape != after_)
      return false;
    std::vector<std::optional<Shape>> shapes;
    for (Value *operand : node.operands) {
      shapes.push_back(operand ? shape_before(operand->type.shape) : Shape());
      if (!shapes.back()) {
        context_.remark(node, "a reshape stays in front: an operand broadcasts over some of the axes that it changes");
        return false;
      }
    }
    std::vector<Value *> operands;
    for (size_t i = 0; i < node.operands.size(); ++i)
      operands.push_back(node.operands[i] ? reshape_to(node.operands[i], *shapes[i], node) : nullptr);
    return replace(node, std::move(operands), node.attributes, before_);
  }

  bool sink_past_reduction(Node &node, const Node &reshape) {
    int64_t first_kept = static_cast<int64_t>(after_.size() - tail_);
    std::vector<int64_t> axes = node.get<std::vector<int64_t>>("axes");
    int64_t shift = static_cast<int64_t>(before_.size()) - static_cast<int64_t>(after_.size());
    for (int64_t &axis : axes) {
      if (axis < first_kept)
        return false;
      axis += shift;
    }
    Shape wanted;
    for (size_t i = 0; i < before_.size(); ++i)
      if (std::find(axes.begin(), axes.end(), static_cast<int64_t>(i)) == axes.end())
        wanted.push_back(before_[i]);
    auto attributes = node.attributes;
    attributes["axes"] = axes;
    return replace(node, {reshape.operands[0]}, std::move(attributes), wanted);
  }

  /// The shape that an operand of that shape has beside values of shape `before_`; empty when there is none.
  std::optional<Shape> shape_before(const Shape &shape) const {
    if (shape.empty())
      return shape;
    size_t head = after_.size() - tail_, missing = after_.size() - shape.size();
    Shape own_tail(shape.end() - static_cast<std::ptrdiff_t>(std::min(tail_, shape.size())), shape.end());
    Shape own_head(shape.begin(), shape.end() - static_cast<std::ptrdiff_t>(own_tail.size()));
    if (std::all_of(own_head.begin(), own_head.end(), is_one))
      return own_tail.empty() ? Shape(1, graph_.context().integer(1)) : own_tail;
    if (missing > 0 || !std::equal(own_head.begin(), own_head.end(), after_.begin(),
                                   after_.begin() + static_cast<std::ptrdiff_t>(head)))
      return std::nullopt;
    Shape result(before_.begin(), before_.end() - static_cast<std::ptrdiff_t>(tail_));
    result.insert(result.end(), own_tail.begin(), own_tail.end());
    return result;
  }

  Value *reshape_to(Value *value, const Shape &shape, const Node &before) {
    while (value->producer && value->producer->op->name == "reshape" && value->type.shape != shape)
      value = value->producer->operands[0];
    if (value->type.shape == shape)
      return value;
    Node *made = graph_.add(op("reshape"), {value}, {{"shape", shape}}, &before);
    made->location = before.location;
    return made->result();
  }

  /// Puts the node with other operands and a reshape of its result in its place, if its type comes out as wanted.
  bool replace(Node &node, std::vector<Value *> operands, std::map<std::string, Attribute, std::less<>> attributes,
               const Shape &wanted) {
    const Type type = node.result()->type;
    Node *made = graph_.add(node.op, std::move(operands), std::move(attributes), &node);
    made->location = node.location;
    bool is_right = made->result()->type.dtype == type.dtype && made->result()->type.shape == wanted &&
                    (node.op->kind == OpKind::kReduction || compute_of(*made) == compute_of(node));
    if (!is_right) {
      graph_.erase(made);
      return false;
    }
    computed_.insert(made->result());
    Value *result = reshape_to(made->result(), type.shape, node);
    (result == made->result() ? made->result() : result)->name = node.result()->name;
    graph_.replace_uses(node.result(), result);
    return true;
  }

  Graph &graph_;
  PassContext &context_;
  std::unordered_set<const Value *> computed_; ///< by contractions, and from those
  Shape before_, after_;                       ///< of the reshape at hand
  size_t tail_ = 0;
};

} // namespace

bool sink_reshapes(Graph &graph, PassContext &context) { return Sinker(graph, context).run(); }

} // namespace oxyfuel::graph
