// Decides which operators share a kernel.
#include "passes/graph/fuse.h"

#include <algorithm>
#include <functional>
#include <set>

#include "ops/op.h"
#include "passes/graph/fuse_state.h"
#include "passes/graph/loop_domain.h"
#include "passes/graph/strided.h"
#include "support/error.h"

namespace oxyfuel::graph {
namespace {

constexpr int kRepeatCost = 2; // additions that several groups may each spend rather than read a value from memory
constexpr int kBroadcastCost =
    6; // additions that may be repeated for each element that a smaller value is broadcast to
constexpr size_t kLargestGroup = 200;
constexpr const char *kRepeats = "computing it where it is read would repeat much work";
constexpr const char *kOtherLoops = "its loops are not those of the kernel that reads it";
constexpr int kMostSearched = 4000; // nodes that a search for a cycle visits before it gives up and says yes

bool is_loop_node(const Node &node) {
  return node.op->kind == OpKind::kPointwise || node.op->kind == OpKind::kIndexed ||
         node.op->kind == OpKind::kReduction;
}

std::string_view group_kind(const Node &node) {
  switch (node.op->kind) {
  case OpKind::kContraction: return "contraction";
  case OpKind::kAttention: return "attention";
  case OpKind::kScatter: return "scatter";
  case OpKind::kScan: return "scan";
  case OpKind::kSort: return "sort";
  default: return "loops";
  }
}

/// Who reads a value, through views.
struct Uses {
  std::vector<Node *> nodes;
  bool is_result = false; // of the program, or written to an argument
};

class Fuser {
public:
  Fuser(Graph &graph, PassContext &context) : graph_(graph), pass_(context) {}

  bool run() {
    int order = 0;
    for (const auto &node : graph_.nodes())
      order_[node.get()] = order++;
    for (Value *output : graph_.outputs)
      if (output)
        results_.insert(output);
    for (const Mutation &mutation : graph_.mutations)
      results_.insert(mutation.value);
    std::vector<Node *> nodes;
    for (const auto &node : graph_.nodes())
      nodes.push_back(node.get());
    for (auto it = nodes.rbegin(); it != nodes.rend(); ++it)
      visit(*it);
    if (fusion_.groups.empty())
      return false;
    build_groups(graph_, fusion_);
    return true;
  }

private:
  void find_uses(Value *value, Uses &uses, std::unordered_set<Value *> &seen) {
    if (!seen.insert(value).second)
      return;
    uses.is_result = uses.is_result || results_.count(value);
    for (Node *user : value->users) {
      if (user->op->kind == OpKind::kView || fusion_.repeated.count(user))
        for (const auto &result : user->results)
          find_uses(result.get(), uses, seen);
      else if (std::find(uses.nodes.begin(), uses.nodes.end(), user) == uses.nodes.end())
        uses.nodes.push_back(user);
    }
  }

  FusionGroup *group_of(Node *node) {
    auto it = groups_.find(node);
    return it == groups_.end() ? nullptr : it->second;
  }

  FusionGroup *start(Node *node) {
    fusion_.groups.push_back(std::make_unique<FusionGroup>());
    FusionGroup *group = fusion_.groups.back().get();
    group->kind = std::string(group_kind(*node));
    if (group->kind != "loops")
      group->anchor = node;
    join(group, node);
    for (const auto &result : node->results)
      add_root(group, result.get());
    return group;
  }
  void join(FusionGroup *group, Node *node) {
    group->nodes.push_back(node);
    group->first = order_.at(node); // nodes come latest first
    groups_[node] = group;
  }
  void add_root(FusionGroup *group, Value *value) { group->roots.push_back(value); }

  void visit(Node *node) {
    if (is_free(*node) || node->op->kind == OpKind::kExtern || node->op->kind == OpKind::kRegion)
      return;
    Uses uses;
    std::unordered_set<Value *> seen;
    for (const auto &result : node->results)
      find_uses(result.get(), uses, seen);
    if (uses.nodes.empty() && !uses.is_result)
      return; // dead
    if (!pass_.options.fusion) {
      start(node);
      return;
    }
    if (node->op->kind == OpKind::kContraction) {
      visit_contraction(node, uses);
      return;
    }
    if (!is_loop_node(*node)) {
      start(node);
      return;
    }
    visit_loop_node(node, uses);
  }

