// Reads the text of expressions (expr.h says the form), and the tokens that kernels' text is made of. Expressions are
// built by the ordinary builders, so text that is not simplified becomes simple.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "ir/expr.h"

namespace oxyfuel {

/// Tokens of IR text. Comments run from `#` to the end of the line. All errors are CompileErrors with line and column.
class Lexer {
public:
  enum class Kind : uint8_t {
    kEnd,
    kWord,     ///< a name or keyword
    kVariable, ///< %name; `text` is without the %
    kSymbol,   ///< @name; without the @
    kMacro,    ///< $0; with the $
    kNumber,   ///< digits with fraction and exponent; no sign
    kMark,     ///< punctuation, the longest that fits
  };
  struct Token {
    Kind kind = Kind::kEnd;
    std::string_view text;
    size_t position = 0;
  };

  explicit Lexer(std::string_view text);
  const Token &peek() const { return token_; }
  Token next();
  bool at(std::string_view mark_or_word) const;
  /// Takes the mark or word when it comes next.
  bool accept(std::string_view mark_or_word);
  void expect(std::string_view mark_or_word);
  Token expect(Kind kind, const char *what);
  /// A signed integer, `inf` and `-inf` give the ends of the range when `allow_infinite`.
  int64_t integer(bool allow_infinite = false);
  DType dtype();
  [[noreturn]] void fail(const std::string &message) const { fail_at(token_.position, message); }
  [[noreturn]] void fail_at(size_t position, const std::string &message) const;
  /// What comes next, for messages.
  std::string found() const;
  /// No white space between the previous token and the next.
  bool is_adjacent() const { return token_.position == end_of_last_; }

private:
  void scan();
  std::string_view text_;
  size_t position_ = 0, end_of_last_ = 0;
  Token token_;
};

/// What an expression's names mean; null for an unknown one.
struct ExprScope {
  std::function<const Var *(std::string_view)> var;
  std::function<const Buffer *(std::string_view)> buffer;
};

class ExprParser {
public:
  ExprParser(Lexer &lexer, ExprContext &context, ExprScope scope)
      : lexer_(lexer), context_(context), scope_(std::move(scope)) {}

  Expr parse() { return binary(0); }
  /// Parses an expression that must be an i64.
  Expr parse_index();
  /// A line `$n = expression`, when one comes next.
  bool definition();

private:
  Expr binary(int level);
  Expr combine(std::string_view symbol, Expr a, Expr b, size_t position);
  Expr unary();
  Expr atom();
  Expr literal(bool is_negative);
  Expr named(const Lexer::Token &name);
  Expr function(ExprKind kind, const Lexer::Token &name);
  Expr load(const Buffer *buffer);

  Lexer &lexer_;
  ExprContext &context_;
  ExprScope scope_;
  std::unordered_map<std::string, Expr> definitions_;
};

/// Parses what `print(Expr)` wrote: definitions `$n = …;`, then the expression.
Expr parse_expr(std::string_view text, ExprContext &context, const ExprScope &scope);

} // namespace oxyfuel
