// The vector maths against the C library in double. By default every 4099th float32 is tried; OXYFUEL_MATH_STEP=1 tries
// all and OXYFUEL_MATH_REPORT=1 prints the table of passes/loop/expand_math.h.
#include <gtest/gtest.h>

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <random>

#include "passes/loop/expand_math.h"
#include "tests/unit/expr_block.h"

namespace oxyfuel {
namespace {

using testing::BlockEvaluator;
using testing::kLanes;

float from_bits(uint32_t bits) { return std::bit_cast<float>(bits); }

/// Distance of `got` from the exact `want` in float32 units in the last place; infinite when only one is NaN or
/// infinite.
double ulps(float got, double want) {
  const float nearest = static_cast<float>(want);
  if (std::isnan(got) || std::isnan(nearest))
    return std::isnan(got) == std::isnan(nearest) ? 0 : INFINITY;
  if (got == nearest)
    return std::isinf(got) || want == 0 ? 0
                                        : std::abs(got - want) / std::ldexp(1.0, std::max(std::ilogb(want), -126) - 23);
  // Overflow: the largest float is next to infinity.
  const double high = std::isinf(got) ? std::copysign(0x1p128, got) : got;
  const double exact = std::abs(want) > 0x1p128 ? std::copysign(0x1p128, want) : want;
  const int exponent = exact == 0 ? -126 : std::max(std::ilogb(std::min(std::abs(exact), 0x1.fffffep127)), -126);
  return std::abs(high - exact) / std::ldexp(1.0, exponent - 23);
}

struct Function {
  const char *name;
  Expr (*build)(Expr);
  double (*reference)(double);
  double limit; ///< allowed error in units in the last place
};

double digamma_reference(double x) {
  if (x == 0)
    return std::copysign(INFINITY, -x);
  if (x < 0 && x == std::floor(x))
    return NAN;
  if (x < 0) // the cotangent has period 1
    return digamma_reference(1 - x) - M_PI / std::tan(M_PI * (x - std::nearbyint(x)));
  long double sum = 0, w = x;
  for (; w < 40; w += 1)
    sum -= 1 / w;
  const long double s = 1 / (w * w);
  return std::isinf(x)
             ? x
             : double(sum + std::log(w) - 0.5L / w - s * (1 / 12.0L - s * (1 / 120.0L - s * (1 / 252.0L - s / 240))));
}

double erfinv_reference(double x) {
  if (std::abs(x) >= 1 || std::isnan(x))
    return std::abs(x) == 1 ? std::copysign(INFINITY, x) : NAN;
  const double a = std::abs(x), w = -std::log1p(-a * a);
  if (a < 1e-10)
    return x * (std::sqrt(M_PI) / 2);
  double y = std::sqrt(std::sqrt(std::pow(4.3307 + w / -2, 2) + w / 0.147) - (4.3307 + w / -2)); // Winitzki's start
  for (int i = 0; i < 5; ++i) {
    const double residual = a < 0.5 ? std::erf(y) - a : (1 - a) - std::erfc(y);
    const double step = residual / (2 / std::sqrt(M_PI) * std::exp(-y * y));
    y -= step / (1 + y * step); // Halley
  }
  return std::copysign(y, x);
}

const Function kFunctions[] = {
    {"exp", exp, std::exp, 2},          {"exp2", exp2, std::exp2, 2},
    {"expm1", expm1, std::expm1, 2},    {"log", log, std::log, 2},
    {"log2", log2, std::log2, 2},       {"log10", log10, std::log10, 2},
    {"log1p", log1p, std::log1p, 2},    {"sin", sin, std::sin, 2},
    {"cos", cos, std::cos, 2},          {"tan", tan, std::tan, 1},
    {"asin", asin, std::asin, 2},       {"acos", acos, std::acos, 2},
    {"atan", atan, std::atan, 2},       {"sinh", sinh, std::sinh, 1},
    {"cosh", cosh, std::cosh, 1},       {"tanh", tanh, std::tanh, 2},
    {"asinh", asinh, std::asinh, 1},    {"acosh", acosh, std::acosh, 1},
    {"atanh", atanh, std::atanh, 1},    {"erf", erf, std::erf, 2},
    {"erfc", erfc, std::erfc, 1},       {"erfinv", erfinv, erfinv_reference, 1},
    {"lgamma", lgamma, std::lgamma, 1},
};

class Unary : public ::testing::TestWithParam<Function> {
protected:
  ExprContext context_;
  Var *x_ = context_.new_var("x", DType::kF32);
};

TEST_P(Unary, IsCloseOverAllFloats) {
  const Function &f = GetParam();
  BlockEvaluator evaluator(expand_math(f.build(context_.var(x_))), {x_});
  const char *asked = std::getenv("OXYFUEL_MATH_STEP");
  const uint64_t step = asked ? std::strtoull(asked, nullptr, 10) : 4099;
  float in[kLanes], out[kLanes];
  double worst = 0, sum = 0;
  float worst_at = 0;
  uint64_t count = 0;
  for (uint64_t start = 0; start < 1ull << 32; start += step * kLanes) {
    for (int i = 0; i < kLanes; ++i)
      in[i] = from_bits(static_cast<uint32_t>(std::min<uint64_t>(start + step * i, UINT32_MAX)));
    evaluator.run({in}, out);
    for (int i = 0; i < kLanes; ++i) {
      const double want = f.reference(in[i]), error = ulps(out[i], want);
      ASSERT_TRUE(std::signbit(out[i]) == std::signbit(want) || std::isnan(want) || out[i] != 0)
          << f.name << "(" << in[i] << ") = " << out[i] << ": sign of zero";
      sum += error;
      ++count;
      if (!(error <= worst)) {
        worst = error;
        worst_at = in[i];
        in[0] = in[i];
      }
    }
  }
  if (std::getenv("OXYFUEL_MATH_REPORT"))
    std::printf("//   %-8s %5.2f   %3d operations   (at %a)\n", f.name, worst, evaluator.operations(), worst_at);
  EXPECT_LE(worst, f.limit) << f.name << " at " << worst_at << " " << std::hexfloat << worst_at;
}

TEST_P(Unary, SpecialValues) {
  const Function &f = GetParam();
  BlockEvaluator evaluator(expand_math(f.build(context_.var(x_))), {x_});
  const float specials[] = {0.0f,
                            -0.0f,
                            INFINITY,
                            -INFINITY,
                            NAN,
                            -NAN,
                            1.0f,
                            -1.0f,
                            0x1p-149f,
                            -0x1p-149f,
                            0x1p-126f,
                            -0x1.fffffcp-127f,
                            0x1.fffffep127f,
                            -0x1.fffffep127f,
                            2.0f,
                            0.5f,
                            -0.5f,
                            from_bits(0x7f812345)};
  float in[kLanes] = {}, out[kLanes];
  std::copy(std::begin(specials), std::end(specials), in);
  evaluator.run({in}, out);
  for (size_t i = 0; i < std::size(specials); ++i) {
    const double want = f.reference(in[i]);
    EXPECT_LE(ulps(out[i], want), f.limit) << f.name << "(" << in[i] << ") = " << out[i] << ", not " << want;
    if (want == 0 && !std::isnan(in[i])) {
      EXPECT_EQ(std::signbit(out[i]), std::signbit(want)) << f.name << "(" << in[i] << ")";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Float32, Unary, ::testing::ValuesIn(kFunctions),
                         [](const auto &info) { return info.param.name; });

struct Binary {
  const char *name;
  Expr (*build)(Expr, Expr);
  double (*reference)(double, double);
  double limit;
};

void check_binary(const Binary &f, const std::vector<float> &xs, const std::vector<float> &ys) {
  ExprContext context;
  Var *x = context.new_var("x", DType::kF32), *y = context.new_var("y", DType::kF32);
  BlockEvaluator evaluator(expand_math(f.build(context.var(x), context.var(y))), {x, y});
  double worst = 0;
  float at[2] = {};
  for (size_t start = 0; start < xs.size(); start += kLanes) {
    float a[kLanes] = {}, b[kLanes] = {}, out[kLanes];
    const size_t count = std::min<size_t>(kLanes, xs.size() - start);
    std::copy_n(&xs[start], count, a);
    std::copy_n(&ys[start], count, b);
    evaluator.run({a, b}, out);
    for (size_t i = 0; i < count; ++i) {
      const double want = f.reference(a[i], b[i]), error = ulps(out[i], want);
      if (!(error <= worst)) {
        worst = error;
        at[0] = a[i];
        at[1] = b[i];
      }
      if (want == 0) {
        EXPECT_EQ(std::signbit(out[i]), std::signbit(want)) << f.name << "(" << a[i] << ", " << b[i] << ")";
      }
    }
  }
  if (std::getenv("OXYFUEL_MATH_REPORT"))
    std::printf("//   %-8s %5.2f   %3d operations   (at %a, %a)\n", f.name, worst, evaluator.operations(), at[0],
                at[1]);
  EXPECT_LE(worst, f.limit) << f.name << "(" << at[0] << ", " << at[1] << ")";
}

double nextafter_reference(double x, double y) { return std::nextafterf(static_cast<float>(x), static_cast<float>(y)); }

const Binary kBinaries[] = {{"pow", pow, std::pow, 1},
                            {"atan2", atan2, std::atan2, 2},
                            {"hypot", hypot, std::hypot, 1},
                            {"nextafter", nextafter, nextafter_reference, 0}};

TEST(Binaries, AllPairsOfSpecialValues) {
  std::vector<float> values = {
      0,        1,           2,           3,          0.5f,  0.25f,      1.5f,       2.5f,      5,
      1e10f,    16777216.0f, 16777215.0f, 8388609.0f, 3e38f, 1e-30f,     0x1p-126f,  0x1p-149f, 0x1.fffffep127f,
      INFINITY, 127,         128,         149,        150,   0.9999999f, 1.0000001f, NAN};
  for (size_t i = values.size(); i-- > 0;)
    values.push_back(-values[i]);
  std::vector<float> xs, ys;
  for (const float x : values)
    for (const float y : values) {
      xs.push_back(x);
      ys.push_back(y);
    }
  for (const Binary &f : kBinaries)
    check_binary(f, xs, ys);
}

TEST(Binaries, RandomPairs) {
  std::mt19937 random(1);
  std::vector<float> xs(1 << 20), ys(xs.size());
  for (size_t i = 0; i < xs.size(); ++i) {
    // A third each: any bits; moderate exponents; results near 1.
    xs[i] = from_bits(random());
    ys[i] = from_bits(random());
    if (i % 3 == 1) {
      xs[i] = std::ldexp(1 + random() * 0x1p-32f, static_cast<int>(random() % 40) - 20);
      ys[i] = std::ldexp(1 + random() * 0x1p-32f, static_cast<int>(random() % 14) - 7) * (random() % 2 ? 1 : -1);
    } else if (i % 3 == 2) {
      xs[i] = 1 + std::ldexp(static_cast<float>(static_cast<int32_t>(random())), -31 - static_cast<int>(random() % 20));
      ys[i] = std::ldexp(1 + random() * 0x1p-32f, static_cast<int>(random() % 30)) * (random() % 2 ? 1 : -1);
    }
  }
  for (const Binary &f : kBinaries)
    check_binary(f, xs, ys);
}

/// Near its zeros digamma is known to an absolute error only, in eager too.
TEST(Special, Digamma) {
  ExprContext context;
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    Var *x = context.new_var("x", dtype);
    BlockEvaluator evaluator(expand_math(digamma(context.var(x))), {x});
    std::mt19937 random(2);
    const bool is_single = dtype == DType::kF32;
    for (int block = 0; block < 200; ++block) {
      double in[kLanes], out[kLanes];
      float in_single[kLanes], out_single[kLanes];
      for (int i = 0; i < kLanes; ++i) {
        in_single[i] = i % 2 ? from_bits(random()) : static_cast<float>(static_cast<int32_t>(random()) * 0x1p-26);
        if (block == 0 && i < 8)
          in_single[i] = std::vector<float>{0.0f, -0.0f, INFINITY, -INFINITY, NAN, -1, -3.5f, 1}[i];
        in[i] = in_single[i];
      }
      evaluator.run({is_single ? static_cast<const void *>(in_single) : in},
                    is_single ? static_cast<void *>(out_single) : out);
      for (int i = 0; i < kLanes; ++i) {
        const double want = digamma_reference(in[i]), got = is_single ? out_single[i] : out[i];
        if (std::isnan(want)) {
          EXPECT_TRUE(std::isnan(got)) << in[i] << " " << got;
        } else if (std::isinf(is_single ? static_cast<float>(want) : want)) {
          EXPECT_EQ(got, is_single ? static_cast<float>(want) : want) << in[i];
        } else {
          EXPECT_NEAR(got, want, (is_single ? 0x1p-23 : 0x1p-48) * std::max(1.0, std::abs(want))) << in[i];
        }
      }
    }
  }
}

TEST(Special, DoublesCallTheLibrary) {
  ExprContext context;
  Var *x = context.new_var("x", DType::kF64);
  const std::pair<Expr (*)(Expr), double (*)(double)> functions[] = {{exp, std::exp},       {tanh, std::tanh},
                                                                     {erf, std::erf},       {log1p, std::log1p},
                                                                     {lgamma, std::lgamma}, {erfinv, erfinv_reference}};
  for (const auto &[build, reference] : functions) {
    BlockEvaluator evaluator(expand_math(build(context.var(x))), {x});
    double in[kLanes], out[kLanes];
    for (int i = 0; i < kLanes; ++i)
      in[i] = (i - 511.5) / 512;
    evaluator.run({in}, out);
    for (int i = 0; i < kLanes; ++i)
      if (const double want = reference(in[i]); !std::isnan(want)) {
        EXPECT_NEAR(out[i], want, (build == erfinv ? 16e-16 : 4e-16) * std::max(1e-3, std::abs(want))) << in[i];
      }
  }
}

/// What is left after expansion holds no function kinds, also inside half types.
TEST(Special, NothingIsLeft) {
  ExprContext context;
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    const Expr x = context.var(context.new_var("x", dtype)), y = context.var(context.new_var("y", dtype));
    for (int kind = static_cast<int>(ExprKind::kExp); kind <= static_cast<int>(ExprKind::kNextafter); ++kind) {
      const bool is_binary = kind >= static_cast<int>(ExprKind::kPow);
      const Expr operands[] = {x, y};
      const Expr e = context.make(static_cast<ExprKind>(kind), dtype, std::span(operands, is_binary ? 2 : 1));
      const Expr expanded = expand_math(e);
      EXPECT_EQ(expanded.dtype(), dtype);
      rewrite(expanded, [](Expr node) {
        EXPECT_FALSE(node.kind() >= ExprKind::kExp && node.kind() <= ExprKind::kNextafter) << print(node);
        return node;
      });
    }
  }
}

TEST(Special, KernelsAreExpandedInPlace) {
  loop::Kernel kernel;
  loop::Builder builder(kernel);
  Buffer *x = builder.parameter("x", DType::kF32, Buffer::Kind::kInput);
  Buffer *y = builder.parameter("y", DType::kF32, Buffer::Kind::kOutput);
  kernel.grid = kernel.context->integer(4);
  builder.task("i", kernel.grid, [&](Expr i) {
    const Expr value = builder.let("v", exp(kernel.context->load(x, i)));
    builder.store(y, i, tanh(value));
  });
  loop::expand_math(kernel);
  float in[] = {-1, 0, 0.5f, 90}, out[4];
  ASSERT_EQ(loop::interpret(kernel, {in, out}, {}), 0);
  for (int i = 0; i < 4; ++i)
    EXPECT_LE(ulps(out[i], std::tanh(std::exp(double(in[i])))), 3) << in[i];
  EXPECT_EQ(print(kernel).find("exp("), std::string::npos);
}

} // namespace
} // namespace oxyfuel
