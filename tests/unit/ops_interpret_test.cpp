// The interpreter of Graph IR on small programs whose results are known.
#include "ops/interpret.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "ops/op.h"
#include "ops/reference.h"
#include "support/error.h"

namespace oxyfuel::graph {
namespace {

Tensor tensor(DType dtype, std::vector<int64_t> shape, const std::vector<double> &numbers) {
  Tensor made = make_tensor(dtype, std::move(shape));
  EXPECT_EQ(static_cast<size_t>(element_count(made)), numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) {
    Scalar number{};
    number.d = numbers[i];
    set_element(made, static_cast<int64_t>(i), convert(number, DType::kF64, dtype));
  }
  return made;
}

Tensor floats(std::vector<int64_t> shape, const std::vector<double> &numbers) {
  return tensor(DType::kF32, std::move(shape), numbers);
}
Tensor integers(std::vector<int64_t> shape, const std::vector<double> &numbers) {
  return tensor(DType::kI64, std::move(shape), numbers);
}

void expect_numbers(const Tensor &found, const std::vector<int64_t> &shape, const std::vector<double> &wanted) {
  EXPECT_EQ(found.shape, shape);
  ASSERT_EQ(static_cast<size_t>(element_count(found)), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    double number = number_at(found, static_cast<int64_t>(i));
    if (std::isnan(wanted[i]))
      EXPECT_TRUE(std::isnan(number)) << "element " << i;
    else
      EXPECT_FLOAT_EQ(number, wanted[i]) << "element " << i;
  }
}

std::vector<Tensor> run(const std::string &text, const std::vector<Tensor> &inputs,
                        const std::vector<int64_t> &symbols = {}) {
  auto graph = parse(text);
  verify(*graph);
  return interpret(*graph, inputs, symbols);
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Interpret, PointwiseWithSymbolsAndBroadcast) {
  auto results = run(R"(graph @main(%x: f32[s0, 2], %y: f32[2]) symbols(s0) {
    %0: f32[s0, 2] = mul(%x, %y)
    %1: i64[] = size_value() {value = size(s0 * 2)}
    return %0, %1
  })",
                     {floats({2, 2}, {1, 2, 3, 4}), floats({2}, {10, 100})}, {2});
  expect_numbers(results[0], {2, 2}, {10, 200, 30, 400});
  expect_numbers(results[1], {}, {4});
}

TEST(Interpret, HalfRoundsAtEachOperator) {
  auto results = run(R"(graph @main(%x: bf16[1], %y: bf16[1]) {
    %0: bf16[1] = add(%x, %y)
    %1: bf16[1] = sub(%0, %x)
    return %1
  })",
                     {tensor(DType::kBF16, {1}, {256}), tensor(DType::kBF16, {1}, {1})});
  expect_numbers(results[0], {1}, {0});
}

TEST(Interpret, Views) {
  auto results = run(R"(graph @main(%x: f32[2, 3]) {
    %0: f32[3, 2] = permute(%x) {dims = [1, 0]}
    %1: f32[6] = reshape(%0) {shape = sizes(6)}
    %2: f32[2] = slice(%1) {axis = 0, length = size(2), start = size(1), step = 3}
    %3: f32[8] = concat(%2, %1) {axis = 0}
    return %1, %3
  })",
                     {floats({2, 3}, {1, 2, 3, 4, 5, 6})});
  expect_numbers(results[0], {6}, {1, 4, 2, 5, 3, 6});
  expect_numbers(results[1], {8}, {4, 3, 1, 4, 2, 5, 3, 6});
}

TEST(Interpret, Reductions) {
  auto results = run(R"(graph @main(%x: f32[2, 3]) {
    %0: f32[2] = sum(%x) {axes = [1]}
    %1: f32[3] = max(%x) {axes = [0]}
    %2: i64[2] = argmax(%x) {axes = [1]}
    %3: bool[] = any(%x) {axes = [0, 1]}
    return %0, %1, %2, %3
  })",
                     {floats({2, 3}, {1, 5, 5, 0, kNan, 7})});
  expect_numbers(results[0], {2}, {11, kNan});
  expect_numbers(results[1], {3}, {1, kNan, 7});
  expect_numbers(results[2], {2}, {1, 1});
  expect_numbers(results[3], {}, {1});
}

TEST(Interpret, Matmul) {
  auto results = run(R"(graph @main(%a: f32[1, 2, 3], %b: f32[1, 3, 2]) {
    %0: f32[1, 2, 2] = matmul(%a, %b)
    return %0
  })",
                     {floats({1, 2, 3}, {1, 2, 3, 4, 5, 6}), floats({1, 3, 2}, {1, 0, 0, 1, 1, 1})});
  expect_numbers(results[0], {1, 2, 2}, {4, 5, 10, 11});
}

