// Shared by the files that build expressions; not for users of expressions.
#pragma once

#include <optional>
#include <vector>

#include "ir/expr.h"
#include "support/error.h"

namespace oxyfuel {

/// The interning table. All nodes are made here.
struct ExprInterner {
  /// The node as given, without simplification.
  static Expr intern(ExprContext &context, ExprKind kind, DType dtype, std::span<const Expr> operands,
                     int64_t integer = 0, const void *ref = nullptr);
  static Expr intern_real(ExprContext &context, double value, DType dtype);
  /// Cache of range_of, by node id.
  static bool find_range(const ExprNode *node, Range &range);
  static void keep_range(const ExprNode *node, const Range &range);
};

inline Expr intern(ExprContext &context, ExprKind kind, DType dtype, std::initializer_list<Expr> operands,
                   int64_t integer = 0) {
  return ExprInterner::intern(context, kind, dtype, std::span<const Expr>(operands.begin(), operands.size()), integer);
}

// Integer arithmetic without undefined behaviour.
inline int64_t wrap_add(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
inline int64_t wrap_sub(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
inline int64_t wrap_mul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
/// Rounds towards minus infinity. `b` is not zero.
inline int64_t floor_div_value(int64_t a, int64_t b) {
  if (b == -1)
    return wrap_sub(0, a);
  const int64_t quotient = a / b;
  return (a % b != 0 && ((a < 0) != (b < 0))) ? quotient - 1 : quotient;
}
inline int64_t floor_mod_value(int64_t a, int64_t b) {
  if (b == -1)
    return 0;
  const int64_t rest = a % b;
  return (rest != 0 && ((rest < 0) != (b < 0))) ? rest + b : rest;
}

/// A sum of monomials with coefficients, plus a constant. The canonical form of index sums.
struct Sum {
  struct Term {
    Expr monomial; ///< no constant factor, no sum
    int64_t coefficient;
  };
  std::vector<Term> terms; ///< by id of the monomial
  int64_t constant = 0;
};

/// e * factor added to `sum`; `normalize` must follow. Holds for wrapping arithmetic as well.
void add_to_sum(Expr e, int64_t factor, Sum &sum);
/// Sorts, merges and, for index sums, recombines quotients with their remainders.
void normalize(Sum &sum);
Sum sum_of(Expr e);
/// `sum` is normalised.
Expr build_sum(ExprContext &context, const Sum &sum);
/// The factors of a monomial in canonical order.
void factors_of(Expr monomial, std::vector<Expr> &factors);
/// Product of factors without constants, sorted here.
Expr build_product(ExprContext &context, std::vector<Expr> factors);

// Index rules. Operands are i64 with is_index; the result is simplified.
Expr index_add(Expr a, Expr b, int64_t factor_of_b);
Expr index_mul(Expr a, Expr b);
Expr index_floor_div(Expr a, Expr b);
Expr index_floor_mod(Expr a, Expr b);
/// Proves e >= 0.
bool always_nonnegative(Expr e);

/// Folds operations on constants; empty when `kind` is not folded.
Expr fold_constants(ExprContext &context, ExprKind kind, DType dtype, std::span<const Expr> operands);
/// Real arithmetic that stands for an operation on complex operands or with a complex result.
Expr expand_complex(ExprContext &context, ExprKind kind, DType dtype, std::span<const Expr> operands);

} // namespace oxyfuel