  /// The loops and contraction groups that read the node; `needs_memory` when something else does too.
  std::vector<FusionGroup *> readers(const Uses &uses, bool &needs_memory) {
    std::vector<FusionGroup *> groups;
    needs_memory = uses.is_result;
    for (Node *user : uses.nodes) {
      FusionGroup *group = group_of(user);
      if (!group || (user == group->anchor))
        needs_memory = true; // contractions, attention, … read memory
      else if (std::find(groups.begin(), groups.end(), group) == groups.end())
        groups.push_back(group);
    }
    return groups;
  }

  void visit_loop_node(Node *node, const Uses &uses) {
    bool needs_memory = false;
    std::vector<FusionGroup *> groups = readers(uses, needs_memory);
    bool is_copy = node->op->name == "copy";
    if (!needs_memory && groups.size() == 1 && !is_copy && can_join(groups[0], node, false)) {
      join(groups[0], node);
      return;
    }
    if (!needs_memory && groups.size() > 1 && !is_copy && is_cheap_to_repeat(*node)) {
      fusion_.repeated.insert(node);
      return;
    }
    for (FusionGroup *group : groups)
      if (can_join(group, node, true) && !makes_cycle(group, uses)) {
        join(group, node);
        add_root(group, node->result());
        return;
      }
    if (groups.empty())
      explain_reader(*node, uses);
    else
      pass_.remark(*node, std::string("has a kernel of its own: ") + refusal_);
    start(node);
  }

  /// Says which reader keeps the node out of its kernel; a result that nobody else reads needs no reason.
  void explain_reader(const Node &node, const Uses &uses) {
    if (!uses.nodes.empty())
      pass_.remark(node, std::string("its result goes through memory: ") + std::string(uses.nodes[0]->op->name) +
                             " reads memory");
  }

  /// Declines, and keeps the reason for a remark.
  bool refuse(const char *reason) {
    refusal_ = reason;
    return false;
  }

  bool is_cheap_to_repeat(const Node &node) {
    if (node.op->kind == OpKind::kReduction || node.op->cost > kRepeatCost)
      return false;
    int reads = 0;
    for (Value *operand : node.operands) {
      if (!operand)
        continue;
      Value *base = view_base(operand);
      if (base->producer && is_free(*base->producer))
        continue;
      // What is repeated must not in turn repeat: its operands have memory anyway.
      if (base->producer && is_loop_node(*base->producer))
        return false;
      ++reads;
    }
    return reads <= 1;
  }

  int64_t elements(const std::vector<Expr> &shape) {
    int64_t n = 1;
    for (Expr extent : shape)
      n *= std::max<int64_t>(1, hint_of(extent).value_or(32));
    return n;
  }

  /// Cost of one element of `value` when nothing below it has memory, as far as loop nodes go.
  int chain_cost(const Value *value, int depth, std::unordered_set<const Node *> &seen) {
    const Node *node = value->producer;
    if (!node || depth > 12 || !seen.insert(node).second)
      return 0;
    if (node->op->kind == OpKind::kReduction)
      return 100;
    if (node->op->kind != OpKind::kPointwise && node->op->kind != OpKind::kIndexed && node->op->kind != OpKind::kView)
      return 0;
    int cost = node->op->kind == OpKind::kView ? 0 : node->op->cost;
    for (const Value *operand : node->operands)
      if (operand)
        cost += chain_cost(operand, depth + 1, seen);
    return cost;
  }

  bool has_reduction(const FusionGroup &group) {
    return std::any_of(group.nodes.begin(), group.nodes.end(),
                       [](const Node *n) { return n->op->kind == OpKind::kReduction; });
  }

  /// Whether `group` with `node` still runs as one pass, with the node's value as one more result if `as_root`.
  bool can_join(FusionGroup *group, Node *node, bool as_root) {
    if (group->nodes.size() >= kLargestGroup)
      return refuse("the kernel that reads it is as large as they get");
    if (!pass_.spend_fuel())
      return refuse("no fuel is left");
    if (group->kind == "contraction") {
      if (as_root)
        return refuse("it is also needed elsewhere, and the contraction that reads it has one result");
      if (node->op->kind == OpKind::kReduction)
        return refuse("it folds axes, and the contraction that reads it has no loops for that");
      return !repeats_epilogue_work(group, node) || refuse(kRepeats);
    }
    if (group->kind != "loops")
      return refuse("its reader reads memory");
    bool is_reduction = node->op->kind == OpKind::kReduction;
    bool folds = is_reduction || has_reduction(*group);
    if (!as_root && !is_reduction && !repeats_work(group, node))
      return true;
    if (!as_root && !is_reduction)
      return refuse(kRepeats);
    std::vector<const Node *> nodes(group->nodes.begin(), group->nodes.end());
    nodes.push_back(node);
    std::vector<const Value *> roots(group->roots.begin(), group->roots.end());
    if (as_root)
      roots.push_back(node->result());
    ExprContext &context = graph_.context();
    std::optional<LoopDomain> domain = find_domain(context, nodes, roots);
    if (!domain || domain->rank() == 0)
      return refuse(kOtherLoops);
    for (const Value *root : roots)
      if (!place(*domain, context, root->type.shape))
        return refuse(kOtherLoops);
    return !folds || reads_reductions_in_place(*domain, nodes, roots) ||
           refuse("a folded value is read at other places than its own");
  }