TEST(Interpret, Convolution) {
  const std::string text = R"(graph @main(%x: f32[1, 1, 4], %w: f32[1, 1, 2]) {
    %0: f32[1, 1, 3] = convolution(%x, %w) {stride = [2], padding = [1], dilation = [1]}
    %1: f32[1, 1, 8] = convolution(%x, %w) {stride = [2], padding = [0], dilation = [1], transposed = true, output_padding = [0]}
    return %0, %1
  })";
  auto results = run(text, {floats({1, 1, 4}, {1, 2, 3, 4}), floats({1, 1, 2}, {10, 1})});
  expect_numbers(results[0], {1, 1, 3}, {1, 23, 40});
  expect_numbers(results[1], {1, 1, 8}, {10, 1, 20, 2, 30, 3, 40, 4});
}

TEST(Interpret, Attention) {
  auto results =
      run(R"(graph @main(%q: f32[1, 1, 2, 1], %k: f32[1, 1, 2, 1], %v: f32[1, 1, 2, 1]) {
    %0: f32[1, 1, 2, 1], %1: f32[1, 1, 2] = attention(%q, %k, %v, null) {scale = 1.0, causal = true}
    return %0, %1
  })",
          {floats({1, 1, 2, 1}, {1, 1}), floats({1, 1, 2, 1}, {0, std::log(3.0)}), floats({1, 1, 2, 1}, {4, 8})});
  expect_numbers(results[0], {1, 1, 2, 1}, {4, 7});
  expect_numbers(results[1], {1, 1, 2}, {0, std::log(4.0)});
}

TEST(Interpret, GatherAndScatter) {
  auto results = run(R"(graph @main(%x: f32[3], %i: i64[4], %u: f32[4]) {
    %0: f32[4] = gather(%x, %i) {axis = 0}
    %1: f32[3] = scatter(%x, %i, %u) {axis = 0, mode = "add"}
    %2: f32[3] = index_put(%x, %u, %i) {accumulate = false}
    return %0, %1, %2
  })",
                     {floats({3}, {1, 2, 3}), integers({4}, {2, 0, 2, 1}), floats({4}, {10, 20, 30, 40})});
  expect_numbers(results[0], {4}, {3, 1, 3, 2});
  expect_numbers(results[1], {3}, {21, 42, 43});
  expect_numbers(results[2], {3}, {20, 40, 30});
}

TEST(Interpret, IndexOutOfRangeIsAnError) {
  EXPECT_THROW(run("graph @main(%x: f32[3], %i: i64[1]) { %0: f32[1] = gather(%x, %i) {axis = 0} return %0 }",
                   {floats({3}, {1, 2, 3}), integers({1}, {3})}),
               CompileError);
}

TEST(Interpret, ScanAndSort) {
  auto results = run(R"(graph @main(%x: f32[2, 3]) {
    %0: f32[2, 3] = scan(%x) {axis = 1, mode = "sum"}
    %1: f32[2, 3] = scan(%x) {axis = 0, mode = "max"}
    %2: f32[2, 3], %3: i64[2, 3] = sort(%x) {axis = 1, descending = true}
    return %0, %1, %2, %3
  })",
                     {floats({2, 3}, {3, 1, 3, kNan, 0, 5})});
  expect_numbers(results[0], {2, 3}, {3, 4, 7, kNan, kNan, kNan});
  expect_numbers(results[1], {2, 3}, {3, 1, 3, kNan, 1, 5});
  expect_numbers(results[2], {2, 3}, {3, 3, 1, kNan, 5, 0});
  expect_numbers(results[3], {2, 3}, {0, 2, 1, 0, 2, 1});
}

TEST(Interpret, Regions) {
  auto results = run(R"(graph @main(%x: f32[], %limit: f32[]) {
    %0: f32[] = while(%x, %limit) {body = graph @body(%a: f32[], %b: f32[]) {
      %0: f32[] = add(%a, %a)
      return %0
    }, condition = graph @condition(%a: f32[], %b: f32[]) {
      %0: bool[] = lt(%a, %b)
      return %0
    }}
    %1: bool[] = lt(%0, %limit)
    %2: f32[] = cond(%1, %0) {else = graph @no(%a: f32[]) {
      %0: f32[] = neg(%a)
      return %0
    }, then = graph @yes(%a: f32[]) {
      return %a
    }}
    return %0, %2
  })",
                     {floats({}, {1}), floats({}, {5})});
  expect_numbers(results[0], {}, {8});
  expect_numbers(results[1], {}, {-8});
}

TEST(Interpret, MutationsAreReturned) {
  auto graph = parse("graph @main(%x: f32[2]) { %0: f32[2] = neg(%x) mutate %x = %0 return %x }");
  std::vector<Tensor> mutated;
  auto results = interpret(*graph, {floats({2}, {1, 2})}, {}, &mutated);
  expect_numbers(results[0], {2}, {1, 2});
  expect_numbers(mutated.at(0), {2}, {-1, -2});
}

} // namespace
} // namespace oxyfuel::graph
