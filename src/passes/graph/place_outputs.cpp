// Memory and strides of the program's results.
#include "passes/graph/place_outputs.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ops/op.h"
#include "passes/graph/fuse_state.h"
#include "passes/graph/strided.h"

namespace oxyfuel::graph {
namespace {

class PlaceOutputs {
public:
  PlaceOutputs(Graph &graph, PassContext &context) : graph_(graph), pass_(context) {}

  bool run() {
    graph_.output_layouts.resize(graph_.outputs.size());
    for (size_t i = 0; i < graph_.outputs.size(); ++i)
      if (Value *value = graph_.outputs[i])
        if (!is_copy(value))
          claim(value);
    for (size_t i = 0; i < graph_.outputs.size(); ++i)
      if (graph_.outputs[i])
        place(i);
    for (Mutation &mutation : graph_.mutations) {
      // What is written back must not be memory that another write-back changes first.
      if (!view_base(mutation.value)->producer) {
        mutation.value = copy(mutation.value);
        changed_ = true;
      }
    }
    return changed_;
  }

private:
  static bool is_copy(const Value *value) { return value->producer && value->producer->op->name == "copy"; }

  void claim(Value *value) { claims_[view_base(value)] = value; }
  /// Memory that `value` may have for itself.
  bool is_free_for(Value *value) {
    auto it = claims_.find(view_base(value));
    return it == claims_.end() || it->second == value;
  }

  Value *copy(Value *value) {
    Node *node = graph_.add(op("copy"), {value}, {{"dtype", value->type.dtype}});
    if (value->producer)
      node->location = value->producer->location;
    return node->result();
  }

  /// Computed here by kernels, so that its layout is ours to choose.
  static bool is_computed(const Value *base) {
    return base->producer && base->producer->op->kind != OpKind::kExtern &&
           base->producer->op->kind != OpKind::kRegion && !is_free(*base->producer);
  }

  /// Every element of the base is seen.
  bool is_whole(Value *value) {
    for (; value->producer && value->producer->op->kind == OpKind::kView; value = value->producer->operands[0]) {
      std::string_view name = value->producer->op->name;
      if (name == "expand" ? may_lose_all(*value->producer) : name != "permute" && name != "reshape")
        return false;
    }
    return true;
  }

  /// Whether an expansion may be to size 0, which sees nothing of its operand.
  bool may_lose_all(const Node &expand) {
    const std::vector<Expr> &from = expand.operands[0]->type.shape, &to = expand.result()->type.shape;
    Expr zero = graph_.context().integer(0);
    for (size_t i = 0; i < to.size(); ++i) {
      bool is_kept = i + from.size() >= to.size() && always_equal(to[i], from[i + from.size() - to.size()]);
      if (!is_kept && !always_less(zero, to[i]))
        return true;
    }
    return false;
  }

  static bool is_dense(const Type &type, const std::vector<Expr> &strides) {
    for (size_t i = 0; i < strides.size(); ++i)
      if (!type.shape[i].is_const(1) && strides[i].is_const(0))
        return false;
    return true;
  }

  bool same_strides(const Type &type, const std::vector<Expr> &a, const std::vector<Expr> &b) {
    for (size_t i = 0; i < type.shape.size(); ++i)
      if (!type.shape[i].is_const(1) && !type.shape[i].is_const(0) && !always_equal(a[i], b[i]))
        return false;
    return true;
  }

  void place(size_t i) {
    Value *value = graph_.outputs[i];
    if (is_copy(value)) {
      Value *source = value->producer->operands[0];
      bool shared_copy = std::count(graph_.outputs.begin(), graph_.outputs.end(), value) > 1;
      if (is_computed(view_base(source)) && !claims_.count(view_base(source)) && !shared_copy && pass_.spend_fuel()) {
        Node *copied = value->producer;
        graph_.outputs[i] = value = source;
        if (!graph_.is_used(copied->result()))
          graph_.erase(copied); // a reader that never reads would keep its operand in memory
        claim(source);
        changed_ = true;
      }
    }
    Value *base = view_base(value);
    if (!base->producer && has_strides(value, graph_.output_layouts[i].strides))
      return; // an argument, or a view of one
    if (base->producer->op->kind == OpKind::kExtern && base == value)
      return;
    if (!is_computed(base) || !fits(value, base, graph_.output_layouts[i].strides)) {
      graph_.outputs[i] = value = copy(value);
      base = value;
      changed_ = true;
      fits(value, base, graph_.output_layouts[i].strides);
    }
    claim(value);
    placed_.insert(base);
  }

  bool has_strides(Value *value, const std::vector<Expr> &expected) {
    std::optional<StridedView> view = as_strided(graph_.context(), value);
    return view && (expected.empty() || same_strides(value->type, view->strides, expected));
  }

  /// Whether the result can be its base's memory with the expected strides; sets the base's layout for that.
  bool fits(Value *value, Value *base, const std::vector<Expr> &expected) {
    if (!is_whole(value) || !is_free_for(value))
      return false;
    if (value == base && !placed_.count(base)) {
      if (!expected.empty() && base->layout.strides.empty() && is_dense(value->type, expected) &&
          !same_strides(value->type, expected, contiguous_strides(graph_.context(), value->type.shape))) {
        base->layout.strides = expected;
        changed_ = true;
      }
      return true;
    }
    std::optional<StridedView> view = as_strided(graph_.context(), value);
    return view && view->offset.is_const(0) && (expected.empty() || same_strides(value->type, view->strides, expected));
  }

  Graph &graph_;
  PassContext &pass_;
  bool changed_ = false;
  std::unordered_map<Value *, Value *> claims_;
  std::unordered_set<const Value *> placed_; ///< memory whose strides an output has decided
};

} // namespace

bool place_outputs(Graph &graph, PassContext &context) { return PlaceOutputs(graph, context).run(); }

} // namespace oxyfuel::graph