  /// Whether computing `node` where the group reads it repeats much work: the group's domain is larger than its value.
  bool repeats_work(FusionGroup *group, Node *node) {
    std::vector<const Node *> nodes(group->nodes.begin(), group->nodes.end());
    std::vector<const Value *> roots(group->roots.begin(), group->roots.end());
    std::optional<LoopDomain> domain = find_domain(graph_.context(), nodes, roots);
    if (!domain)
      return true;
    const std::vector<Expr> &shape = node->result()->type.shape;
    if (domain->has_folds() && place(*domain, graph_.context(), shape))
      return false; // once a place, or kept in a row
    int64_t own = elements(shape);
    if (elements(domain->extents) <= own)
      return false;
    std::unordered_set<const Node *> seen;
    return chain_cost(node->result(), 0, seen) > kBroadcastCost && !folds_ahead(node, nodes, roots);
  }

  /// Whether the reductions that `node` follows from can join a group of `nodes` as well: its value then is one of a
  /// folded row, as the deviation in a layer norm, and is computed once a row.
  bool folds_ahead(Node *node, std::vector<const Node *> nodes, const std::vector<const Value *> &roots) {
    constexpr size_t kLongestChain = 16;
    size_t before = nodes.size();
    std::vector<const Node *> pending{node};
    while (!pending.empty()) {
      const Node *next = pending.back();
      pending.pop_back();
      if (std::find(nodes.begin() + static_cast<int64_t>(before), nodes.end(), next) != nodes.end())
        continue;
      if (nodes.size() - before == kLongestChain)
        return false;
      nodes.push_back(next);
      if (next->op->kind == OpKind::kReduction)
        continue;
      for (const Value *operand : next->operands)
        if (operand && operand->producer &&
            (operand->producer->op->kind == OpKind::kPointwise || operand->producer->op->kind == OpKind::kView ||
             operand->producer->op->kind == OpKind::kReduction))
          pending.push_back(operand->producer);
    }
    std::optional<LoopDomain> domain = find_domain(graph_.context(), nodes, roots);
    return domain && domain->has_folds() && place(*domain, graph_.context(), node->result()->type.shape) &&
           reads_reductions_in_place(*domain, nodes, roots);
  }

  bool repeats_epilogue_work(FusionGroup *group, Node *node) {
    int64_t own = elements(node->result()->type.shape);
    if (elements(group->roots[0]->type.shape) <= own)
      return false;
    std::unordered_set<const Node *> seen;
    return chain_cost(node->result(), 0, seen) > kBroadcastCost;
  }

  /// Whether a value that joins `group` as a result and that `uses` read elsewhere too closes a circle: a reader
  /// outside the group leads back to it.
  bool makes_cycle(FusionGroup *group, const Uses &uses) {
    std::unordered_set<const FusionGroup *> seen;
    // Nothing past the horizon leads back: a node depends on later ones only through a group that has both.
    int horizon = order_.at(group->nodes.front());
    for (bool grows = true; grows;) {
      grows = false;
      for (const auto &other : fusion_.groups)
        if (other->first <= horizon && order_.at(other->nodes.front()) > horizon) {
          horizon = order_.at(other->nodes.front());
          grows = true;
        }
    }
    std::vector<Node *> stack;
    for (Node *user : uses.nodes)
      if (group_of(user) != group)
        stack.push_back(user);
    std::unordered_set<Node *> visited(stack.begin(), stack.end());
    int searched = 0;
    auto push = [&](Node *node) {
      if (order_.at(node) <= horizon && visited.insert(node).second)
        stack.push_back(node);
    };
    while (!stack.empty()) {
      Node *node = stack.back();
      stack.pop_back();
      if (group_of(node) == group || ++searched > kMostSearched) {
        refusal_ = "each of two kernels would wait for the other";
        return true;
      }
      FusionGroup *own = group_of(node);
      if (own && seen.insert(own).second) {
        // All of a group runs at once: its other members' users follow too.
        for (Node *member : own->nodes)
          push(member);
      }
      for (const auto &result : node->results)
        for (Node *user : result->users)
          push(user);
    }
    return false;
  }

