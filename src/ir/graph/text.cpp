#include "ir/graph/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <tuple>

#include "ir/expr_text.h"
#include "support/error.h"

namespace oxyfuel::graph {

namespace {

/// Functions for what Loop IR writes infix; the others have the same words in both IRs.
struct Function {
  ExprKind kind;
  std::string_view name;
};
constexpr Function kFunctions[] = {
    {ExprKind::kDiv, "div"}, {ExprKind::kFloorDiv, "floor_div"},
    {ExprKind::kNeg, "neg"}, {ExprKind::kEq, "eq"},
    {ExprKind::kNe, "ne"},   {ExprKind::kLt, "lt"},
    {ExprKind::kLe, "le"},   {ExprKind::kAnd, "and"},
    {ExprKind::kOr, "or"},   {ExprKind::kXor, "xor"},
    {ExprKind::kNot, "not"}, {ExprKind::kShl, "shl"},
    {ExprKind::kShr, "shr"},
};

class SizePrinter {
public:
  explicit SizePrinter(const std::function<std::string(const Var *)> &name) : name_(name) {}

  std::string sum(Expr e) {
    std::vector<Term> terms;
    collect_terms(e, 1, terms);
    std::sort(terms.begin(), terms.end(), [](const Term &a, const Term &b) {
      return std::tie(a.is_constant, a.negative, a.text) < std::tie(b.is_constant, b.negative, b.text);
    });
    std::string text;
    for (const Term &term : terms)
      text += text.empty() ? (term.negative ? "-" : "") + term.text : (term.negative ? " - " : " + ") + term.text;
    return text;
  }

private:
  struct Term {
    bool is_constant, negative;
    std::string text;
  };

  void collect_terms(Expr e, int sign, std::vector<Term> &terms) {
    if (is_integer(e.dtype()) && (e.kind() == ExprKind::kAdd || e.kind() == ExprKind::kSub)) {
      collect_terms(e.operand(0), sign, terms);
      collect_terms(e.operand(1), e.kind() == ExprKind::kSub ? -sign : sign, terms);
      return;
    }
    bool negative = sign < 0;
    std::string text = product(e);
    if (text[0] == '-') {
      negative = !negative;
      text.erase(0, 1);
    }
    terms.push_back({e.is_const(), negative, text});
  }

  // A product with a negative constant starts with '-'.
  std::string product(Expr e) {
    if (!is_integer(e.dtype()) || e.kind() != ExprKind::kMul)
      return primary(e);
    std::vector<std::string> factors;
    std::string constant;
    collect_factors(e, factors, constant);
    std::sort(factors.begin(), factors.end());
    std::string text;
    for (const std::string &factor : factors)
      text += (text.empty() ? "" : " * ") + factor;
    if (constant.empty())
      return text;
    bool negative = constant[0] == '-';
    if (negative)
      constant.erase(0, 1);
    return (negative ? "-" : "") + text + (constant == "1" ? "" : " * " + constant);
  }

  void collect_factors(Expr e, std::vector<std::string> &factors, std::string &constant) {
    if (e.kind() == ExprKind::kMul) {
      collect_factors(e.operand(0), factors, constant);
      collect_factors(e.operand(1), factors, constant);
    } else if (e.is_const() && constant.empty()) {
      constant = primary(e);
    } else {
      bool is_sum = e.kind() == ExprKind::kAdd || e.kind() == ExprKind::kSub;
      factors.push_back(is_sum ? "(" + sum(e) + ")" : primary(e));
    }
  }

  std::string primary(Expr e) {
    if (e.kind() == ExprKind::kVar)
      return name_(e.var());
    if (e.kind() == ExprKind::kConst) {
      if (is_bool(e.dtype()))
        return e->integer ? "true" : "false";
      std::string text = is_float(e.dtype()) ? print_real(e->real) : std::to_string(e->integer);
      return e.dtype() == DType::kI64 ? text : text + ":" + std::string(name_of(e.dtype()));
    }
    if (e.kind() == ExprKind::kCast)
      return std::string(name_of(e.dtype())) + "(" + sum(e.operand(0)) + ")";
    if (e.kind() == ExprKind::kAdd || e.kind() == ExprKind::kSub || e.kind() == ExprKind::kMul) {
      const char *sign = e.kind() == ExprKind::kAdd ? " + " : e.kind() == ExprKind::kSub ? " - " : " * ";
      return "(" + sum(e.operand(0)) + sign + sum(e.operand(1)) + ")"; // of floats: no reordering
    }
    std::string_view name = size_function_name(e.kind());
    OXYFUEL_CHECK(!name.empty(), "a size of Graph IR holds an expression that has no text there: " + print(e));
    std::string text;
    for (int i = 0; i < e->operand_count; ++i)
      text += (i ? ", " : "") + sum(e.operand(i));
    return std::string(name) + "(" + text + ")";
  }

  const std::function<std::string(const Var *)> &name_;
};

} // namespace

std::string_view size_function_name(ExprKind kind) {
  for (const Function &function : kFunctions)
    if (function.kind == kind)
      return function.name;
  return function_name(kind);
}

bool find_size_function(std::string_view name, ExprKind &kind) {
  for (const Function &function : kFunctions)
    if (function.name == name) {
      kind = function.kind;
      return true;
    }
  return find_function(name, kind);
}

std::string print_size(Expr e, const std::function<std::string(const Var *)> &name_of_symbol) {
  return SizePrinter(name_of_symbol).sum(e);
}

std::string print_real(double value) {
  if (std::isnan(value))
    return "nan";
  char buffer[40];
  std::string text(buffer, std::to_chars(buffer, buffer + sizeof(buffer), value).ptr);
  if (text.find_first_of(".einf") == std::string::npos)
    text += ".0";
  return text;
}

std::string quote(const std::string &text) {
  std::string result = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\')
      result += '\\';
    if (c == '\n')
      result += "\\n";
    else if (c == '\t')
      result += "\\t";
    else
      result += c;
  }
  return result + "\"";
}

} // namespace oxyfuel::graph
