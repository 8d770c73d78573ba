// The scalar expression language that both IRs share: sizes and index maps in Graph IR, values and addresses in Loop
// IR.
//
// An Expr is an immutable node, interned in an ExprContext: equal expressions of one context are the same pointer, so
// equality is pointer equality and common subexpressions exist once. Nodes live as long as their context. A context is
// not thread-safe; every graph and every kernel has one of its own (`import` carries expressions across).
//
// Builders simplify: constants fold (in the arithmetic of their type), integer sums and products of index expressions
// take a canonical form, floor division and modulo use the ranges of variables. Floating point is only folded where the
// result is the same bit for bit (x + 0 is kept: -0 + 0 is +0).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "support/dtype.h"

namespace oxyfuel {

class ExprContext;
class Expr;
struct Buffer;

enum class ExprKind : uint8_t {
  kConst, // value in `integer` (bool, integers) or `real` (floats)
  kVar,   // loop variable, size symbol or let-bound scalar
  kLoad,  // element of `buffer` at operand 0 (flat index in elements, i64); operand 1, if any, is a bool mask: false
          // gives zero without touching memory
  // Arithmetic. Integers wrap. kDiv truncates on integers (divisor non-zero by the program's own guard).
  kAdd,
  kSub,
  kMul,
  kDiv,
  kFloorDiv,
  kFloorMod, // integers, rounding towards minus infinity
  kRem,      // C's % on integers, fmod on floats
  kMin,
  kMax, // integers only; floats spell NaN and zero rules out with kSelect
  kNeg,
  kAbs,
  kSqrt,
  kFloor,
  kCeil,
  kTrunc,
  kRint,    // to nearest, ties to even
  kFma,     // a * b + c, rounded once
  kSelect,  // operand 0 bool
  kCast,    // C++ static_cast semantics with saturation undefined as in eager; to bool: != 0
  kBitcast, // same size
  // Comparisons give bool; kLt and kLe are false on NaN, kNe true.
  kEq,
  kNe,
  kLt,
  kLe,
  kAnd,
  kOr,
  kXor,
  kNot, // bool: logical; integers: bitwise
  kShl,
  kShr, // amount in [0, width) by the program's own guard; kShr is arithmetic on signed types
  // Functions of the vector maths (passes/loop/expand_math.h rewrites them into the above or into kHostCall).
  kExp,
  kExp2,
  kExpm1,
  kLog,
  kLog2,
  kLog10,
  kLog1p,
  kSin,
  kCos,
  kTan,
  kAsin,
  kAcos,
  kAtan,
  kSinh,
  kCosh,
  kTanh,
  kAsinh,
  kAcosh,
  kAtanh,
  kErf,
  kErfc,
  kErfinv,
  kLgamma,
  kDigamma,
  kPow,
  kAtan2,
  kHypot,
  kNextafter,
  kHostCall, // `integer` is a OxyfuelHostFunction (one operand) or OxyfuelHostFunction2 (two); f64 → f64
  // Complex numbers. All other kinds but kLoad, kSelect, kVar, kEq and kNe are expanded by the builders on complex
  // operands.
  kReal,
  kImag,
  kComplex,
};

/// A scalar variable. For integers `lower` <= value < `upper` when set; the ranges drive simplification, so they are
/// set before the variable is used in an expression.
struct Var {
  std::string name; ///< unique within its kernel or graph when printed
  DType dtype = DType::kI64;
  std::optional<int64_t> lower, upper;
  /// An exclusive upper bound that is not a constant, such as the extent of a loop; may be set beside `upper`.
  const struct ExprNode *upper_expr = nullptr;
  /// False for let-bound values that come from wrapping arithmetic or from memory: index rules do not apply to them.
  bool is_index = true;
  /// A likely value of a size symbol, for heuristics only: never a guard.
  int64_t hint = 0;
};

struct ExprNode {
  ExprKind kind;
  DType dtype;
  uint8_t operand_count;
  bool is_index; ///< i64 or bool, built of constants and index variables only: nothing overflows, so index rules apply
  uint32_t id;   ///< order of creation; gives deterministic orders
  ExprContext *context;
  union {
    int64_t integer;
    double real;
  };
  const void *ref; ///< Var or Buffer
  const ExprNode *operands[3];
};

/// Handle of a node. A default-made Expr is empty and tests false; `!e` is the logical negation, so absence is asked
/// for with `is_empty`.
class Expr {
public:
  Expr() = default;
  explicit Expr(const ExprNode *node) : node_(node) {}

  explicit operator bool() const { return node_ != nullptr; }
  bool is_empty() const { return node_ == nullptr; }
  const ExprNode *node() const { return node_; }
  const ExprNode *operator->() const { return node_; }
  ExprKind kind() const { return node_->kind; }
  DType dtype() const { return node_->dtype; }
  Expr operand(int i) const { return Expr(node_->operands[i]); }
  const Var *var() const { return static_cast<const Var *>(node_->ref); }
  const Buffer *buffer() const { return static_cast<const Buffer *>(node_->ref); }
  ExprContext &context() const { return *node_->context; }

  /// A constant of this expression's dtype; floats take any double, complex types get a zero imaginary part.
  Expr like(double value) const;
  bool is_const() const { return node_->kind == ExprKind::kConst; }
  bool is_const(int64_t value) const; ///< an integer or bool constant of that value
  /// The value of an integer constant expression; empty otherwise.
  std::optional<int64_t> constant() const;

  friend bool operator==(Expr a, Expr b) { return a.node_ == b.node_; }

private:
  const ExprNode *node_ = nullptr;
};

/// Owns nodes, variables and buffers.
class ExprContext {
public:
  ExprContext();
  ~ExprContext();
  ExprContext(const ExprContext &) = delete;
  ExprContext &operator=(const ExprContext &) = delete;

