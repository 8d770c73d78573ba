// Random expressions: what the builders make has the value of what was asked for, building it again changes nothing,
// and its text reads back to the same node.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <complex>
#include <cstring>
#include <random>

#include "ir/expr.h"
#include "ir/expr_parse.h"
#include "ir/loop/loop.h"
#include "ir/scalar.h"

namespace oxyfuel {
namespace {

int64_t floor_div_of(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); }

/// An index expression together with its value at each sample of the variables.
class RandomIndex {
public:
  static constexpr int kSamples = 24;
  using Values = std::array<int64_t, kSamples>;
  struct Pair {
    Expr e;
    Values values;
  };

  explicit RandomIndex(uint32_t seed) : random_(seed) {
    Pair s0 = size("s0"), s1 = size("s1");
    leaves_ = {s0, s1, loop("i", s0), loop("j", s1), loop("k", constant(pick(1, 9))), loop("f", s0 * s1)};
  }

  Pair make(int depth) {
    if (depth == 0)
      return pick(0, 4) == 0 ? constant(pick(-9, 20)) : leaves_[static_cast<size_t>(pick(0, 5))];
    const Pair a = make(depth - 1);
    switch (pick(0, 9)) {
    case 0:
    case 1: return a + make(depth - 1);
    case 2: return apply(a, make(depth - 1), [](auto x, auto y) { return x - y; });
    case 3: return a * constant(pick(1, 8));
    case 4: return depth < 3 ? a * make(depth - 1) : a;
    case 5:
    case 6: return divide(a, constant(pick(1, 12)));
    case 7: return remainder(a, constant(pick(1, 12)));
    case 8:
      return pick(0, 1) != 0 ? divide(a, leaves_[static_cast<size_t>(pick(0, 1))])
                             : remainder(a, leaves_[static_cast<size_t>(pick(0, 1))]);
    default: {
      const Pair b = make(depth - 1);
      return pick(0, 1) != 0 ? apply(
                                   a, b, [](auto x, auto y) { return min(x, y); },
                                   [](int64_t x, int64_t y) { return std::min(x, y); })
                             : apply(
                                   a, b, [](auto x, auto y) { return max(x, y); },
                                   [](int64_t x, int64_t y) { return std::max(x, y); });
    }
    }
  }

  void check(const Pair &pair) {
    for (int s = 0; s < kSamples; ++s) {
      const int64_t value = evaluate(pair.e, [&](const Var *var) { return var_values_[var][static_cast<size_t>(s)]; });
      ASSERT_EQ(value, pair.values[static_cast<size_t>(s)]) << print(pair.e) << "\n" << where(s);
      const Range range = range_of(pair.e);
      ASSERT_TRUE(!range.lower || *range.lower <= value) << print(pair.e);
      ASSERT_TRUE(!range.upper || *range.upper >= value) << print(pair.e);
    }
  }

  void check_order(const Pair &a, const Pair &b) {
    const Expr less = a.e < b.e;
    for (int s = 0; s < kSamples; ++s) {
      const bool expected = a.values[static_cast<size_t>(s)] < b.values[static_cast<size_t>(s)];
      ASSERT_TRUE(!less.is_const() || less.is_const(expected ? 1 : 0)) << print(a.e) << " < " << print(b.e) << where(s);
    }
  }

  std::string where(int s) {
    std::string text;
    for (const auto &[var, values] : var_values_)
      text += var->name + "=" + std::to_string(values[static_cast<size_t>(s)]) + " ";
    return text;
  }

  ExprContext context;
  ExprScope scope() {
    return {[this](std::string_view name) -> const Var * {
              for (const auto &[var, values] : var_values_)
                if (var->name == name)
                  return var;
              return nullptr;
            },
            {}};
  }

private:
  int64_t pick(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }
  Pair constant(int64_t value) {
    Pair pair{context.integer(value), {}};
    pair.values.fill(value);
    return pair;
  }
  Pair size(const std::string &name) {
    Var *var = context.new_var(name, DType::kI64, 1);
    Values &values = var_values_[var];
    for (int64_t &value : values)
      value = pick(1, 12);
    return {context.var(var), values};
  }
  Pair loop(const std::string &name, const Pair &extent) {
    Var *var = context.new_var(name);
    loop::set_loop_range(*var, context.integer(0), extent.e);
    Values &values = var_values_[var];
    for (size_t s = 0; s < kSamples; ++s)
      values[s] = pick(0, extent.values[s] - 1);
    return {context.var(var), values};
  }
  template <class F> Pair apply(const Pair &a, const Pair &b, F f) { return apply(a, b, f, f); }
  template <class F, class G> Pair apply(const Pair &a, const Pair &b, F f, G g) {
    Pair result{f(a.e, b.e), {}};
    for (size_t s = 0; s < kSamples; ++s)
      result.values[s] = g(a.values[s], b.values[s]);
    return result;
  }
  Pair divide(const Pair &a, const Pair &b) {
    return apply(a, b, [](Expr x, Expr y) { return floor_div(x, y); }, floor_div_of);
  }
  Pair remainder(const Pair &a, const Pair &b) {
    return apply(
        a, b, [](Expr x, Expr y) { return floor_mod(x, y); },
        [](int64_t x, int64_t y) { return x - floor_div_of(x, y) * y; });
  }
  friend Pair operator*(const Pair &a, const Pair &b) {
    Pair result{a.e * b.e, {}};
    for (size_t s = 0; s < kSamples; ++s)
      result.values[s] = a.values[s] * b.values[s];
    return result;
  }
  friend Pair operator+(const Pair &a, const Pair &b) {
    Pair result{a.e + b.e, {}};
    for (size_t s = 0; s < kSamples; ++s)
      result.values[s] = a.values[s] + b.values[s];
    return result;
  }

