// Text of expressions, for printers that name variables and buffers themselves. See `print` in expr.h for the form.
//
// A node that is large and used more than once gets an abbreviation, defined before the text that uses it:
//   $0 = exp(%x) + 1:f32
//   %y[%i] = $0 / ($0 + $0)
#pragma once

#include <functional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/expr.h"

namespace oxyfuel {

/// What an ExprPrinter asks of its user. The terms of sums and the factors of products are printed in the order of
/// `order`, so the text does not depend on the order in which variables were made.
struct ExprNames {
  std::function<std::string(const Var *)> var;       ///< without %
  std::function<std::string(const Buffer *)> buffer; ///< without %
  std::function<uint64_t(const Var *)> order;
};

class ExprPrinter {
public:
  explicit ExprPrinter(ExprNames names) : names_(std::move(names)) {}

  /// Chooses abbreviations for the expressions of one statement. Each returned line is a definition `$n = …`, to be
  /// printed before the statement. Abbreviations stay in force for later statements of the same scope until `forget`.
  std::vector<std::string> abbreviate(std::span<const Expr> roots);
  /// Drops the abbreviations; numbers are not reused.
  void forget() { abbreviations_.clear(); }
  std::string text(Expr e);

private:
  struct Piece {
    std::string text;
    int level;
  };
  Piece piece(Expr e);
  Piece body(Expr e);
  Piece sum(Expr e);
  std::string product(Expr monomial, int64_t coefficient);
  std::string at(Expr e, int level);
  std::string constant(Expr e);
  int compare(Expr a, Expr b);
  void order_operands(Expr e, std::vector<Expr> &operands);

  ExprNames names_;
  std::unordered_map<const ExprNode *, std::string> abbreviations_;
  int next_ = 0;
};

/// The word for a kind that is written as a function, empty for the others.
std::string_view function_name(ExprKind kind);
/// Kind of a function's word; false when there is none.
bool find_function(std::string_view name, ExprKind &kind);

} // namespace oxyfuel
