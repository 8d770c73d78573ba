// Stores in place for write-backs whose old contents die.
#include "passes/graph/update_in_place.h"

#include <algorithm>
#include <unordered_set>

#include "ops/op.h"
#include "passes/graph/strided.h"

namespace oxyfuel::graph {
namespace {

struct Piece {
  Value *update;             ///< what the piece becomes, perhaps a view of a scatter's result
  std::vector<Expr> strides; ///< of the piece in the argument's memory, in the update's axes
  Expr offset;
  int64_t axis = -1, start = 0, length = 0; ///< axis -1: the whole argument
  Node *link = nullptr;                     ///< the slice_scatter
};

class UpdateInPlace {
public:
  UpdateInPlace(Graph &graph, PassContext &context) : graph_(graph), pass_(context) {}

  bool run() {
    bool changed = false;
    std::vector<Mutation> left;
    for (const Mutation &mutation : graph_.mutations)
      if (pass_.options.fuel > 0 && try_mutation(mutation) && pass_.spend_fuel())
        changed = true;
      else
        left.push_back(mutation);
    graph_.mutations = left;
    if (changed)
      graph_.remove_dead();
    return changed;
  }

private:
  bool try_mutation(const Mutation &mutation) {
    Value *target = mutation.target;
    std::vector<Piece> pieces;
    if (!find_pieces(mutation, pieces) || !are_disjoint(pieces))
      return false;
    std::vector<Node *> scatters;
    std::unordered_set<const Node *> allowed;
    for (Piece &piece : pieces) {
      Node *scatter = view_base(piece.update)->producer;
      if (!scatter || scatter->op->kind != OpKind::kScatter || scatter->op->name == "slice_scatter" ||
          std::count(scatters.begin(), scatters.end(), scatter) || !lies_on(piece, scatter, target))
        return false;
      scatters.push_back(scatter);
      allowed.insert(scatter);
      if (piece.link)
        allowed.insert(piece.link);
    }
    if (!is_only_read_by(target, target, allowed) || is_result(target))
      return false;
    for (Piece &piece : pieces)
      if (piece.link && !is_chain_only(piece.link->result(), mutation, allowed))
        return false;
    for (Node *scatter : scatters) {
      std::optional<StridedView> base = as_strided(graph_.context(), scatter->operands[0]);
      scatter->attributes["in_memory_of"] = static_cast<int64_t>(target->index);
      scatter->result()->layout = {base->strides, base->offset};
    }
    return true;
  }

  bool find_pieces(const Mutation &mutation, std::vector<Piece> &pieces) {
    Value *target = mutation.target;
    std::vector<Expr> strides = target->layout.strides.empty()
                                    ? contiguous_strides(graph_.context(), target->type.shape)
                                    : target->layout.strides;
    Expr zero = graph_.context().integer(0);
    Value *value = mutation.value;
    while (value->producer && value->producer->op->name == "slice_scatter") {
      Node *link = value->producer;
      int64_t axis = link->get<int64_t>("axis");
      auto start = link->get<Expr>("start").constant();
      auto length = link->operands[1]->type.shape[axis].constant();
      if (!start || !length || link->get_or<int64_t>("step", 1) != 1)
        return false;
      pieces.push_back({link->operands[1], strides, zero + strides[axis] * *start, axis, *start, *length, link});
      value = link->operands[0];
    }
    if (pieces.empty() && value != target) {
      pieces.push_back({value, strides, zero, -1, 0, 0, nullptr});
      return true;
    }
    return value == target;
  }

  static bool are_disjoint(const std::vector<Piece> &pieces) {
    for (size_t i = 0; i < pieces.size(); ++i)
      for (size_t j = i + 1; j < pieces.size(); ++j)
        if (pieces[i].axis != pieces[j].axis || pieces[i].axis < 0 ||
            (pieces[i].start < pieces[j].start + pieces[j].length &&
             pieces[j].start < pieces[i].start + pieces[i].length))
          return false;
    return true;
  }

  /// The scatter's base is the piece of the argument that its result becomes.
  bool lies_on(const Piece &piece, Node *scatter, Value *target) {
    ExprContext &context = graph_.context();
    if (scatter->operands[0]->type.dtype != target->type.dtype)
      return false;
    for (size_t i = 1; i < scatter->operands.size(); ++i)
      if (scatter->operands[i] && view_base(scatter->operands[i]) == target)
        return false;
    std::optional<StridedView> base = as_strided(context, scatter->operands[0]);
    if (!base || base->base != target || !scatter->result()->layout.strides.empty())
      return false;
    scatter->result()->layout = {base->strides, base->offset};
    std::optional<StridedView> update = as_strided(context, piece.update);
    scatter->result()->layout = {};
    if (!update || !always_equal(update->offset, piece.offset))
      return false;
    for (size_t i = 0; i < piece.strides.size(); ++i)
      if (!piece.update->type.shape[i].is_const(1) && !always_equal(update->strides[i], piece.strides[i]))
        return false;
    return true;
  }

  bool is_result(const Value *target) {
    for (Value *output : graph_.outputs)
      if (output && output != target && view_base(output) == target)
        return true;
    return std::count_if(graph_.mutations.begin(), graph_.mutations.end(),
                         [&](const Mutation &m) { return view_base(m.value) == target; }) > 0;
  }

  bool is_only_read_by(Value *value, const Value *target, const std::unordered_set<const Node *> &allowed) {
    for (Node *user : value->users) {
      if (user->op->kind == OpKind::kView) {
        if (!is_only_read_by(user->result(), target, allowed))
          return false;
      } else if (!allowed.count(user)) {
        return false;
      }
    }
    return true;
  }

  /// A link of the chain of write-backs is read by the next link and the mutation alone.
  bool is_chain_only(const Value *value, const Mutation &mutation, const std::unordered_set<const Node *> &allowed) {
    for (Value *output : graph_.outputs)
      if (output && view_base(output) == value)
        return false;
    for (const Mutation &other : graph_.mutations)
      if (other.target != mutation.target && view_base(other.value) == value)
        return false;
    return std::all_of(value->users.begin(), value->users.end(),
                       [&](const Node *user) { return allowed.count(user) && user->op->name == "slice_scatter"; });
  }

  Graph &graph_;
  PassContext &pass_;
};

} // namespace

bool update_in_place(Graph &graph, PassContext &context) { return UpdateInPlace(graph, context).run(); }

} // namespace oxyfuel::graph
