// What a loops group computes: its domain, levels of reductions, rows worth keeping, merged axes.
#include <algorithm>
#include <functional>
#include <map>
#include <unordered_set>

#include "ops/op.h"
#include "passes/lower/loops.h"
#include "support/error.h"

namespace oxyfuel {
namespace {

constexpr int kKeepCost = 6;              // additions that a kept value must save a loop
constexpr int64_t kLongestRow = 64 << 10; // elements of all folded axes together
constexpr int kMostRows = 4;

class Analysis {
public:
  Analysis(const graph::Node &group, Evaluator &evaluator)
      : group_(group), region_(region_of(group)), context_(const_cast<graph::Graph &>(region_).context()),
        evaluator_(evaluator) {}

  LoopsPlan run() {
    std::vector<const graph::Node *> nodes;
    for (const auto &node : region_.nodes())
      nodes.push_back(node.get());
    std::vector<const graph::Value *> results(region_.outputs.begin(), region_.outputs.end());
    std::optional<LoopDomain> domain = find_domain(context_, nodes, results);
    if (!domain)
      throw InternalError("a loops group whose parts do not share a domain");
    plan_.domain = std::move(*domain);
    find_levels();
    choose_rows();
    evaluate();
    merge_axes();
    describe();
    return std::move(plan_);
  }

private:
  int level_of(const graph::Value *value) { // the level at which the value can be computed
    if (!value->producer)
      return 0;
    auto [it, is_new] = levels_.try_emplace(value->producer, 0);
    if (!is_new)
      return it->second;
    int level = 0;
    for (const graph::Value *operand : value->producer->operands)
      if (operand)
        level = std::max(level, level_of(operand) + (operand->producer && is_fold(operand->producer) ? 1 : 0));
    return levels_[value->producer] = level;
  }
  static bool is_fold(const graph::Node *node) { return node->op->kind == OpKind::kReduction; }

  void find_levels() {
    for (const auto &node : region_.nodes())
      if (is_fold(node.get())) {
        LoopsPlan::Fold fold{};
        fold.node = node.get();
        fold.level = level_of(node->result());
        fold.accumulator = accumulator_of(*node);
        fold.result = context_.new_var("r" + std::to_string(plan_.folds.size()), node->result()->type.dtype);
        fold.result->is_index = false;
        plan_.levels = std::max(plan_.levels, fold.level + 1);
        plan_.folds.push_back(fold);
      }
  }

  /// Calls `f` on every value that the loops of `stage` compute, stopping at results of reductions and at kept rows.
  void walk_stage(int stage, const std::function<void(const graph::Value *)> &f) {
    std::unordered_set<const graph::Value *> seen;
    std::function<void(const graph::Value *)> visit = [&](const graph::Value *value) {
      if (!value || !value->producer || is_fold(value->producer) || !seen.insert(value).second)
        return;
      f(value);
      for (const auto &row : plan_.rows)
        if (row.value == value && row.level < stage)
          return;
      for (const graph::Value *operand : value->producer->operands)
        visit(operand);
    };
    if (stage < plan_.levels) {
      for (const auto &fold : plan_.folds)
        if (fold.level == stage)
          visit(fold.node->operands[0]);
    } else {
      for (const graph::Value *root : region_.outputs)
        visit(root);
    }
  }

  int cost_below(const graph::Value *value, std::unordered_set<const graph::Node *> &seen) {
    if (!value || !value->producer || is_fold(value->producer) || !seen.insert(value->producer).second)
      return 0;
    for (const auto &row : plan_.rows)
      if (row.value == value)
        return 0;
    int cost = value->producer->op->kind == OpKind::kView ? 0 : value->producer->op->cost;
    for (const graph::Value *operand : value->producer->operands)
      cost += cost_below(operand, seen);
    return cost;
  }

