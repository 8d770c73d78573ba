// The expression language: canonical forms, index rules, what is folded and what must not be.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "ir/expr.h"
#include "ir/loop/loop.h"

namespace oxyfuel {
namespace {

struct ExprTest : ::testing::Test {
  ExprContext context;
  Expr index(const std::string &name, std::optional<int64_t> upper = {}) {
    return context.var(context.new_var(name, DType::kI64, 0, upper));
  }
  Expr size(const std::string &name) { return context.var(context.new_var(name, DType::kI64, 1)); }
  /// A variable in [0, upper).
  Expr below(const std::string &name, Expr upper) {
    Var *var = context.new_var(name, DType::kI64, 0);
    var->upper_expr = upper.node();
    return context.var(var);
  }
  Expr number(int64_t value) { return context.integer(value); }
  Expr f32(const std::string &name) { return context.var(context.new_var(name, DType::kF32)); }
  Expr real(double value, DType dtype = DType::kF32) { return context.real(value, dtype); }
};

TEST_F(ExprTest, EqualExpressionsAreOneNode) {
  const Expr i = index("i"), j = index("j");
  EXPECT_EQ(i * 4 + j, j + i * 4);
  EXPECT_EQ((i + 1) * 4, i * 4 + 4);
  EXPECT_EQ(i + j - i, j);
  EXPECT_EQ((i + j) * (i - j), i * i - j * j);
  EXPECT_TRUE((i - i).is_const(0));
}

TEST_F(ExprTest, PrintsSums) {
  const Expr i = index("i"), n = size("n"), j = index("j");
  EXPECT_EQ(print(n - j), "%n - %j");
  EXPECT_EQ(print(i * n * 4 + j - 3), "%i*%n*4 + %j - 3");
  EXPECT_EQ(print(number(3) - j), "3 - %j");
  EXPECT_EQ(print(-j), "-%j");
  EXPECT_EQ(print(floor_div(i + j, 4) * 3), "(%i + %j) // 4*3");
}

TEST_F(ExprTest, DivisionTakesMultiplesOut) {
  const Expr i = index("i"), j = index("j", 8), k = index("k", 8);
  EXPECT_EQ(floor_div(i * 64 + j * 8 + k, 8), i * 8 + j);
  EXPECT_EQ(floor_mod(i * 64 + j * 8 + k, 64), j * 8 + k);
  EXPECT_EQ(floor_div(i * 64 + j * 8 + k, 64), i);
  EXPECT_EQ(floor_div(i * 8 + j, 16), floor_div(i, 2));
  EXPECT_EQ(floor_mod(i * 8 + j, 16), floor_mod(i, 2) * 8 + j);
  EXPECT_EQ(floor_div(floor_div(i, 4), 8), floor_div(i, 32));
  EXPECT_EQ(floor_div(floor_mod(i, 32), 8), floor_mod(floor_div(i, 8), 4));
  EXPECT_EQ(floor_mod(floor_mod(i, 32), 8), floor_mod(i, 8));
  EXPECT_EQ(floor_mod(i + 13, 4), floor_mod(i + 1, 4));
}

TEST_F(ExprTest, QuotientsAndRemaindersRecombine) {
  const Expr i = index("i"), n = size("n");
  EXPECT_EQ(floor_div(i, 12) * 12 + floor_mod(i, 12), i);
  EXPECT_EQ(floor_div(i, n) * n + floor_mod(i, n), i);
  EXPECT_EQ(floor_div(i, 16) * 16 + floor_mod(floor_div(i, 4), 4) * 4 + floor_mod(i, 4), i);
}

TEST_F(ExprTest, SymbolicShapesFlattenAndSplit) {
  const Expr s0 = size("s0"), s1 = size("s1"), s2 = size("s2");
  const Expr i = below("i", s0), j = below("j", s1), k = below("k", s2);
  const Expr flat = i * s1 * s2 + j * s2 + k;
  EXPECT_EQ(floor_mod(flat, s2), k);
  EXPECT_EQ(floor_div(flat, s2), i * s1 + j);
  EXPECT_EQ(floor_mod(floor_div(flat, s2), s1), j);
  EXPECT_EQ(floor_div(flat, s1 * s2), i);
  EXPECT_EQ(floor_mod(flat, s1 * s2), j * s2 + k);
  EXPECT_TRUE(always_less(flat, s0 * s1 * s2));
  const Expr f = below("f", s0 * s1 * s2);
  const Expr parts = floor_div(f, s1 * s2) * (s1 * s2) + floor_mod(floor_div(f, s2), s1) * s2 + floor_mod(f, s2);
  EXPECT_EQ(parts, f);
  EXPECT_TRUE(always_less(floor_div(f, s1 * s2), s0));
  EXPECT_EQ(floor_mod(floor_div(f, s1 * s2), s0), floor_div(f, s1 * s2));
  const Expr m = below("m", s0 + 1);
  EXPECT_EQ(floor_div(i * (s0 + 1) + m, s0 + 1), i);
  EXPECT_EQ(floor_mod(i * (s0 + 1) + m, s0 + 1), m);
}

TEST_F(ExprTest, ComparisonsFoldWhenProven) {
  const Expr n = size("n"), i = index("i", 8), j = below("j", n);
  EXPECT_TRUE((i < number(8)).is_const(1));
  EXPECT_TRUE((i < number(0)).is_const(0));
  EXPECT_TRUE((j < n).is_const(1));
  EXPECT_TRUE((n <= j).is_const(0));
  EXPECT_FALSE((j < number(8)).is_const());
  EXPECT_EQ(min(i, number(8)), i);
  EXPECT_EQ(max(j, number(0)), j);
  const Expr tile = min(number(16), n - j);
  EXPECT_TRUE(always_less(tile, n - j + 1));
}

TEST_F(ExprTest, FloatsKeepWhatRounds) {
  const Expr x = f32("x");
  const Expr zero = real(0);
  EXPECT_NE(x + zero, x);
  EXPECT_NE(x * zero, zero);
  EXPECT_NE(x - x, zero);
  EXPECT_EQ(x * real(1), x);
  EXPECT_EQ(x + real(-0.0), x);
  EXPECT_EQ(-(-x), x);
  EXPECT_EQ(cast(cast(x, DType::kF64), DType::kF32), x);
  EXPECT_NE(cast(cast(x, DType::kBF16), DType::kF32), x);
  const Expr half = cast(x, DType::kBF16);
  EXPECT_EQ(cast(cast(half, DType::kF32), DType::kBF16), half);
  EXPECT_EQ(real(0.1) + real(0.2), real(static_cast<double>(0.1f + 0.2f)));
  EXPECT_EQ(cast(real(0.1), DType::kF16)->real, 0.0999755859375);
  EXPECT_FALSE(ne(x, x).is_const());
}

TEST_F(ExprTest, IntegersWrapUnlessTheyAreIndices) {
  const Expr v = context.load(context.new_buffer("b", DType::kI32), number(0));
  EXPECT_TRUE((context.integer(INT32_MAX, DType::kI32) + context.integer(1, DType::kI32)).is_const(INT32_MIN));
  EXPECT_NE(floor_div(v * 2, 2), v);
  EXPECT_EQ(v + 1 + 2, v + 3);
}

} // namespace
} // namespace oxyfuel