  Expr integer(int64_t value, DType dtype = DType::kI64);
  Expr real(double value, DType dtype); ///< rounded to `dtype`
  Expr boolean(bool value);
  /// A constant of any dtype from a double (`Expr::like`).
  Expr constant(double value, DType dtype);
  Expr var(const Var *var);
  Expr load(const Buffer *buffer, Expr index, Expr mask = {});
  /// The general builder: simplifies, expands complex arithmetic, interns. Operand dtypes must agree.
  Expr make(ExprKind kind, DType dtype, std::span<const Expr> operands, int64_t integer = 0);

  Var *new_var(std::string name, DType dtype = DType::kI64, std::optional<int64_t> lower = {},
               std::optional<int64_t> upper = {});
  Buffer *new_buffer(std::string name, DType dtype);
  size_t node_count() const;

private:
  friend struct ExprInterner;
  struct State;
  std::unique_ptr<State> state_;
};

// Arithmetic. Both operands have the same dtype.
Expr operator+(Expr a, Expr b);
Expr operator-(Expr a, Expr b);
Expr operator*(Expr a, Expr b);
Expr operator/(Expr a, Expr b);
Expr operator-(Expr a);
Expr operator<(Expr a, Expr b);
Expr operator<=(Expr a, Expr b);
Expr operator>(Expr a, Expr b);
Expr operator>=(Expr a, Expr b);
Expr operator&&(Expr a, Expr b);
Expr operator||(Expr a, Expr b);
Expr operator!(Expr a); ///< bool only
Expr operator&(Expr a, Expr b);
Expr operator|(Expr a, Expr b);
Expr operator^(Expr a, Expr b);
Expr operator+(Expr a, int64_t b);
Expr operator-(Expr a, int64_t b);
Expr operator*(Expr a, int64_t b);
Expr eq(Expr a, Expr b);
Expr ne(Expr a, Expr b);
Expr floor_div(Expr a, Expr b);
Expr floor_mod(Expr a, Expr b);
Expr floor_div(Expr a, int64_t b);
Expr floor_mod(Expr a, int64_t b);
Expr ceil_div(Expr a, int64_t b);
Expr rem(Expr a, Expr b);
Expr min(Expr a, Expr b); ///< integers
Expr max(Expr a, Expr b); ///< integers
Expr shl(Expr a, Expr b);
Expr shr(Expr a, Expr b);
Expr select(Expr condition, Expr a, Expr b);
Expr cast(Expr a, DType dtype);
Expr bitcast(Expr a, DType dtype);
Expr fma(Expr a, Expr b, Expr c);
Expr is_nan(Expr a);
Expr abs(Expr a);
Expr sqrt(Expr a);
Expr floor(Expr a);
Expr ceil(Expr a);
Expr trunc(Expr a);
Expr rint(Expr a);
Expr exp(Expr a);
Expr exp2(Expr a);
Expr expm1(Expr a);
Expr log(Expr a);
Expr log2(Expr a);
Expr log10(Expr a);
Expr log1p(Expr a);
Expr sin(Expr a);
Expr cos(Expr a);
Expr tan(Expr a);
Expr asin(Expr a);
Expr acos(Expr a);
Expr atan(Expr a);
Expr sinh(Expr a);
Expr cosh(Expr a);
Expr tanh(Expr a);
Expr asinh(Expr a);
Expr acosh(Expr a);
Expr atanh(Expr a);
Expr erf(Expr a);
Expr erfc(Expr a);
Expr erfinv(Expr a);
Expr lgamma(Expr a);
Expr digamma(Expr a);
Expr pow(Expr a, Expr b);
Expr atan2(Expr a, Expr b);
Expr hypot(Expr a, Expr b);
Expr nextafter(Expr a, Expr b);
Expr real(Expr a);
Expr imag(Expr a);
Expr complex(Expr re, Expr im);

/// Range of an integer expression from the ranges of its variables; empty where unbounded or unknown.
struct Range {
  std::optional<int64_t> lower, upper; ///< inclusive
};
Range range_of(Expr e);
/// Proven for all values of the variables.
bool always_less(Expr a, Expr b);
bool always_equal(Expr a, Expr b);

/// Replaces variables; `map` from Var to Expr of the same context.
using Substitution = std::unordered_map<const Var *, Expr>;
Expr substitute(Expr e, const Substitution &map);
/// Rebuilds bottom-up through `f`: f(node with rewritten operands) returns the replacement (or its argument).
Expr rewrite(Expr e, const std::function<Expr(Expr)> &f);
/// Copies into another context; `vars` and `buffers` say what leaves become (missing ones are an InternalError).
Expr import(Expr e, ExprContext &into, const std::function<Expr(const Var *)> &var,
            const std::function<const Buffer *(const Buffer *)> &buffer);

/// How `e` moves with `v`: the constant c with e(v+1) - e(v) == c for all v in range, when there is one.
std::optional<int64_t> stride_in(Expr e, const Var *v);
bool depends_on(Expr e, const Var *v);
void collect_vars(Expr e, std::vector<const Var *> &vars);
void collect_loads(Expr e, std::vector<Expr> &loads);

/// Value with each size symbol at its hint; empty when a variable without hint or a load occurs.
std::optional<int64_t> hint_of(Expr e);
/// Evaluates an integer expression; `value` gives those of variables.
int64_t evaluate(Expr e, const std::function<int64_t(const Var *)> &value);

// Text: infix with minimal parentheses, `%name` for variables, `f32(x)` casts, `%buf[index]` or `%buf[index ? mask]`
// loads, `1.5:f32` constants (i64 ones bare), functions by name: `select(c, a, b)`, `exp(x)`. What print writes parse
// reads.
std::string print(Expr e);

} // namespace oxyfuel
