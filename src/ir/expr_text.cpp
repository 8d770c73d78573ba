#include "ir/expr_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "ir/expr_internal.h"
#include "ir/loop/loop.h"

namespace oxyfuel {

namespace {

// Binding strength, loosest first.
enum Level : int {
  kOrLevel,
  kAndLevel,
  kCompare,
  kBitOr,
  kBitXor,
  kBitAnd,
  kShift,
  kSumLevel,
  kProduct,
  kUnary,
  kAtom
};

struct Infix {
  ExprKind kind;
  const char *symbol;
  int level;
};
constexpr Infix kInfix[] = {
    {ExprKind::kEq, "==", kCompare},  {ExprKind::kNe, "!=", kCompare},       {ExprKind::kLt, "<", kCompare},
    {ExprKind::kLe, "<=", kCompare},  {ExprKind::kOr, "|", kBitOr},          {ExprKind::kXor, "^", kBitXor},
    {ExprKind::kAnd, "&", kBitAnd},   {ExprKind::kShl, "<<", kShift},        {ExprKind::kShr, ">>", kShift},
    {ExprKind::kAdd, "+", kSumLevel}, {ExprKind::kSub, "-", kSumLevel},      {ExprKind::kMul, "*", kProduct},
    {ExprKind::kDiv, "/", kProduct},  {ExprKind::kFloorDiv, "//", kProduct},
};

struct Named {
  ExprKind kind;
  const char *name;
};
constexpr Named kNamed[] = {
    {ExprKind::kFloorMod, "mod"},    {ExprKind::kRem, "rem"},
    {ExprKind::kMin, "min"},         {ExprKind::kMax, "max"},
    {ExprKind::kAbs, "abs"},         {ExprKind::kSqrt, "sqrt"},
    {ExprKind::kFloor, "floor"},     {ExprKind::kCeil, "ceil"},
    {ExprKind::kTrunc, "trunc"},     {ExprKind::kRint, "rint"},
    {ExprKind::kFma, "fma"},         {ExprKind::kSelect, "select"},
    {ExprKind::kExp, "exp"},         {ExprKind::kExp2, "exp2"},
    {ExprKind::kExpm1, "expm1"},     {ExprKind::kLog, "log"},
    {ExprKind::kLog2, "log2"},       {ExprKind::kLog10, "log10"},
    {ExprKind::kLog1p, "log1p"},     {ExprKind::kSin, "sin"},
    {ExprKind::kCos, "cos"},         {ExprKind::kTan, "tan"},
    {ExprKind::kAsin, "asin"},       {ExprKind::kAcos, "acos"},
    {ExprKind::kAtan, "atan"},       {ExprKind::kSinh, "sinh"},
    {ExprKind::kCosh, "cosh"},       {ExprKind::kTanh, "tanh"},
    {ExprKind::kAsinh, "asinh"},     {ExprKind::kAcosh, "acosh"},
    {ExprKind::kAtanh, "atanh"},     {ExprKind::kErf, "erf"},
    {ExprKind::kErfc, "erfc"},       {ExprKind::kErfinv, "erfinv"},
    {ExprKind::kLgamma, "lgamma"},   {ExprKind::kDigamma, "digamma"},
    {ExprKind::kPow, "pow"},         {ExprKind::kAtan2, "atan2"},
    {ExprKind::kHypot, "hypot"},     {ExprKind::kNextafter, "nextafter"},
    {ExprKind::kReal, "real"},       {ExprKind::kImag, "imag"},
    {ExprKind::kComplex, "complex"}, {ExprKind::kBitcast, "bitcast"},
    {ExprKind::kHostCall, "host"},
};

std::string real_text(double value, DType dtype) {
  if (std::isnan(value))
    return "nan";
  if (std::isinf(value))
    return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto end = dtype == DType::kF64 ? std::to_chars(buffer, buffer + sizeof(buffer), value)
                                        : std::to_chars(buffer, buffer + sizeof(buffer), static_cast<float>(value));
  return std::string(buffer, end.ptr);
}

/// Nodes in the tree that `node` prints as, up to `limit`; an index counts as one.
int tree_size(const ExprNode *node, int limit) {
  int size = 1;
  if (node->is_index)
    return size;
  for (int i = 0; i < node->operand_count && size < limit; ++i)
    size += tree_size(node->operands[i], limit - size);
  return size;
}

/// Trees smaller than this are printed again where they are used.
constexpr int kSmallTree = 6;

} // namespace

std::string_view function_name(ExprKind kind) {
  for (const Named &entry : kNamed)
    if (entry.kind == kind)
      return entry.name;
  return {};
}

bool find_function(std::string_view name, ExprKind &kind) {
  for (const Named &entry : kNamed)
    if (entry.name == name) {
      kind = entry.kind;
      return true;
    }
  return false;
}

std::vector<std::string> ExprPrinter::abbreviate(std::span<const Expr> roots) {
  std::unordered_map<const ExprNode *, int> uses;
  std::vector<const ExprNode *> order; // operands first
  const std::function<void(const ExprNode *)> count = [&](const ExprNode *node) {
    if (++uses[node] > 1)
      return;
    std::vector<Expr> operands;
    order_operands(Expr(node), operands);
    for (Expr operand : operands)
      count(operand.node());
    order.push_back(node);
  };
  for (Expr root : roots)
    if (root)
      count(root.node());
  std::vector<std::string> lines;
  for (const ExprNode *node : order) {
    if (uses[node] < 2 || node->is_index || abbreviations_.count(node) != 0 || tree_size(node, kSmallTree) < kSmallTree)
      continue;
    std::string name = "$" + std::to_string(next_++);
    lines.push_back(name + " = " + text(Expr(node)));
    abbreviations_.emplace(node, std::move(name));
  }
  return lines;
}

void ExprPrinter::order_operands(Expr e, std::vector<Expr> &operands) {
  for (int i = 0; i < e->operand_count; ++i)
    operands.push_back(e.operand(i));
}

std::string ExprPrinter::text(Expr e) { return piece(e).text; }

std::string ExprPrinter::at(Expr e, int level) {
  Piece inner = piece(e);
  return inner.level >= level ? std::move(inner.text) : "(" + inner.text + ")";
}

std::string ExprPrinter::constant(Expr e) {
  if (is_bool(e.dtype()))
    return e->integer != 0 ? "true" : "false";
  const std::string suffix = ":" + std::string(name_of(e.dtype()));
  if (is_float(e.dtype()))
    return real_text(e->real, e.dtype()) + suffix;
  if (e.dtype() == DType::kU64)
    return std::to_string(static_cast<uint64_t>(e->integer)) + suffix;
  return std::to_string(e->integer) + (e.dtype() == DType::kI64 ? "" : suffix);
}

ExprPrinter::Piece ExprPrinter::piece(Expr e) {
  if (const auto found = abbreviations_.find(e.node()); found != abbreviations_.end())
    return {found->second, kAtom};
  return body(e);
}

ExprPrinter::Piece ExprPrinter::body(Expr e) {
  const ExprKind kind = e.kind();
  switch (kind) {
  case ExprKind::kConst: return {constant(e), kAtom};
  case ExprKind::kVar: return {"%" + names_.var(e.var()), kAtom};
  case ExprKind::kLoad: {
    std::string inside = text(e.operand(0));
    if (e->operand_count > 1)
      inside += " ? " + text(e.operand(1));
    return {"%" + names_.buffer(e.buffer()) + "[" + inside + "]", kAtom};
  }
  case ExprKind::kCast: return {std::string(name_of(e.dtype())) + "(" + text(e.operand(0)) + ")", kAtom};
  case ExprKind::kBitcast:
    return {"bitcast(" + text(e.operand(0)) + ", " + std::string(name_of(e.dtype())) + ")", kAtom};
  case ExprKind::kNeg: {
    const std::string operand = at(e.operand(0), kUnary);
    const bool is_number = operand[0] == '-' || std::isdigit(static_cast<unsigned char>(operand[0])) != 0;
    return {is_number ? "-(" + operand + ")" : "-" + operand, kUnary};
  }
  case ExprKind::kNot: return {(is_bool(e.dtype()) ? "!" : "~") + at(e.operand(0), kUnary), kUnary};
  default: break;
  }
  if (e.dtype() == DType::kI64 && e->is_index && (kind == ExprKind::kAdd || kind == ExprKind::kMul))
    return sum(e);
  if (is_bool(e.dtype()) && kind == ExprKind::kAnd)
    return {at(e.operand(0), kAndLevel) + " && " + at(e.operand(1), kAndLevel + 1), kAndLevel};
  if (is_bool(e.dtype()) && kind == ExprKind::kOr)
    return {at(e.operand(0), kOrLevel) + " || " + at(e.operand(1), kOrLevel + 1), kOrLevel};
  for (const Infix &infix : kInfix)
    if (infix.kind == kind) {
      const int left = infix.level == kCompare ? kCompare + 1 : infix.level;
      std::string separator =
          infix.level == kProduct && kind == ExprKind::kMul ? "*" : " " + std::string(infix.symbol) + " ";
      return {at(e.operand(0), left) + separator + at(e.operand(1), infix.level + 1), infix.level};
    }
  std::string result(function_name(kind));
  OXYFUEL_CHECK(!result.empty(), "an expression kind without text");
  result += "(";
  if (kind == ExprKind::kHostCall)
    result += std::to_string(e->integer) + ", ";
  for (int i = 0; i < e->operand_count; ++i)
    result += (i != 0 ? ", " : "") + text(e.operand(i));
  return {result + ")", kAtom};
}

/// Structural order: leaves before compound ones, then by the names' order and the operands.
int ExprPrinter::compare(Expr a, Expr b) {
  if (a == b)
    return 0;
  if (a.kind() != b.kind()) {
    const auto rank = [](Expr e) { return e.kind() == ExprKind::kMul ? -1 : static_cast<int>(e.kind()); };
    return rank(a) < rank(b) ? -1 : 1;
  }
  if (a.kind() == ExprKind::kVar)
    return names_.order(a.var()) < names_.order(b.var()) ? -1 : 1;
  if (a.is_const())
    return a->integer < b->integer ? -1 : 1;
  std::vector<Expr> x{a.operand(0)}, y{b.operand(0)};
  const auto parts = [&](Expr e, std::vector<Expr> &out) {
    out.clear();
    if (e.kind() == ExprKind::kMul && !e.operand(1).is_const())
      factors_of(e, out);
    else if (e.kind() == ExprKind::kAdd)
      for (const Sum::Term &term : sum_of(e).terms)
        out.push_back(term.monomial);
    else
      order_operands(e, out);
    if (e.kind() == ExprKind::kAdd || e.kind() == ExprKind::kMul)
      std::sort(out.begin(), out.end(), [&](Expr p, Expr q) { return compare(p, q) < 0; });
  };
  parts(a, x);
  parts(b, y);
  if (a.kind() == ExprKind::kMul && x.size() != y.size()) // higher degree first
    return x.size() > y.size() ? -1 : 1;
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i)
    if (const int order = compare(x[i], y[i]); order != 0)
      return order;
  if (x.size() != y.size())
    return x.size() < y.size() ? -1 : 1;
  if (a.kind() == ExprKind::kAdd) { // the same monomials with other coefficients
    const Sum sa = sum_of(a), sb = sum_of(b);
    for (size_t i = 0; i < x.size(); ++i) {
      const auto coefficient = [&](const Sum &sum, Expr monomial) {
        for (const Sum::Term &term : sum.terms)
          if (term.monomial == monomial)
            return term.coefficient;
        return int64_t{0};
      };
      const int64_t ca = coefficient(sa, x[i]), cb = coefficient(sb, y[i]);
      if (ca != cb)
        return ca < cb ? -1 : 1;
    }
    return sa.constant < sb.constant ? -1 : 1;
  }
  return a->integer < b->integer ? -1 : 1;
}

