// Comparisons, logic and choice.
#include "ops/pointwise.h"

namespace oxyfuel {

namespace {

struct Comparison : Pointwise<2> {
  static constexpr DTypeRule dtype = DTypeRule::kBool;
};

struct Eq : Comparison {
  static constexpr std::string_view name = "eq", aten = "aten.eq.Tensor aten.eq.Scalar prims.eq.default",
                                    doc = "a == b";
  static auto body(auto a, auto b) { return eq(a, b); }
};

struct Ne : Comparison {
  static constexpr std::string_view name = "ne", aten = "aten.ne.Tensor aten.ne.Scalar prims.ne.default",
                                    doc = "a != b";
  static auto body(auto a, auto b) { return ne(a, b); }
};

/// Ordering of bool: false before true.
auto less(auto a, auto b) { return is_bool(a.dtype()) ? !a && b : a < b; }
auto less_equal(auto a, auto b) { return is_bool(a.dtype()) ? !a || b : a <= b; }

struct Lt : Comparison {
  static constexpr std::string_view name = "lt", aten = "aten.lt.Tensor aten.lt.Scalar prims.lt.default", doc = "a < b";
  static auto body(auto a, auto b) { return less(a, b); }
};

struct Le : Comparison {
  static constexpr std::string_view name = "le", aten = "aten.le.Tensor aten.le.Scalar prims.le.default",
                                    doc = "a <= b";
  static auto body(auto a, auto b) { return less_equal(a, b); }
};

struct Gt : Comparison {
  static constexpr std::string_view name = "gt", aten = "aten.gt.Tensor aten.gt.Scalar prims.gt.default", doc = "a > b";
  static auto body(auto a, auto b) { return less(b, a); }
};

struct Ge : Comparison {
  static constexpr std::string_view name = "ge", aten = "aten.ge.Tensor aten.ge.Scalar prims.ge.default",
                                    doc = "a >= b";
  static auto body(auto a, auto b) { return less_equal(b, a); }
};

/// Whether a value of any type counts as true; NaN does.
auto truth(auto x) { return is_bool(x.dtype()) ? x : ne(x, x.like(0)); }

struct LogicalAnd : Comparison {
  static constexpr std::string_view name = "logical_and", aten = "aten.logical_and.default", doc = "a != 0 and b != 0";
  static auto body(auto a, auto b) { return truth(a) && truth(b); }
};

struct LogicalOr : Comparison {
  static constexpr std::string_view name = "logical_or", aten = "aten.logical_or.default", doc = "a != 0 or b != 0";
  static auto body(auto a, auto b) { return truth(a) || truth(b); }
};

struct LogicalXor : Comparison {
  static constexpr std::string_view name = "logical_xor", aten = "aten.logical_xor.default",
                                    doc = "exactly one is not 0";
  static auto body(auto a, auto b) { return truth(a) ^ truth(b); }
};

struct LogicalNot : Pointwise<1> {
  static constexpr std::string_view name = "logical_not", aten = "aten.logical_not.default", doc = "x == 0";
  static constexpr DTypeRule dtype = DTypeRule::kBool;
  static auto body(auto x) { return !truth(x); }
};

struct IsNan : Pointwise<1> {
  static constexpr std::string_view name = "isnan", aten = "aten.isnan.default", doc = "x is NaN";
  static constexpr DTypeRule dtype = DTypeRule::kBool;
  static auto body(auto x) { return ne(x, x); }
};

/// |x| is infinite; either part of a complex number.
auto infinite(auto x) {
  if (is_complex(x.dtype())) {
    auto re = abs(real(x)), im = abs(imag(x));
    auto infinity = re.like(__builtin_inf());
    return eq(re, infinity) || eq(im, infinity);
  }
  return is_float(x.dtype()) ? eq(abs(x), x.like(__builtin_inf())) : ne(x, x);
}

struct IsInf : Pointwise<1> {
  static constexpr std::string_view name = "isinf", aten = "aten.isinf.default", doc = "x is infinite";
  static constexpr DTypeRule dtype = DTypeRule::kBool;
  static auto body(auto x) { return infinite(x); }
};

struct IsPosInf : Pointwise<1> {
  static constexpr std::string_view name = "isposinf", aten = "aten.isposinf.default", doc = "x is plus infinity";
  static constexpr DTypeRule dtype = DTypeRule::kBool;
  static auto body(auto x) { return is_float(x.dtype()) ? eq(x, x.like(__builtin_inf())) : ne(x, x); }
};

struct IsNegInf : Pointwise<1> {
  static constexpr std::string_view name = "isneginf", aten = "aten.isneginf.default", doc = "x is minus infinity";
  static constexpr DTypeRule dtype = DTypeRule::kBool;
  static auto body(auto x) { return is_float(x.dtype()) ? eq(x, x.like(-__builtin_inf())) : ne(x, x); }
};

struct IsFinite : Pointwise<1> {
  static constexpr std::string_view name = "isfinite", aten = "aten.isfinite.default prims.isfinite.default",
                                    doc = "neither NaN nor infinite";
  static constexpr DTypeRule dtype = DTypeRule::kBool;
  static auto body(auto x) { return eq(x, x) && !infinite(x); }
};

struct Signbit : Pointwise<1> {
  static constexpr std::string_view name = "signbit", aten = "aten.signbit.default prims.signbit.default",
                                    doc = "the sign is minus, of -0 too";
  static constexpr DTypeRule dtype = DTypeRule::kBool;
  static auto body(auto x) {
    if (is_float(x.dtype())) {
      auto bits = bitcast(x, size_of(x.dtype()) == 8 ? DType::kI64 : DType::kI32);
      return bits < bits.like(0);
    }
    return is_signed_integer(x.dtype()) ? x < x.like(0) : ne(x, x);
  }
};

struct Where : Pointwise<3> {
  static constexpr std::string_view name = "where",
                                    aten = "aten.where.self aten.where.ScalarSelf aten.where.ScalarOther "
                                           "aten.where.Scalar prims.where.default",
                                    doc = "a where the condition holds, else b";
  static constexpr unsigned raw_operands = 1;
  static auto body(auto condition, auto a, auto b) { return select(truth(condition), a, b); }
};

struct Heaviside : Pointwise<2> {
  static constexpr std::string_view name = "heaviside", aten = "aten.heaviside.default",
                                    doc = "b where a is 0, else 1 or 0 by the sign of a";
  static auto body(auto a, auto b) {
    if (is_bool(a.dtype()))
      return a || b;
    return select(eq(a, a.like(0)), b, select(a > a.like(0), a.like(1), a.like(0)));
  }
};

using Table = PointwiseTable<Eq, Ne, Lt, Le, Gt, Ge, LogicalAnd, LogicalOr, LogicalXor, LogicalNot, IsNan, IsInf,
                             IsPosInf, IsNegInf, IsFinite, Signbit, Where, Heaviside>;

} // namespace

OpTable pointwise_compare() { return Table::table(); }

} // namespace oxyfuel
