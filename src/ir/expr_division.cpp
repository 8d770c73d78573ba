// Floor division and modulo of index expressions. The numerator is a sum; what is a multiple of the divisor leaves, and
// the rest is dropped when it provably lies in [0, divisor). Divisors are positive: sizes, strides and tile widths.
//
//   (i*64 + j*8 + k) // 8     =>  i*8 + j            when 0 <= k < 8
//   (i*64 + j*8 + k) mod 64   =>  j*8 + k            when that is below 64
//   (i*s0*s1 + j*s1 + k) // (s0*s1)  =>  i           when j < s0, k < s1
//   (x // a) // b             =>  x // (a*b)
//   (x mod (a*b)) // a        =>  (x // a) mod b
#include <algorithm>
#include <numeric>

#include "ir/expr_internal.h"

namespace oxyfuel {

namespace {

struct Division {
  Sum quotient, rest; ///< numerator == quotient * divisor + rest
};

/// The factors of `monomial` without those of `divisor`; false when some are missing.
bool divide_monomial(ExprContext &context, Expr monomial, const std::vector<Expr> &divisor, Expr &quotient) {
  std::vector<Expr> factors;
  factors_of(monomial, factors);
  for (Expr wanted : divisor) {
    const auto found = std::find(factors.begin(), factors.end(), wanted);
    if (found == factors.end())
      return false;
    factors.erase(found);
  }
  quotient = build_product(context, std::move(factors));
  return true;
}

void add_term(Sum &sum, Expr monomial, int64_t coefficient) {
  if (monomial.is_const())
    sum.constant = wrap_add(sum.constant, wrap_mul(monomial->integer, coefficient));
  else
    sum.terms.push_back({monomial, coefficient});
}

/// Takes the multiples of coefficient * product(factors) out of `numerator`. The constant's rest is in [0,
/// coefficient).
Division divide_sum(ExprContext &context, const Sum &numerator, int64_t coefficient, const std::vector<Expr> &factors) {
  Division result;
  for (const Sum::Term &term : numerator.terms) {
    Expr quotient;
    const bool divides = divide_monomial(context, term.monomial, factors, quotient);
    const int64_t whole = divides ? term.coefficient / coefficient : 0;
    const int64_t left = term.coefficient - whole * coefficient;
    // A coefficient is split only where there are no symbolic factors to lose: x*5 // 4 is x + x // 4.
    if (divides && (left == 0 || factors.empty())) {
      if (whole != 0)
        add_term(result.quotient, quotient, whole);
      if (left != 0)
        result.rest.terms.push_back({term.monomial, left});
    } else {
      result.rest.terms.push_back(term);
    }
  }
  if (factors.empty()) {
    result.quotient.constant = wrap_add(result.quotient.constant, floor_div_value(numerator.constant, coefficient));
    result.rest.constant = floor_mod_value(numerator.constant, coefficient);
  } else {
    result.rest.constant = numerator.constant;
  }
  normalize(result.quotient);
  return result;
}

/// 0 <= rest < divisor.
bool is_remainder(Expr rest, Expr divisor) { return always_nonnegative(rest) && always_less(rest, divisor); }

/// The m in {0, -1, constants} with m*divisor <= rest < (m + 1)*divisor, when one is proven.
std::optional<int64_t> quotient_of_rest(Expr rest, Expr divisor) {
  if (const std::optional<int64_t> c = divisor.constant()) {
    const Range range = range_of(rest);
    if (range.lower && range.upper && floor_div_value(*range.lower, *c) == floor_div_value(*range.upper, *c))
      return floor_div_value(*range.lower, *c);
  }
  if (is_remainder(rest, divisor))
    return 0;
  if (always_less(rest, rest.context().integer(0)) && always_nonnegative(rest + divisor))
    return -1;
  return {};
}

/// A divisor taken apart: coefficient * factors, or a sum of several terms (`is_monomial` false).
struct Divisor {
  Expr whole;
  int64_t coefficient = 1;
  std::vector<Expr> factors;
  bool is_monomial = true;