std::string ExprPrinter::product(Expr monomial, int64_t coefficient) {
  std::vector<Expr> factors;
  factors_of(monomial, factors);
  std::sort(factors.begin(), factors.end(), [&](Expr a, Expr b) { return compare(a, b) < 0; });
  std::string result;
  for (Expr factor : factors)
    result += (result.empty() ? "" : "*") + at(factor, result.empty() ? kProduct : kProduct + 1);
  if (coefficient != 1)
    result += "*" + std::to_string(coefficient);
  return result;
}

/// Terms that are added first, then those that are subtracted, so that `n - i` reads as such.
ExprPrinter::Piece ExprPrinter::sum(Expr e) {
  Sum sum = sum_of(e);
  std::sort(sum.terms.begin(), sum.terms.end(), [&](const Sum::Term &a, const Sum::Term &b) {
    if ((a.coefficient < 0) != (b.coefficient < 0))
      return b.coefficient < 0;
    return compare(a.monomial, b.monomial) < 0;
  });
  const bool constant_first = sum.constant > 0 && !sum.terms.empty() && sum.terms[0].coefficient < 0;
  if (sum.terms.size() == 1 && sum.constant == 0) {
    const Sum::Term term = sum.terms[0];
    if (term.coefficient == -1)
      return {"-" + at(term.monomial, kUnary), kUnary};
    return {product(term.monomial, term.coefficient), kProduct};
  }
  std::string result = constant_first ? std::to_string(sum.constant) : "";
  for (const Sum::Term &term : sum.terms) {
    const bool is_negative = term.coefficient < 0 && term.coefficient != INT64_MIN && !result.empty();
    if (!result.empty())
      result += is_negative ? " - " : " + ";
    if (term.coefficient == -1 && !is_negative)
      result += "-" + at(term.monomial, kUnary);
    else
      result += product(term.monomial, is_negative ? -term.coefficient : term.coefficient);
  }
  if (sum.constant != 0 && !constant_first)
    result += sum.constant < 0 && sum.constant != INT64_MIN ? " - " + std::to_string(-sum.constant)
                                                            : " + " + std::to_string(sum.constant);
  return {result, kSumLevel};
}

std::string print(Expr e) {
  if (e.is_empty())
    return "<empty>";
  ExprPrinter printer({[](const Var *var) { return var->name; }, [](const Buffer *buffer) { return buffer->name; },
                       [&](const Var *var) { return static_cast<uint64_t>(e.context().var(var)->id); }});
  std::string result;
  for (const std::string &line : printer.abbreviate(std::span<const Expr>(&e, 1)))
    result += line + "; ";
  return result + printer.text(e);
}

} // namespace oxyfuel
