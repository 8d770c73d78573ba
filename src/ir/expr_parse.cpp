// Precedence climbing over the same levels that the printer uses.
#include "ir/expr_parse.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "ir/expr_internal.h"
#include "ir/expr_text.h"
#include "ir/loop/loop.h"

namespace oxyfuel {

namespace {

using Kind = Lexer::Kind;

struct Operator {
  std::string_view symbol;
  int level;
};
constexpr Operator kOperators[] = {{"||", 0}, {"&&", 1}, {"==", 2}, {"!=", 2}, {"<", 2}, {"<=", 2},
                                   {">", 2},  {">=", 2}, {"|", 3},  {"^", 4},  {"&", 5}, {"<<", 6},
                                   {">>", 6}, {"+", 7},  {"-", 7},  {"*", 8},  {"/", 8}, {"//", 8}};
constexpr int kUnaryLevel = 9;

std::string type_text(Expr e) { return std::string(name_of(e.dtype())); }

} // namespace

Expr ExprParser::binary(int level) {
  if (level == kUnaryLevel)
    return unary();
  Expr left = binary(level + 1);
  for (;;) {
    const Lexer::Token token = lexer_.peek();
    if (token.kind != Kind::kMark)
      return left;
    const Operator *found = nullptr;
    for (const Operator &candidate : kOperators)
      if (candidate.level == level && candidate.symbol == token.text)
        found = &candidate;
    if (found == nullptr)
      return left;
    lexer_.next();
    const Expr right = binary(level + 1);
    left = combine(found->symbol, left, right, token.position);
  }
}

Expr ExprParser::combine(std::string_view symbol, Expr a, Expr b, size_t position) {
  if (a.dtype() != b.dtype())
    lexer_.fail_at(position, "\"" + std::string(symbol) + "\" between " + type_text(a) + " and " + type_text(b));
  const bool is_logical = symbol == "||" || symbol == "&&";
  if (is_logical != is_bool(a.dtype()) && (is_logical || symbol == "|" || symbol == "&"))
    lexer_.fail_at(position, "\"" + std::string(symbol) + "\" on " + type_text(a));
  const bool is_integral = symbol == "|" || symbol == "&" || symbol == "<<" || symbol == ">>" || symbol == "//";
  if (is_integral && !is_integer(a.dtype()))
    lexer_.fail_at(position, "\"" + std::string(symbol) + "\" on " + type_text(a));
  const bool is_arithmetic = symbol == "+" || symbol == "-" || symbol == "*" || symbol == "/";
  if (is_arithmetic && is_bool(a.dtype()))
    lexer_.fail_at(position, "arithmetic on bool");
  const bool is_order = symbol[0] == '<' || symbol[0] == '>';
  if ((is_order && is_complex(a.dtype())) || (symbol == "^" && (is_float(a.dtype()) || is_complex(a.dtype()))))
    lexer_.fail_at(position, "\"" + std::string(symbol) + "\" on " + type_text(a));
  if (symbol == "||")
    return a || b;
  if (symbol == "&&")
    return a && b;
  if (symbol == "==")
    return eq(a, b);
  if (symbol == "!=")
    return ne(a, b);
  if (symbol == "<")
    return a < b;
  if (symbol == "<=")
    return a <= b;
  if (symbol == ">")
    return a > b;
  if (symbol == ">=")
    return a >= b;
  if (symbol == "|")
    return a | b;
  if (symbol == "^")
    return a ^ b;
  if (symbol == "&")
    return a & b;
  if (symbol == "<<")
    return shl(a, b);
  if (symbol == ">>")
    return shr(a, b);
  if (symbol == "+")
    return a + b;
  if (symbol == "-")
    return a - b;
  if (symbol == "*")
    return a * b;
  return symbol == "/" ? a / b : floor_div(a, b);
}

Expr ExprParser::unary() {
  const Lexer::Token token = lexer_.peek();
  if (lexer_.accept("-")) {
    const bool is_literal = lexer_.peek().kind == Kind::kNumber || lexer_.at("inf") || lexer_.at("nan");
    if (is_literal)
      return literal(true);
    const Expr operand = unary();
    if (is_bool(operand.dtype()))
      lexer_.fail_at(token.position, "\"-\" on bool");
    return -operand;
  }
  if (lexer_.accept("!")) {
    const Expr operand = unary();
    if (!is_bool(operand.dtype()))
      lexer_.fail_at(token.position, "\"!\" on " + type_text(operand));
    return !operand;
  }
  if (lexer_.accept("~")) {
    const Expr operand = unary();
    if (!is_integer(operand.dtype()))
      lexer_.fail_at(token.position, "\"~\" on " + type_text(operand));
    return context_.make(ExprKind::kNot, operand.dtype(), std::array{operand});
  }
  return atom();
}

Expr ExprParser::literal(bool is_negative) {
  const Lexer::Token token = lexer_.next();
  DType dtype = DType::kI64;
  const bool has_type = lexer_.accept(":");
  if (has_type)
    dtype = lexer_.dtype();
  if (is_float(dtype)) {
    double value = 0;
    if (token.text == "inf")
      value = std::numeric_limits<double>::infinity();
    else if (token.text == "nan")
      value = std::numeric_limits<double>::quiet_NaN();
    else if (const auto [end, error] = std::from_chars(token.text.begin(), token.text.end(), value);
             error != std::errc() || end != token.text.end())
      lexer_.fail_at(token.position, "\"" + std::string(token.text) + "\" is not a number");
    if (dtype == DType::kF32 && std::isfinite(value)) { // one rounding
      float single = 0;
      std::from_chars(token.text.begin(), token.text.end(), single);
      value = single;
    }
    return context_.real(is_negative ? -value : value, dtype);
  }
  uint64_t magnitude = 0;
  const auto [end, error] = std::from_chars(token.text.begin(), token.text.end(), magnitude);
  if (error != std::errc() || end != token.text.end() || !(is_integer(dtype) || is_bool(dtype)))
    lexer_.fail_at(token.position, "\"" + std::string(token.text) + "\" is not " + std::string(name_of(dtype)) +
                                       (has_type ? "" : ": other types follow a constant as in 1.5:f32"));
  return context_.integer(static_cast<int64_t>(is_negative ? ~magnitude + 1 : magnitude), dtype);
}

Expr ExprParser::atom() {
  const Lexer::Token token = lexer_.peek();
  switch (token.kind) {
  case Kind::kNumber: return literal(false);
  case Kind::kMacro: {
    const auto found = definitions_.find(std::string(token.text));
    if (found == definitions_.end())
      lexer_.fail(std::string(token.text) + " is not defined");
    lexer_.next();
    return found->second;
  }
  case Kind::kVariable: {
    lexer_.next();
    if (lexer_.at("[")) {
      const Buffer *buffer = scope_.buffer ? scope_.buffer(token.text) : nullptr;
      if (buffer == nullptr)
        lexer_.fail_at(token.position, "unknown buffer %" + std::string(token.text));
      return load(buffer);
    }
    const Var *var = scope_.var ? scope_.var(token.text) : nullptr;
    if (var == nullptr)
      lexer_.fail_at(token.position, "unknown variable %" + std::string(token.text));
    return context_.var(var);
  }
  case Kind::kWord:
    if (token.text == "inf" || token.text == "nan")
      return literal(false);
    lexer_.next();
    return named(token);
  default: break;
  }
  if (!lexer_.accept("("))
    lexer_.fail("expected an expression, found " + lexer_.found());
  const Expr inner = parse();
  lexer_.expect(")");
  return inner;
}

Expr ExprParser::named(const Lexer::Token &name) {
  if (name.text == "true" || name.text == "false")
    return context_.boolean(name.text == "true");
  DType dtype;
  ExprKind kind;
  if (parse_dtype(name.text, dtype)) {
    lexer_.expect("(");
    const Expr operand = parse();
    lexer_.expect(")");
    return cast(operand, dtype);
  }
  if (!find_function(name.text, kind))
    lexer_.fail_at(name.position, "unknown function \"" + std::string(name.text) + "\"");
  lexer_.expect("(");
  if (kind == ExprKind::kBitcast) {
    const Expr operand = parse();
    lexer_.expect(",");
    dtype = lexer_.dtype();
    if (size_of(dtype) != size_of(operand.dtype()))
      lexer_.fail_at(name.position, "bitcast of " + type_text(operand) + " to " + std::string(name_of(dtype)) +
                                        ", which has another size");
    lexer_.expect(")");
    return bitcast(operand, dtype);
  }
  return function(kind, name);
}

Expr ExprParser::function(ExprKind kind, const Lexer::Token &name) {
  int64_t host = 0;
  if (kind == ExprKind::kHostCall) {
    host = lexer_.integer();
    lexer_.expect(",");
  }
  std::vector<Expr> operands;
  do
    operands.push_back(parse());
  while (lexer_.accept(","));
  lexer_.expect(")");
  DType dtype = operands.size() > 1 && kind == ExprKind::kSelect ? operands[1].dtype() : operands[0].dtype();
  if (kind == ExprKind::kReal || kind == ExprKind::kImag || kind == ExprKind::kAbs)
    dtype = real_of(dtype);
  else if (kind == ExprKind::kComplex)
    dtype = dtype == DType::kF64 ? DType::kC128 : DType::kC64;
  try {
    return context_.make(kind, dtype, operands, host);
  } catch (const InternalError &error) {
    lexer_.fail_at(name.position, std::string(name.text) + ": " + error.what());
  }
}

Expr ExprParser::load(const Buffer *buffer) {
  lexer_.expect("[");
  const Expr index = parse_index();
  Expr mask;
  if (lexer_.accept("?")) {
    const size_t position = lexer_.peek().position;
    mask = parse();
    if (!is_bool(mask.dtype()))
      lexer_.fail_at(position, "the mask of a load is bool, found " + type_text(mask));
  }
  lexer_.expect("]");
  return context_.load(buffer, index, mask);
}

Expr ExprParser::parse_index() {
  const size_t position = lexer_.peek().position;
  const Expr index = parse();
  if (index.dtype() != DType::kI64)
    lexer_.fail_at(position, "expected an i64 expression, found " + type_text(index));
  return index;
}

bool ExprParser::definition() {
  if (lexer_.peek().kind != Kind::kMacro)
    return false;
  const std::string name(lexer_.next().text);
  lexer_.expect("=");
  definitions_[name] = parse();
  return true;
}

Expr parse_expr(std::string_view text, ExprContext &context, const ExprScope &scope) {
  Lexer lexer(text);
  ExprParser parser(lexer, context, scope);
  // A macro that starts the expression itself is told from a definition by what follows it.
  while (lexer.peek().kind == Kind::kMacro) {
    Lexer ahead = lexer;
    ahead.next();
    if (!ahead.at("="))
      break;
    parser.definition();
    lexer.expect(";");
  }
  const Expr result = parser.parse();
  if (lexer.peek().kind != Kind::kEnd)
    lexer.fail("expected the end of the expression, found " + lexer.found());
  return result;
}

} // namespace oxyfuel