  void choose_rows() {
    if (plan_.levels == 0)
      return;
    int64_t row = 1;
    for (int i = 0; i < plan_.domain.rank(); ++i)
      if (plan_.domain.is_folded[i]) {
        auto extent = plan_.domain.extents[i].constant();
        if (!extent)
          return;
        row *= *extent;
      }
    if (row > kLongestRow || row < 2)
      return;
    for (auto it = region_.nodes().rbegin(); it != region_.nodes().rend(); ++it) {
      const graph::Node &node = **it;
      if (node.op->kind != OpKind::kPointwise && node.op->kind != OpKind::kIndexed)
        continue;
      const graph::Value *value = node.result();
      auto placement = place(plan_.domain, context_, value->type.shape);
      if (!placement || placement->extent != Extent::kFull)
        continue;
      int stages = 0, first = -1;
      for (int stage = 0; stage <= plan_.levels; ++stage)
        walk_stage(stage, [&](const graph::Value *v) {
          if (v != value)
            return;
          ++stages;
          if (first < 0)
            first = stage;
        });
      std::unordered_set<const graph::Node *> seen;
      if (stages < 2 || cost_below(value, seen) < kKeepCost)
        continue;
      Var *kept = context_.new_var("k" + std::to_string(plan_.rows.size()), value->type.dtype);
      kept->is_index = false;
      plan_.rows.push_back({value, first, {}, kept});
      if (static_cast<int>(plan_.rows.size()) == kMostRows)
        return;
    }
  }

  void evaluate() {
    for (int stage = 0; stage <= plan_.levels; ++stage) {
      for (auto &fold : plan_.folds)
        if (fold.level == stage - 1) {
          auto placement = place(plan_.domain, context_, fold.node->result()->type.shape);
          OXYFUEL_CHECK(placement, "a reduction that does not fit its domain");
          evaluator_.bind(fold.node->result(), &placement->index, context_.var(fold.result));
        }
      for (auto &row : plan_.rows)
        if (row.level == stage - 1)
          evaluator_.bind(row.value, &plan_.domain.index, context_.var(row.kept));
      for (auto &row : plan_.rows)
        if (row.level == stage)
          row.element = evaluator_.element(row.value, plan_.domain.index);
      for (auto &fold : plan_.folds)
        if (fold.level == stage) {
          fold.element = cast(evaluator_.element(fold.node->operands[0], plan_.domain.index), fold.accumulator);
          if (fold.node->op->reduction->better)
            fold.position = folded_position();
        }
      if (stage == plan_.levels)
        for (size_t i = 0; i < region_.outputs.size(); ++i) {
          const graph::Value *value = region_.outputs[i];
          const graph::Value *target = group_.result(static_cast<int>(i));
          auto placement = place(plan_.domain, context_, value->type.shape);
          OXYFUEL_CHECK(placement, "a result that does not fit its group's domain");
          LoopsPlan::Root root{static_cast<int>(i), placement->extent, evaluator_.element(value, placement->index),
                               flat_index(context_, target->type, target->layout, placement->index)};
          plan_.roots.push_back(root);
        }
      plan_.checks.push_back(evaluator_.take_checks());
    }
  }

  Expr folded_position() {
    Expr position = context_.integer(0);
    for (int i = 0; i < plan_.domain.rank(); ++i)
      if (plan_.domain.is_folded[i])
        position = position * plan_.domain.extents[i] + plan_.domain.index[i];
    return position;
  }

  void for_each_expr(const std::function<void(Expr &)> &f) {
    for (auto &fold : plan_.folds) {
      f(fold.element);
      if (fold.position)
        f(fold.position);
    }
    for (auto &row : plan_.rows)
      f(row.element);
    for (auto &root : plan_.roots) {
      f(root.element);
      f(root.store_index);
    }
    for (auto &level : plan_.checks)
      for (auto &check : level)
        f(check.condition);
  }

  /// Merges axis `a` into `b` where every address moves along both as along one longer axis: proven by the simplifier,
  /// which has to give the same for the merged place taken apart and for the merged place alone.
  bool try_merge(int a, int b) {
    LoopDomain &domain = plan_.domain;
    if (domain.is_folded[a] != domain.is_folded[b])
      return false;
    Expr extent = domain.extents[a] * domain.extents[b];
    Var *merged = context_.new_var("m" + std::to_string(++merges_), DType::kI64, 0, extent.constant());
    merged->upper_expr = extent.node();
    merged->hint = domain.vars[b]->hint;
    Expr m = context_.var(merged);
    Substitution apart{{domain.vars[a], floor_div(m, domain.extents[b])},
                       {domain.vars[b], floor_mod(m, domain.extents[b])}};
    Substitution whole{{domain.vars[a], context_.integer(0)}, {domain.vars[b], m}};
    std::vector<Expr> replaced;
    bool equal = true;
    for_each_expr([&](Expr &e) {
      if (!equal)
        return;
      replaced.push_back(substitute(e, whole));
      equal = replaced.back() == substitute(e, apart);
    });
    if (!equal)
      return false;
    size_t next = 0;
    for_each_expr([&](Expr &e) { e = replaced[next++]; });
    domain.extents[b] = extent;
    domain.vars[b] = merged;
    domain.index[b] = m;
    auto drop = [a](auto &list) { list.erase(list.begin() + a); };
    drop(domain.extents);
    drop(domain.vars);
    drop(domain.index);
    drop(domain.is_folded);
    return true;
  }