  explicit Divisor(Expr e) : whole(e) {
    const Sum sum = sum_of(e);
    if (sum.terms.empty()) {
      coefficient = sum.constant;
    } else if (sum.terms.size() == 1 && sum.constant == 0) {
      coefficient = sum.terms[0].coefficient;
      factors_of(sum.terms[0].monomial, factors);
    } else {
      is_monomial = false;
    }
  }
};

/// A common divisor g of numerator and divisor: numerator == scaled * g + rest with 0 <= rest < g, divisor == part * g.
struct Common {
  Expr scaled, rest, part, g;
};

std::optional<Common> try_common(ExprContext &context, const Sum &numerator, const Divisor &divisor, int64_t c,
                                 const std::vector<Expr> &factors) {
  const Division division = divide_sum(context, numerator, c, factors);
  if (division.quotient.terms.empty())
    return {};
  const Expr g = context.integer(c) * build_product(context, factors);
  Sum rest = division.rest;
  normalize(rest);
  Common common{build_sum(context, division.quotient), build_sum(context, rest), {}, g};
  if (!is_remainder(common.rest, g))
    return {};
  std::vector<Expr> left = divisor.factors;
  for (Expr factor : factors)
    left.erase(std::find(left.begin(), left.end(), factor));
  common.part = context.integer(divisor.coefficient / c) * build_product(context, left);
  return common;
}

std::optional<Common> find_common(ExprContext &context, const Sum &numerator, const Divisor &divisor) {
  if (!divisor.is_monomial || divisor.coefficient <= 0)
    return {};
  std::vector<int64_t> candidates;
  for (const Sum::Term &term : numerator.terms)
    if (const int64_t g = std::gcd(term.coefficient, divisor.coefficient); g > 1)
      candidates.push_back(g);
  std::sort(candidates.rbegin(), candidates.rend());
  candidates.erase(std::unique(candidates.begin(), candidates.end()), candidates.end());
  for (int64_t g : candidates)
    if (g != divisor.coefficient || !divisor.factors.empty())
      if (auto common = try_common(context, numerator, divisor, g, {}))
        return common;
  if (divisor.factors.size() + (divisor.coefficient != 1 ? 1 : 0) < 2)
    return {};
  for (size_t i = 0; i < divisor.factors.size(); ++i) {
    if (i > 0 && divisor.factors[i] == divisor.factors[i - 1])
      continue;
    if (auto common = try_common(context, numerator, divisor, 1, {divisor.factors[i]}))
      return common;
  }
  return {};
}

/// Polynomial division by a divisor of several terms, exact where the rest is proven to be one.
std::optional<Division> divide_by_sum(ExprContext &context, const Sum &numerator, const Divisor &divisor) {
  const Sum terms = sum_of(divisor.whole);
  const auto degree = [](Expr monomial) {
    std::vector<Expr> factors;
    factors_of(monomial, factors);
    return factors.size();
  };
  const auto leading = std::max_element(terms.terms.begin(), terms.terms.end(), [&](const auto &a, const auto &b) {
    return degree(a.monomial) < degree(b.monomial);
  });
  std::vector<Expr> factors;
  factors_of(leading->monomial, factors);
  Expr rest = build_sum(context, numerator), quotient = context.integer(0);
  for (int step = 0; step < 8; ++step) {
    Expr part;
    for (const Sum::Term &term : sum_of(rest).terms) {
      if (term.coefficient % leading->coefficient == 0 && divide_monomial(context, term.monomial, factors, part)) {
        part = part * (term.coefficient / leading->coefficient);
        break;
      }
      part = {};
    }
    if (part.is_empty())
      break;
    quotient = quotient + part;
    rest = rest - part * divisor.whole;
  }
  const std::optional<int64_t> extra = quotient_of_rest(rest, divisor.whole);
  if (!extra)
    return {};
  return Division{sum_of(quotient + *extra), sum_of(rest - divisor.whole * *extra)};
}

/// kMod(x, m) terms whose coefficient makes the modulus a multiple of `divisor`: modulo `divisor` they are x.
Sum drop_inner_moduli(const Sum &sum, Expr divisor) {
  Sum result;
  result.constant = sum.constant;
  for (const Sum::Term &term : sum.terms) {
    if (term.monomial.kind() == ExprKind::kFloorMod) {
      const Expr scaled = term.monomial.operand(1) * term.coefficient;
      const bool is_const = scaled.is_const() && divisor.is_const() && scaled->integer % divisor->integer == 0;
      if (is_const || scaled == divisor) {
        add_to_sum(term.monomial.operand(0), term.coefficient, result);
        continue;
      }
    }
    result.terms.push_back(term);
  }
  normalize(result);
  return result;
}

bool is_positive_divisor(Expr b) {
  if (b.is_const())
    return b->integer > 0;
  return always_nonnegative(b); // zero is ruled out by the program's own guard
}

} // namespace

Expr index_floor_div(Expr a, Expr b) {
  ExprContext &context = a.context();
  if (b.is_const(1))
    return a;
  if (a == b)
    return context.integer(1);
  if (!is_positive_divisor(b))
    return {};
  const Sum numerator = sum_of(a);
  const Divisor divisor(b);
  if (!divisor.is_monomial) {
    if (const auto division = divide_by_sum(context, numerator, divisor))
      return build_sum(context, division->quotient);
    return {};
  }
  Division division = divide_sum(context, numerator, divisor.coefficient, divisor.factors);
  normalize(division.rest);
  const Expr quotient = build_sum(context, division.quotient), rest = build_sum(context, division.rest);
  if (const auto extra = quotient_of_rest(rest, b))
    return quotient + *extra;
  if (const auto common = find_common(context, division.rest, divisor))
    return quotient + floor_div(common->scaled, common->part);
  if (rest.kind() == ExprKind::kFloorDiv && is_positive_divisor(rest.operand(1)))
    return quotient + floor_div(rest.operand(0), rest.operand(1) * b);
  if (rest.kind() == ExprKind::kFloorMod) { // (x mod (b*m)) // b
    const Expr modulus = rest.operand(1);
    const Division parts = divide_sum(context, sum_of(modulus), divisor.coefficient, divisor.factors);
    if (parts.rest.terms.empty() && parts.rest.constant == 0)
      return quotient + floor_mod(floor_div(rest.operand(0), b), build_sum(context, parts.quotient));
  }
  return quotient + intern(context, ExprKind::kFloorDiv, DType::kI64, {rest, b});
}

Expr index_floor_mod(Expr a, Expr b) {
  ExprContext &context = a.context();
  if (b.is_const(1) || a == b)
    return context.integer(0);
  if (!is_positive_divisor(b))
    return {};
  const Sum numerator = drop_inner_moduli(sum_of(a), b);
  const Divisor divisor(b);
  if (!divisor.is_monomial) {
    if (const auto division = divide_by_sum(context, numerator, divisor))
      return build_sum(context, division->rest);
    return {};
  }
  Division division = divide_sum(context, numerator, divisor.coefficient, divisor.factors);
  division.rest = drop_inner_moduli(division.rest, b);
  const Expr rest = build_sum(context, division.rest);
  if (const auto extra = quotient_of_rest(rest, b))
    return rest - b * *extra;
  if (const auto common = find_common(context, division.rest, divisor))
    return floor_mod(common->scaled, common->part) * common->g + common->rest;
  return intern(context, ExprKind::kFloorMod, DType::kI64, {rest, b});
}

} // namespace oxyfuel
