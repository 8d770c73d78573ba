// The iteration space of a loops group. How a result depends on the group's reductions is found by following index maps
// symbolically from the result down, without building arithmetic.
#include "passes/graph/loop_domain.h"

#include <algorithm>
#include <set>
#include <unordered_set>

#include "ops/op.h"
#include "support/error.h"

namespace oxyfuel {

bool LoopDomain::has_folds() const { return std::find(is_folded.begin(), is_folded.end(), true) != is_folded.end(); }

namespace {

bool same_shape(const std::vector<Expr> &a, const std::vector<Expr> &b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](Expr x, Expr y) { return x == y || always_equal(x, y); });
}

void make_vars(LoopDomain &domain, ExprContext &context) {
  for (Expr extent : domain.extents) {
    Var *v = context.new_var("d" + std::to_string(domain.vars.size()), DType::kI64, 0, extent.constant());
    v->upper_expr = extent.node();
    if (auto hint = hint_of(extent))
      v->hint = *hint / 2;
    domain.vars.push_back(v);
    domain.index.push_back(context.var(v));
  }
}

/// Follows reads from results to reductions.
class ReadTracer {
public:
  ReadTracer(const LoopDomain &domain, std::span<const graph::Node *const> nodes) : domain_(domain) {
    nodes_.insert(nodes.begin(), nodes.end());
  }

  bool visit(const graph::Value *value, std::span<const Expr> index) {
    const graph::Node *node = value->producer;
    if (!node || (!nodes_.count(node) && node->op->kind != OpKind::kView))
      return true;
    std::vector<const void *> key{value};
    for (Expr e : index)
      key.push_back(e.node());
    if (!seen_.insert(std::move(key)).second)
      return true;
    ExprContext &context = domain_.extents.empty() ? index_context(index, *node) : domain_.extents[0].context();
    if (node->op->kind == OpKind::kReduction) {
      auto placement = place(domain_, context, value->type.shape);
      if (!placement || placement->extent != Extent::kOuter ||
          !std::equal(index.begin(), index.end(), placement->index.begin(), placement->index.end()))
        return false;
      return visit(node->operands[0], domain_.index);
    }
    bool good = true;
    ReadOperand read = [&](int operand, std::span<const Expr> at, Expr) {
      good = good && visit(node->operands[operand], at);
      // A value that no index rule sees through: what matters here is where reads happen.
      return context.var(context.new_var("value", node->operands[operand]->type.dtype));
    };
    element_of(context, *node, index, read);
    return good;
  }

private:
  static ExprContext &index_context(std::span<const Expr> index, const graph::Node &node) {
    OXYFUEL_CHECK(!index.empty(), "a scalar " + std::string(node.op->name) + " in a group without axes");
    return index[0].context();
  }
  const LoopDomain &domain_;
  std::unordered_set<const graph::Node *> nodes_;
  std::set<std::vector<const void *>> seen_;
};

} // namespace

std::optional<LoopDomain> find_domain(ExprContext &context, std::span<const graph::Node *const> nodes,
                                      std::span<const graph::Value *const> results) {
  LoopDomain domain;
  bool is_found = false;
  for (const graph::Node *node : nodes) {
    if (node->op->kind != OpKind::kReduction)
      continue;
    const std::vector<Expr> &shape = node->operands[0]->type.shape;
    std::vector<bool> folded(shape.size(), false);
    for (int64_t axis : node->get<std::vector<int64_t>>("axes"))
      folded[axis] = true;
    if (is_found && (!same_shape(shape, domain.extents) || folded != domain.is_folded))
      return std::nullopt;
    domain.extents = shape;
    domain.is_folded = folded;
    is_found = true;
  }
  if (!is_found) {
    for (const graph::Value *result : results) {
      if (is_found && !same_shape(result->type.shape, domain.extents))
        return std::nullopt;
      domain.extents = result->type.shape;
      is_found = true;
    }
    domain.is_folded.assign(domain.extents.size(), false);
  }
  make_vars(domain, context);
  return domain;
}

std::optional<Placement> place(const LoopDomain &domain, ExprContext &context, const std::vector<Expr> &shape) {
  if (same_shape(shape, domain.extents))
    return Placement{Extent::kFull, domain.index};
  Placement placement{Extent::kOuter, {}};
  if (!domain.has_folds())
    return std::nullopt;
  std::vector<Expr> kept;
  for (int i = 0; i < domain.rank(); ++i)
    if (!domain.is_folded[i]) {
      kept.push_back(domain.extents[i]);
      placement.index.push_back(domain.index[i]);
    }
  if (same_shape(shape, kept))
    return placement;
  if (static_cast<int>(shape.size()) != domain.rank())
    return std::nullopt;
  placement.index.clear();
  for (int i = 0; i < domain.rank(); ++i) {
    bool fits = domain.is_folded[i] ? shape[i].is_const(1) : always_equal(shape[i], domain.extents[i]);
    if (!fits)
      return std::nullopt;
    placement.index.push_back(domain.is_folded[i] ? context.integer(0) : domain.index[i]);
  }
  return placement;
}

bool reads_reductions_in_place(const LoopDomain &domain, std::span<const graph::Node *const> nodes,
                               std::span<const graph::Value *const> results) {
  bool has_reduction =
      std::any_of(nodes.begin(), nodes.end(), [](const graph::Node *n) { return n->op->kind == OpKind::kReduction; });
  if (!has_reduction)
    return true;
  ReadTracer tracer(domain, nodes);
  for (const graph::Value *result : results) {
    ExprContext &context = domain.extents[0].context();
    auto placement = place(domain, context, result->type.shape);
    if (!placement || !tracer.visit(result, placement->index))
      return false;
  }
  return true;
}

} // namespace oxyfuel