  void merge_axes() {
    bool again = true;
    while (again) {
      again = false;
      for (int i = 0; i < plan_.domain.rank() && !again; ++i)
        for (int j = i + 1; j < plan_.domain.rank() && !again; ++j)
          again = try_merge(i, j) || try_merge(j, i);
    }
  }

  void add_access(Expr index, DType dtype, bool is_store) {
    LoopAccess access;
    for (const Var *v : plan_.domain.vars)
      access.strides.push_back(stride_in(index, v));
    access.bytes = static_cast<int>(size_of(dtype));
    access.is_store = is_store;
    plan_.problem.accesses.push_back(std::move(access));
  }

  static bool calls_function(Expr e, std::unordered_set<const ExprNode *> &seen) {
    if (!seen.insert(e.node()).second)
      return false;
    if (e.kind() >= ExprKind::kExp && e.kind() <= ExprKind::kHostCall)
      return true;
    for (int i = 0; i < e->operand_count; ++i)
      if (calls_function(e.operand(i), seen))
        return true;
    return false;
  }

  std::vector<bool> levels_that_call_functions() const {
    std::vector<bool> calls(plan_.levels + 1);
    std::unordered_set<const ExprNode *> seen;
    auto see = [&](int level, Expr e) { calls[level] = calls[level] || (seen.clear(), calls_function(e, seen)); };
    for (const auto &row : plan_.rows)
      see(row.level, row.element);
    for (const auto &fold : plan_.folds)
      see(fold.level, fold.element);
    for (const auto &root : plan_.roots)
      if (root.extent == Extent::kFull)
        see(plan_.levels, root.element);
    return calls;
  }

  void describe() {
    LoopProblem &problem = plan_.problem;
    problem.calls_functions = levels_that_call_functions();
    for (int i = 0; i < plan_.domain.rank(); ++i) {
      problem.extents.push_back(hint_of(plan_.domain.extents[i]).value_or(32));
      problem.is_static.push_back(plan_.domain.extents[i].constant().has_value());
      problem.is_folded.push_back(plan_.domain.is_folded[i]);
    }
    // Lanes are those of the floats where there are any, of two sizes the one with more work: what is wider then takes
    // several registers, as indices and masks do. (A variance is summed in double among single-precision functions.)
    int cost = 1, widest = 1;
    std::map<int, int> float_cost;
    auto see = [&](DType dtype, int work) {
      const int bytes = static_cast<int>(size_of(opmath_of(dtype)));
      widest = std::max(widest, bytes);
      if (is_float(dtype) || is_complex(dtype))
        float_cost[std::min(bytes, 8)] += work;
    };
    for (const auto &node : region_.nodes()) {
      const int work = node->op->kind != OpKind::kView ? node->op->cost : 0;
      cost += work;
      see(node->result()->type.dtype, work);
    }
    for (const auto &input : region_.inputs())
      see(input->type.dtype, 0);
    problem.cost = cost;
    problem.lane_bytes = std::min(widest, 8);
    int most = -1;
    for (auto [bytes, work] : float_cost)
      if (work >= most)
        most = work, problem.lane_bytes = bytes;
    std::vector<Expr> loads;
    for_each_expr([&](Expr &e) { collect_loads(e, loads); });
    std::sort(loads.begin(), loads.end(), [](Expr x, Expr y) { return x->id < y->id; });
    loads.erase(std::unique(loads.begin(), loads.end()), loads.end());
    for (Expr load : loads)
      add_access(load.operand(0), load.dtype(), false);
    for (const auto &root : plan_.roots)
      add_access(root.store_index, group_.result(root.result)->type.dtype, true);
  }

  const graph::Node &group_;
  const graph::Graph &region_;
  ExprContext &context_;
  Evaluator &evaluator_;
  LoopsPlan plan_;
  std::unordered_map<const graph::Node *, int> levels_;
  int merges_ = 0;
};

} // namespace

LoopsPlan analyse_loops(const graph::Node &group, Evaluator &evaluator, const Machine &) {
  return Analysis(group, evaluator).run();
}

} // namespace oxyfuel
