// Walks over expressions. Expressions share nodes, so every walk visits a node once.
#include <array>
#include <unordered_set>

#include "ir/expr_internal.h"
#include "ir/loop/loop.h"
#include "ir/scalar.h"

namespace oxyfuel {

namespace {

/// The same operation on other operands, simplified anew.
Expr rebuild(ExprContext &context, Expr e, std::span<const Expr> operands) {
  if (e.kind() == ExprKind::kLoad)
    return context.load(e.buffer(), operands[0], operands.size() > 1 ? operands[1] : Expr());
  return context.make(e.kind(), e.dtype(), operands, e->integer);
}

class Rewriter {
public:
  explicit Rewriter(const std::function<Expr(Expr)> &f) : f_(f) {}

  Expr run(Expr e) {
    if (const auto found = done_.find(e.node()); found != done_.end())
      return found->second;
    Expr result = e;
    if (e->operand_count != 0) {
      std::array<Expr, 3> operands;
      bool changed = false;
      for (int i = 0; i < e->operand_count; ++i) {
        operands[static_cast<size_t>(i)] = run(e.operand(i));
        changed = changed || !(operands[static_cast<size_t>(i)] == e.operand(i));
      }
      if (changed)
        result = rebuild(e.context(), e, std::span(operands.data(), e->operand_count));
    }
    result = f_(result);
    done_.emplace(e.node(), result);
    return result;
  }

private:
  const std::function<Expr(Expr)> &f_;
  std::unordered_map<const ExprNode *, Expr> done_;
};

class Importer {
public:
  ExprContext &into;
  const std::function<Expr(const Var *)> &var;
  const std::function<const Buffer *(const Buffer *)> &buffer;
  std::unordered_map<const ExprNode *, Expr> done;

  Expr run(Expr e) {
    if (const auto found = done.find(e.node()); found != done.end())
      return found->second;
    const Expr result = copy(e);
    OXYFUEL_CHECK(result && result.dtype() == e.dtype(), "an imported leaf has no counterpart of its type");
    done.emplace(e.node(), result);
    return result;
  }

private:
  Expr copy(Expr e) {
    if (e.is_const())
      return ExprInterner::intern(into, ExprKind::kConst, e.dtype(), {}, e->integer);
    if (e.kind() == ExprKind::kVar)
      return var(e.var());
    std::array<Expr, 3> operands;
    for (int i = 0; i < e->operand_count; ++i)
      operands[static_cast<size_t>(i)] = run(e.operand(i));
    if (e.kind() == ExprKind::kLoad) {
      const Buffer *to = buffer(e.buffer());
      OXYFUEL_CHECK(to != nullptr, "an imported load has no buffer");
      return into.load(to, operands[0], e->operand_count > 1 ? operands[1] : Expr());
    }
    return into.make(e.kind(), e.dtype(), std::span(operands.data(), e->operand_count), e->integer);
  }
};

/// Calls `f` for each node of `e` once, operands first; `f` returning true ends the walk.
template <class F> bool visit(const ExprNode *node, std::unordered_set<const ExprNode *> &seen, const F &f) {
  if (!seen.insert(node).second)
    return false;
  for (int i = 0; i < node->operand_count; ++i)
    if (visit(node->operands[i], seen, f))
      return true;
  return f(Expr(node));
}

template <class F> bool visit(Expr e, const F &f) {
  std::unordered_set<const ExprNode *> seen;
  return visit(e.node(), seen, f);
}

/// Value of an integer expression by `leaf`, which may give up by returning nothing.
std::optional<int64_t> value_of(Expr e, std::unordered_map<const ExprNode *, int64_t> &done,
                                const std::function<std::optional<int64_t>(const Var *)> &leaf) {
  if (e.is_const())
    return e.constant();
  if (e.kind() == ExprKind::kVar)
    return leaf(e.var());
  if (e.kind() == ExprKind::kLoad || is_float(e.dtype()) || is_complex(e.dtype()))
    return {};
  if (const auto found = done.find(e.node()); found != done.end())
    return found->second;
  Scalar values[3] = {};
  for (int i = 0; i < e->operand_count; ++i) {
    const std::optional<int64_t> value = value_of(e.operand(i), done, leaf);
    if (!value)
      return {};
    values[i].i = *value;
  }
  const DType operand = e.kind() == ExprKind::kSelect ? e.dtype() : e.operand(0).dtype();
  if (is_float(operand) || is_complex(operand))
    return {};
  const int64_t result = apply(e.kind(), e.dtype(), operand, values).i;
  done.emplace(e.node(), result);
  return result;
}

} // namespace

Expr rewrite(Expr e, const std::function<Expr(Expr)> &f) { return Rewriter(f).run(e); }

Expr substitute(Expr e, const Substitution &map) {
  const std::function<Expr(Expr)> replace = [&](Expr node) {
    if (node.kind() != ExprKind::kVar)
      return node;
    const auto found = map.find(node.var());
    return found == map.end() ? node : found->second;
  };
  return rewrite(e, replace);
}

Expr import(Expr e, ExprContext &into, const std::function<Expr(const Var *)> &var,
            const std::function<const Buffer *(const Buffer *)> &buffer) {
  return Importer{into, var, buffer, {}}.run(e);
}

bool depends_on(Expr e, const Var *v) {
  return visit(e, [&](Expr node) { return node.kind() == ExprKind::kVar && node.var() == v; });
}

void collect_vars(Expr e, std::vector<const Var *> &vars) {
  std::unordered_set<const Var *> known(vars.begin(), vars.end());
  visit(e, [&](Expr node) {
    if (node.kind() == ExprKind::kVar && known.insert(node.var()).second)
      vars.push_back(node.var());
    return false;
  });
}

void collect_loads(Expr e, std::vector<Expr> &loads) {
  visit(e, [&](Expr node) {
    if (node.kind() == ExprKind::kLoad)
      loads.push_back(node);
    return false;
  });
}

std::optional<int64_t> stride_in(Expr e, const Var *v) {
  if (!depends_on(e, v))
    return 0;
  if (e.dtype() != DType::kI64)
    return {};
  // Sums and products with constants hold in wrapping arithmetic, so loads elsewhere in the sum do no harm.
  int64_t stride = 0;
  for (const Sum::Term &term : sum_of(e).terms) {
    if (term.monomial.kind() == ExprKind::kVar && term.monomial.var() == v)
      stride = wrap_add(stride, term.coefficient);
    else if (depends_on(term.monomial, v))
      return {};
  }
  return stride;
}

std::optional<int64_t> hint_of(Expr e) {
  std::unordered_map<const ExprNode *, int64_t> done;
  return value_of(e, done, [](const Var *var) { return var->hint != 0 ? std::optional(var->hint) : std::nullopt; });
}

int64_t evaluate(Expr e, const std::function<int64_t(const Var *)> &value) {
  std::unordered_map<const ExprNode *, int64_t> done;
  const std::optional<int64_t> result =
      value_of(e, done, [&](const Var *var) -> std::optional<int64_t> { return value(var); });
  OXYFUEL_CHECK(result.has_value(), "only integer expressions without loads are evaluated: " + print(e));
  return *result;
}

} // namespace oxyfuel
