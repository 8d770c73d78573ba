// Sums and products of index expressions in canonical form: products are multiplied out, monomials sorted by id, each
// with one coefficient, the constant last:  ((m0*c0 + m1*c1) + m2) + c.  So equal sums are one node.
#include <algorithm>

#include "ir/expr_internal.h"

namespace oxyfuel {

namespace {

/// More terms than this stay a product of sums.
constexpr size_t kMostTerms = 24;

bool contains_kind(Expr monomial, ExprKind kind) {
  if (monomial.kind() == kind)
    return true;
  return monomial.kind() == ExprKind::kMul &&
         (contains_kind(monomial.operand(0), kind) || contains_kind(monomial.operand(1), kind));
}

void merge(std::vector<Sum::Term> &terms) {
  std::sort(terms.begin(), terms.end(),
            [](const Sum::Term &a, const Sum::Term &b) { return a.monomial->id < b.monomial->id; });
  size_t kept = 0;
  for (size_t i = 0; i < terms.size();) {
    Sum::Term term = terms[i++];
    for (; i < terms.size() && terms[i].monomial == term.monomial; ++i)
      term.coefficient = wrap_add(term.coefficient, terms[i].coefficient);
    if (term.coefficient != 0)
      terms[kept++] = term;
  }
  terms.resize(kept);
}

/// With quotient and remainder of one division: (x // m)*m*r + (x mod m)*r is x*r. Rewrites one such pair.
bool recombine_once(Sum &sum) {
  for (size_t i = 0; i < sum.terms.size(); ++i) {
    const Sum::Term term = sum.terms[i];
    if (!term.monomial->is_index || !contains_kind(term.monomial, ExprKind::kFloorMod))
      continue;
    std::vector<Expr> factors;
    factors_of(term.monomial, factors);
    for (size_t f = 0; f < factors.size(); ++f) {
      if (factors[f].kind() != ExprKind::kFloorMod)
        continue;
      const Expr x = factors[f].operand(0), modulus = factors[f].operand(1);
      std::vector<Expr> others = factors;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(f));
      ExprContext &context = x.context();
      const Expr rest = build_product(context, others);
      const Sum quotient = sum_of(floor_div(x, modulus) * (modulus * rest));
      if (quotient.terms.size() != 1 || quotient.constant != 0)
        continue;
      const int64_t wanted = wrap_mul(quotient.terms[0].coefficient, term.coefficient);
      for (size_t j = 0; j < sum.terms.size(); ++j) {
        if (sum.terms[j].monomial != quotient.terms[0].monomial || sum.terms[j].coefficient != wanted || i == j)
          continue;
        sum.terms[std::max(i, j)].coefficient = sum.terms[std::min(i, j)].coefficient = 0;
        add_to_sum(x * rest, term.coefficient, sum);
        merge(sum.terms);
        return true;
      }
    }
  }
  return false;
}

} // namespace

void add_to_sum(Expr e, int64_t factor, Sum &sum) {
  if (factor == 0)
    return;
  switch (e.kind()) {
  case ExprKind::kConst: sum.constant = wrap_add(sum.constant, wrap_mul(e->integer, factor)); return;
  case ExprKind::kAdd:
    add_to_sum(e.operand(0), factor, sum);
    add_to_sum(e.operand(1), factor, sum);
    return;
  case ExprKind::kSub:
    add_to_sum(e.operand(0), factor, sum);
    add_to_sum(e.operand(1), wrap_sub(0, factor), sum);
    return;
  case ExprKind::kNeg: add_to_sum(e.operand(0), wrap_sub(0, factor), sum); return;
  case ExprKind::kMul:
    if (e.operand(1).is_const()) {
      add_to_sum(e.operand(0), wrap_mul(factor, e.operand(1)->integer), sum);
      return;
    }
    break;
  default: break;
  }
  sum.terms.push_back({e, factor});
}

void normalize(Sum &sum) {
  merge(sum.terms);
  bool has_quotient = false, has_remainder = false;
  for (const Sum::Term &term : sum.terms) {
    has_quotient = has_quotient || contains_kind(term.monomial, ExprKind::kFloorDiv);
    has_remainder = has_remainder || contains_kind(term.monomial, ExprKind::kFloorMod);
  }
  if (has_quotient && has_remainder)
    while (recombine_once(sum)) {
    }
}

Sum sum_of(Expr e) {
  Sum sum;
  add_to_sum(e, 1, sum);
  merge(sum.terms);
  return sum;
}

Expr build_sum(ExprContext &context, const Sum &sum) {
  Expr result;
  for (const Sum::Term &term : sum.terms) {
    Expr part = term.monomial;
    if (term.coefficient != 1)
      part = intern(context, ExprKind::kMul, DType::kI64, {part, context.integer(term.coefficient)});
    result = result ? intern(context, ExprKind::kAdd, DType::kI64, {result, part}) : part;
  }
  if (result.is_empty())
    return context.integer(sum.constant);
  if (sum.constant != 0)
    result = intern(context, ExprKind::kAdd, DType::kI64, {result, context.integer(sum.constant)});
  return result;
}

void factors_of(Expr monomial, std::vector<Expr> &factors) {
  if (monomial.kind() == ExprKind::kMul) {
    factors_of(monomial.operand(0), factors);
    factors_of(monomial.operand(1), factors);
    return;
  }
  factors.push_back(monomial);
}

Expr build_product(ExprContext &context, std::vector<Expr> factors) {
  if (factors.empty())
    return context.integer(1);
  std::sort(factors.begin(), factors.end(), [](Expr a, Expr b) { return a->id < b->id; });
  Expr product = factors[0];
  for (size_t i = 1; i < factors.size(); ++i)
    product = intern(context, ExprKind::kMul, DType::kI64, {product, factors[i]});
  return product;
}

Expr index_add(Expr a, Expr b, int64_t factor_of_b) {
  if (b.is_const(0))
    return a;
  Sum sum;
  add_to_sum(a, 1, sum);
  add_to_sum(b, factor_of_b, sum);
  normalize(sum);
  return build_sum(a.context(), sum);
}

Expr index_mul(Expr a, Expr b) {
  ExprContext &context = a.context();
  if (a.is_const())
    std::swap(a, b);
  if (b.is_const(1))
    return a;
  const Sum sa = sum_of(a), sb = sum_of(b);
  const auto size = [](const Sum &s) { return s.terms.size() + (s.constant != 0 ? 1 : 0); };
  if (size(sa) * size(sb) > kMostTerms && !b.is_const())
    return build_product(context, {a, b});
  Sum product;
  product.constant = wrap_mul(sa.constant, sb.constant);
  for (const Sum::Term &x : sa.terms) {
    if (sb.constant != 0)
      product.terms.push_back({x.monomial, wrap_mul(x.coefficient, sb.constant)});
    for (const Sum::Term &y : sb.terms) {
      std::vector<Expr> factors;
      factors_of(x.monomial, factors);
      factors_of(y.monomial, factors);
      product.terms.push_back({build_product(context, std::move(factors)), wrap_mul(x.coefficient, y.coefficient)});
    }
  }
  if (sa.constant != 0)
    for (const Sum::Term &y : sb.terms)
      product.terms.push_back({y.monomial, wrap_mul(y.coefficient, sa.constant)});
  normalize(product);
  return build_sum(context, product);
}

} // namespace oxyfuel
