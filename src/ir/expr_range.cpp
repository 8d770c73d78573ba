// Ranges of integer expressions, and proofs of inequalities. A proof of e >= 0 first asks for the range of e; where
// that fails, it replaces a term that lowers e by a bound of it (a loop variable by its symbolic extent, a remainder by
// its modulus) and asks again, so that differences of symbols cancel.
#include <algorithm>

#include "ir/expr_internal.h"
#include "ir/scalar.h"

namespace oxyfuel {

namespace {

using Bound = std::optional<int64_t>;

Bound add(Bound a, Bound b) {
  int64_t result;
  if (!a || !b || __builtin_add_overflow(*a, *b, &result))
    return {};
  return result;
}

Bound multiply(Bound a, Bound b) {
  int64_t result;
  if (!a || !b || __builtin_mul_overflow(*a, *b, &result))
    return {};
  return result;
}

Bound negate(Bound a) { return a && *a != INT64_MIN ? Bound(-*a) : Bound(); }

Range negate(Range a) { return {negate(a.upper), negate(a.lower)}; }

bool nonnegative(const Range &a) { return a.lower && *a.lower >= 0; }
bool nonpositive(const Range &a) { return a.upper && *a.upper <= 0; }

Range multiply(Range a, Range b) {
  if (nonpositive(a) && !nonnegative(a))
    return negate(multiply(negate(a), b));
  if (nonpositive(b) && !nonnegative(b))
    return negate(multiply(a, negate(b)));
  if (nonnegative(a) && nonnegative(b))
    return {multiply(a.lower, b.lower), multiply(a.upper, b.upper)};
  if (nonnegative(b))
    std::swap(a, b);
  if (nonnegative(a)) // b has both signs or is unknown
    return {multiply(a.upper, b.lower), multiply(a.upper, b.upper)};
  const Bound products[] = {multiply(a.lower, b.lower), multiply(a.lower, b.upper), multiply(a.upper, b.lower),
                            multiply(a.upper, b.upper)};
  Range result{products[0], products[0]};
  for (const Bound &product : products) {
    if (!product)
      return {};
    result = {std::min(*result.lower, *product), std::max(*result.upper, *product)};
  }
  return result;
}

/// Divisors are at least 1 where they matter (zero never runs).
Range divide(Range a, Range b) {
  if (!nonnegative(b))
    return {};
  const int64_t least = std::max<int64_t>(*b.lower, 1);
  Range result;
  if (a.lower)
    result.lower =
        *a.lower >= 0 ? (b.upper ? *a.lower / std::max<int64_t>(*b.upper, 1) : 0) : floor_div_value(*a.lower, least);
  if (a.upper)
    result.upper =
        *a.upper >= 0 ? *a.upper / least : (b.upper ? floor_div_value(*a.upper, std::max<int64_t>(*b.upper, 1)) : -1);
  return result;
}

Range modulo(Range a, Range b) {
  if (!nonnegative(b))
    return {};
  if (nonnegative(a) && a.upper && *a.upper < std::max<int64_t>(*b.lower, 1))
    return a;
  Range result{0, b.upper ? Bound(std::max<int64_t>(*b.upper, 1) - 1) : Bound()};
  if (nonnegative(a) && a.upper && (!result.upper || *a.upper < *result.upper))
    result.upper = a.upper;
  return result;
}

Bound least(Bound a, Bound b) { return a && b ? Bound(std::min(*a, *b)) : Bound(); }
Bound greatest(Bound a, Bound b) { return a && b ? Bound(std::max(*a, *b)) : Bound(); }
Bound lesser_known(Bound a, Bound b) { return a && b ? std::min(*a, *b) : (a ? *a : b); }
Bound greater_known(Bound a, Bound b) { return a && b ? std::max(*a, *b) : (a ? *a : b); }

Range of_type(DType dtype) {
  switch (dtype) {
  case DType::kBool: return {0, 1};
  case DType::kU8: return {0, UINT8_MAX};
  case DType::kI8: return {INT8_MIN, INT8_MAX};
  case DType::kI16: return {INT16_MIN, INT16_MAX};
  case DType::kU16: return {0, UINT16_MAX};
  case DType::kI32: return {INT32_MIN, INT32_MAX};
  case DType::kU32: return {0, UINT32_MAX};
  default: return {};
  }
}

Range of_var(const Var *var) {
  Range range;
  range.lower = var->lower;
  if (var->upper)
    range.upper = *var->upper - 1;
  if (var->upper_expr)
    range.upper = lesser_known(range.upper, add(range_of(Expr(var->upper_expr)).upper, -1));
  return range;
}

/// As if nothing overflowed.
Range ideal_range(Expr e) {
  const Expr a = e.operand(0), b = e->operand_count > 1 ? e.operand(1) : Expr();
  const auto ra = [&] { return range_of(a); };
  const auto rb = [&] { return range_of(b); };
  switch (e.kind()) {
  case ExprKind::kAdd: {
    const Range x = ra(), y = rb();
    return {add(x.lower, y.lower), add(x.upper, y.upper)};
  }
  case ExprKind::kSub: {
    const Range x = ra(), y = negate(rb());
    return {add(x.lower, y.lower), add(x.upper, y.upper)};
  }
  case ExprKind::kNeg: return negate(ra());
  case ExprKind::kMul: return multiply(ra(), rb());
  case ExprKind::kFloorDiv: return divide(ra(), rb());
  case ExprKind::kFloorMod: return modulo(ra(), rb());
  case ExprKind::kDiv: return nonnegative(ra()) ? divide(ra(), rb()) : Range();
  case ExprKind::kRem: return nonnegative(ra()) ? modulo(ra(), rb()) : Range();
  case ExprKind::kMin: {
    const Range x = ra(), y = rb();
    return {least(x.lower, y.lower), lesser_known(x.upper, y.upper)};
  }
  case ExprKind::kMax: {
    const Range x = ra(), y = rb();
    return {greater_known(x.lower, y.lower), greatest(x.upper, y.upper)};
  }
  case ExprKind::kAbs: {
    const Range x = ra();
    if (nonnegative(x))
      return x;
    return {0, greatest(negate(x.lower), x.upper)};
  }
  case ExprKind::kSelect: {
    const Range x = range_of(e.operand(1)), y = range_of(e.operand(2));
    return {least(x.lower, y.lower), greatest(x.upper, y.upper)};
  }
  case ExprKind::kCast: return is_float(a.dtype()) || is_complex(a.dtype()) ? Range() : ra();
  case ExprKind::kAnd: {
    const Range x = ra(), y = rb();
    if (!nonnegative(x) && !nonnegative(y))
      return {};
    return {0, lesser_known(nonnegative(x) ? x.upper : Bound(), nonnegative(y) ? y.upper : Bound())};
  }
  default: return {};
  }
}

Range compute_range(Expr e) {
  if (e.is_const())
    return {e->integer, e->integer};
  const Range type = of_type(e.dtype());
  if (e.kind() == ExprKind::kVar) {
    const Range range = of_var(e.var());
    return {greater_known(range.lower, type.lower), lesser_known(range.upper, type.upper)};
  }
  if (e.kind() == ExprKind::kLoad || e.dtype() == DType::kBool)
    return type;
  const Range ideal = ideal_range(e);
  if (e->is_index)
    return ideal;
  // Wrapping arithmetic: only a range that fits the type with both ends known is one.
  if (!ideal.lower || !ideal.upper)
    return type;
  if (type.lower && (*ideal.lower < *type.lower || *ideal.upper > *type.upper))
    return type;
  return ideal;
}

constexpr int kDepth = 5;

bool prove_nonnegative(Expr e, int depth);

/// Upper bounds (inclusive) of `factor` as expressions, tried in turn.
void upper_bounds(Expr factor, std::vector<Expr> &bounds) {
  switch (factor.kind()) {
  case ExprKind::kVar:
    if (factor.var()->upper_expr)
      bounds.push_back(Expr(factor.var()->upper_expr) - 1);
    return;
  case ExprKind::kFloorMod:
    if (nonnegative(range_of(factor.operand(1))))
      bounds.push_back(factor.operand(1) - 1);
    if (nonnegative(range_of(factor.operand(0))))
      bounds.push_back(factor.operand(0));
    return;
  case ExprKind::kMin:
    bounds.push_back(factor.operand(0));
    bounds.push_back(factor.operand(1));
    return;
  case ExprKind::kFloorDiv: {
    std::vector<Expr> inner;
    if (!nonnegative(range_of(factor.operand(1))))
      return;
    upper_bounds(factor.operand(0), inner);
    for (Expr bound : inner)
      bounds.push_back(floor_div(bound, factor.operand(1)));
    return;
  }
  default: return;
  }
}

void lower_bounds(Expr factor, std::vector<Expr> &bounds) {
  if (factor.kind() == ExprKind::kMax) {
    bounds.push_back(factor.operand(0));
    bounds.push_back(factor.operand(1));
  }
}

/// The factor to bound next: what is computed before variables (its bounds may cancel them), inner loops before outer
/// ones (their extents may name outer variables).
struct Choice {
  Sum::Term term;
  size_t factor = 0;
  std::vector<Expr> factors, bounds;
};

std::optional<Choice> choose_factor(const Sum &sum) {
  std::optional<Choice> best;
  const auto rank = [](Expr factor) { return std::pair(factor.kind() != ExprKind::kVar, factor->id); };
  for (const Sum::Term &term : sum.terms) {
    Choice choice{term, 0, {}, {}};
    factors_of(term.monomial, choice.factors);
    for (size_t f = 0; f < choice.factors.size(); ++f) {
      if (best && rank(choice.factors[f]) < rank(best->factors[best->factor]))
        continue;
      choice.bounds.clear();
      if (term.coefficient < 0)
        upper_bounds(choice.factors[f], choice.bounds);
      else
        lower_bounds(choice.factors[f], choice.bounds);
      choice.factor = f;
      if (!choice.bounds.empty())
        best = choice;
    }
  }
  return best;
}

/// Replaces one factor of one term by a bound that makes the sum no larger.
bool prove_with_bounds(Expr e, int depth) {
  std::optional<Choice> choice = choose_factor(sum_of(e));
  if (!choice)
    return false;
  const Expr factor = choice->factors[choice->factor];
  choice->factors.erase(choice->factors.begin() + static_cast<std::ptrdiff_t>(choice->factor));
  const Expr scale = build_product(e.context(), choice->factors);
  if (!nonnegative(range_of(scale)))
    return false;
  for (Expr bound : choice->bounds)
    if (prove_nonnegative(e + (bound - factor) * scale * choice->term.coefficient, depth - 1))
      return true;
  return false;
}

bool prove_nonnegative(Expr e, int depth) {
  const Range range = range_of(e);
  if (range.lower && *range.lower >= 0)
    return true;
  if (depth == 0 || !e->is_index || (range.upper && *range.upper < 0))
    return false;
  return prove_with_bounds(e, depth);
}

} // namespace

Range range_of(Expr e) {
  if (is_float(e.dtype()) || is_complex(e.dtype()) || e.dtype() == DType::kU64)
    return {};
  Range range;
  if (ExprInterner::find_range(e.node(), range))
    return range;
  range = compute_range(e);
  ExprInterner::keep_range(e.node(), range);
  return range;
}

bool always_nonnegative(Expr e) { return e.dtype() == DType::kI64 && prove_nonnegative(e, kDepth); }

bool always_less(Expr a, Expr b) {
  if (a->is_index && b->is_index)
    return always_nonnegative(b - a - 1);
  const Range ra = range_of(a), rb = range_of(b);
  return ra.upper && rb.lower && *ra.upper < *rb.lower;
}

bool always_equal(Expr a, Expr b) {
  if (a == b)
    return true;
  if (!a->is_index || !b->is_index || a.dtype() != b.dtype() || is_bool(a.dtype()))
    return false;
  return (a - b).is_const(0);
}

} // namespace oxyfuel