  /// A contraction takes over the one group that reads it, if that is pointwise on its elements.
  void visit_contraction(Node *node, const Uses &uses) {
    bool needs_memory = false;
    std::vector<FusionGroup *> groups = readers(uses, needs_memory);
    if (!needs_memory && groups.size() == 1 && groups[0]->kind == "loops" && pass_.spend_fuel()) {
      FusionGroup *group = groups[0];
      if (is_epilogue(*group, node)) {
        group->kind = "contraction";
        group->anchor = node;
        join(group, node);
        return;
      }
      pass_.remark(*node, "its readers are not element by element: its result goes through memory");
    } else if (groups.size() > 1) {
      pass_.remark(*node, "several kernels read it: its result goes through memory");
    } else if (groups.size() == 1 && needs_memory) {
      pass_.remark(*node, "it is also needed elsewhere: its result goes through memory");
    } else if (groups.size() == 1) {
      pass_.remark(*node, "the kernel that reads it has a contraction already: its result goes through memory");
    } else {
      explain_reader(*node, uses);
    }
    start(node);
  }

  bool is_epilogue(const FusionGroup &group, Node *contraction) {
    Value *value = contraction->result();
    if (has_reduction(group))
      return false;
    ExprContext &context = graph_.context();
    std::unordered_set<const Node *> members(group.nodes.begin(), group.nodes.end());
    for (Value *root : group.roots) {
      if (!always_equal(element_count(context, root->type.shape), element_count(context, value->type.shape)))
        return false;
      std::vector<Expr> index;
      for (Expr extent : root->type.shape) {
        Var *v = context.new_var("e" + std::to_string(index.size()), DType::kI64, 0, extent.constant());
        v->upper_expr = extent.node();
        index.push_back(extent.is_const(1) ? context.integer(0) : context.var(v));
      }
      Expr place = flat(root->type.shape, index);
      std::set<std::vector<const void *>> seen;
      if (!reads_flat(root, index, value, place, members, seen))
        return false;
    }
    return true;
  }

  Expr flat(const std::vector<Expr> &shape, std::span<const Expr> index) {
    ExprContext &context = graph_.context();
    std::vector<Expr> strides = contiguous_strides(context, shape);
    Expr place = context.integer(0);
    for (size_t i = 0; i < index.size(); ++i)
      if (!shape[i].is_const(1))
        place = place + index[i] * strides[i];
    return place;
  }

  /// Every read of `target` below `value` is at the same row-major place.
  bool reads_flat(const Value *value, std::span<const Expr> index, const Value *target, Expr place,
                  const std::unordered_set<const Node *> &members, std::set<std::vector<const void *>> &seen) {
    if (value == target)
      return flat(target->type.shape, index) == place;
    const Node *node = value->producer;
    if (!node || (!members.count(node) && !is_free(*node) && !fusion_.repeated.count(const_cast<Node *>(node))))
      return true;
    std::vector<const void *> key{value};
    for (Expr e : index)
      key.push_back(e.node());
    if (!seen.insert(std::move(key)).second)
      return true;
    bool good = true;
    ReadOperand read = [&](int operand, std::span<const Expr> at, Expr) {
      good = good && reads_flat(node->operands[operand], at, target, place, members, seen);
      return graph_.context().var(graph_.context().new_var("value", node->operands[operand]->type.dtype));
    };
    element_of(graph_.context(), *node, index, read);
    return good;
  }

  Graph &graph_;
  PassContext &pass_;
  Fusion fusion_;
  std::unordered_map<const Node *, int> order_;
  std::unordered_map<Node *, FusionGroup *> groups_;
  std::unordered_set<Value *> results_;
  const char *refusal_ = ""; // why the last question was answered with no
};

} // namespace

bool fuse(Graph &graph, PassContext &context) { return Fuser(graph, context).run(); }

} // namespace oxyfuel::graph