  std::mt19937 random_;
  std::vector<Pair> leaves_;
  std::unordered_map<const Var *, Values> var_values_;
};

TEST(ExprProperties, IndexExpressionsKeepTheirValue) {
  for (uint32_t seed = 0; seed < 4000; ++seed) {
    RandomIndex random(seed);
    const RandomIndex::Pair a = random.make(1 + static_cast<int>(seed % 4)), b = random.make(2);
    ASSERT_NO_FATAL_FAILURE(random.check(a)) << "seed " << seed;
    ASSERT_NO_FATAL_FAILURE(random.check_order(a, b)) << "seed " << seed;
  }
}

TEST(ExprProperties, BuildingAgainAndReadingBackGiveTheSameNode) {
  for (uint32_t seed = 0; seed < 4000; ++seed) {
    RandomIndex random(seed);
    const Expr e = random.make(1 + static_cast<int>(seed % 4)).e;
    const Expr again = import(e, random.context, [&](const Var *var) { return random.context.var(var); }, {});
    ASSERT_EQ(e, again) << print(e) << "\nagain " << print(again) << "\nseed " << seed;
    const Expr read = parse_expr(print(e), random.context, random.scope());
    ASSERT_EQ(e, read) << print(e) << "\nread " << print(read) << "\nseed " << seed;
  }
}

/// Value of an expression without variables and loads, by the interpreters' arithmetic.
Scalar value_of(Expr e) {
  if (e.is_const())
    return scalar_of(e);
  Scalar values[3] = {};
  for (int i = 0; i < e->operand_count; ++i)
    values[i] = value_of(e.operand(i));
  const DType operand = e.kind() == ExprKind::kSelect ? e.dtype() : e.operand(0).dtype();
  return apply(e.kind(), e.dtype(), operand, values, e->operand_count, e->integer);
}

TEST(ComplexNumbers, FunctionsAgreeWithTheStandardLibrary) {
  using C = std::complex<double>;
  struct Case {
    const char *name;
    Expr (*ours)(Expr);
    C (*theirs)(const C &);
  };
  const Case cases[] = {{"exp", exp, std::exp},    {"log", log, std::log},    {"sqrt", sqrt, std::sqrt},
                        {"sin", sin, std::sin},    {"cos", cos, std::cos},    {"tan", tan, std::tan},
                        {"sinh", sinh, std::sinh}, {"cosh", cosh, std::cosh}, {"tanh", tanh, std::tanh}};
  const double inf = INFINITY;
  const double points[] = {-inf, -30.0, -2.5, -1.0, -0.3, -0.0, 0.0, 1e-9, 0.7, 1.0, 3.0, 30.0, inf};
  for (const Case &test : cases)
    for (double re : points)
      for (double im : points) {
        ExprContext context;
        const Expr z = complex(context.real(re, DType::kF64), context.real(im, DType::kF64));
        const Expr result = test.ours(z);
        const C want = test.theirs(C(re, im));
        const double got_re = value_of(real(result)).d, got_im = value_of(imag(result)).d;
        const auto agrees = [](double got, double expected, double scale) {
          if (std::isnan(expected))
            return std::isnan(got);
          if (std::isinf(expected))
            return got == expected;
          return std::fabs(got - expected) <= 1e-14 * scale;
        };
        const double scale = std::max({1.0, std::fabs(want.real()), std::fabs(want.imag())});
        if (std::isinf(re) || std::isinf(im)) { // where C leaves signs open, NaN and infinity have to match at least
          EXPECT_EQ(std::isnan(got_re), std::isnan(want.real())) << test.name << " " << re << " " << im;
          continue;
        }
        EXPECT_TRUE(agrees(got_re, want.real(), scale))
            << test.name << " re " << re << " " << im << ": " << got_re << " " << want;
        EXPECT_TRUE(agrees(got_im, want.imag(), scale))
            << test.name << " im " << re << " " << im << ": " << got_im << " " << want;
        EXPECT_EQ(std::signbit(got_im), std::signbit(want.imag())) << test.name << " im " << re << " " << im;
      }
}

TEST(ComplexNumbers, QuotientsScale) {
  ExprContext context;
  const auto number = [&](double re, double im) {
    return complex(context.real(re, DType::kF64), context.real(im, DType::kF64));
  };
  const Expr q = number(1e300, 1e300) / number(2e300, 1e300);
  EXPECT_NEAR(value_of(real(q)).d, 0.6, 1e-15);
  EXPECT_NEAR(value_of(imag(q)).d, 0.2, 1e-15);
  EXPECT_TRUE(std::isinf(value_of(real(number(1, 1) / number(0, 0))).d));
}

} // namespace
} // namespace oxyfuel
