// Whole compiles of small programs.
#include "tests/unit/driver_support.h"

namespace oxyfuel {
namespace {

using testing::check;

TEST(Compile, PointwiseChain) {
  check(R"(graph @main(%x: f32[37, 129], %y: f32[129]) {
    %1: f32[37, 129] = add(%x, %y)
    %2: f32[37, 129] = tanh(%1)
    %3: f32[37, 129] = mul(%2, %x)
    return %3
  })");
}

TEST(Compile, SoftmaxInOneKernel) {
  check(R"(graph @main(%x: f32[19, 203]) {
    %1: f32[19] = max(%x) {axes = [1]}
    %2: f32[19, 1] = reshape(%1) {shape = sizes(19, 1)}
    %3: f32[19, 203] = sub(%x, %2)
    %4: f32[19, 203] = exp(%3)
    %5: f32[19] = sum(%4) {axes = [1]}
    %6: f32[19, 1] = reshape(%5) {shape = sizes(19, 1)}
    %7: f32[19, 203] = div(%4, %6)
    return %7
  })");
}

TEST(Compile, ReductionOverLeadingAxis) {
  check(R"(graph @main(%x: f32[300, 70]) {
    %1: f32[70] = sum(%x) {axes = [0]}
    %2: f32[] = sum(%x) {axes = [0, 1]}
    %3: i64[300] = argmax(%x) {axes = [1]}
    return %1, %2, %3
  })");
}

TEST(Compile, SplitReductions) {
  check(R"(graph @main(%x: f32[3, 70001], %y: f32[9000, 33]) {
    %1: f32[] = sum(%x) {axes = [0, 1]}
    %2: f32[3] = max(%x) {axes = [1]}
    %3: i64[3] = argmax(%x) {axes = [1]}
    %4: f32[33] = sum(%y) {axes = [0]}
    return %1, %2, %3, %4
  })",
        {}, 1e-3f);
}

TEST(Compile, SymbolicSizes) {
  const char *text = R"(graph @main(%x: f32[s0, 48]) symbols(s0 in [2, inf) hint 32) {
    %1: f32[s0, 48] = exp(%x)
    %2: f32[s0] = sum(%1) {axes = [1]}
    %3: f32[s0, 1] = reshape(%2) {shape = sizes(s0, 1)}
    %4: f32[s0, 48] = div(%1, %3)
    %5: f32[48 * s0] = reshape(%4) {shape = sizes(48 * s0)}
    return %5
  })";
  check(text, {5});
  check(text, {64});
}

TEST(Compile, LinearGeluLayerNorm) {
  check(R"(graph @main(%x: f32[33, 96], %w: f32[80, 96] static, %b: f32[80] static) {
    %1: f32[96, 80] = permute(%w) {dims = [1, 0]}
    %2: f32[33, 80] = matmul(%x, %1)
    %3: f32[33, 80] = add(%2, %b)
    %4: f32[33, 80] = gelu(%3) {approximate = "none"}
    %5: f32[33] = sum(%4) {axes = [1]}
    %6: f32[33, 1] = reshape(%5) {shape = sizes(33, 1)}
    %7: f32[] = constant() {dtype = f32, value = 80.0}
    %8: f32[33, 1] = div(%6, %7)
    %9: f32[33, 80] = sub(%4, %8)
    return %9
  })",
        {}, 1e-4f);
}

TEST(Compile, Convolution) {
  check(R"(graph @main(%x: f32[2, 3, 11, 13], %w: f32[24, 3, 3, 3] static, %v: f32[20, 24, 1, 1] static) {
    %1: f32[2, 24, 6, 7] = convolution(%x, %w) {dilation = [1, 1], groups = 1, output_padding = [0, 0], padding = [1, 1], stride = [2, 2], transposed = false}
    %2: f32[2, 24, 6, 7] = relu(%1)
    %3: f32[2, 20, 6, 7] = convolution(%2, %v) {dilation = [1, 1], groups = 1, output_padding = [0, 0], padding = [0, 0], stride = [1, 1], transposed = false}
    return %3
  })",
        {}, 1e-4f);
}

TEST(Compile, OperatorsWithoutLoweringAreNamed) {
  auto graph = graph::parse(R"(graph @main(%p: bool[], %x: f32[4]) {
    %0: f32[4] = exp(%x) loc("model.py:3", 1)
    %1: f32[4] = cond(%p, %0) {else = graph @no(%a: f32[4]) {
      return %a
    }, then = graph @yes(%a: f32[4]) {
      return %a
    }} loc("model.py:4", 2)
    return %1
  })");
  try {
    compile(*graph, CompileSettings());
    FAIL() << "cond has a lowering: take another operator";
  } catch (const DeclinedError &declined) {
    EXPECT_EQ(declined.operations, std::vector<int64_t>{2});
    EXPECT_STREQ(declined.what(), "cond has no lowering\n  where  model.py:4");
  }
}

} // namespace
} // namespace oxyfuel
