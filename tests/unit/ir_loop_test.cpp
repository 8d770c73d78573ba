// Loop IR: building, text, verification, and the interpreter.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "ir/loop/loop.h"
#include "support/error.h"
#include "support/half.h"

namespace oxyfuel::loop {
namespace {

using K = Buffer::Kind;

/// y = softmax(x) by rows of m, sixteen lanes at once. The mask of the last store is proven and leaves no trace.
std::unique_ptr<Kernel> softmax() {
  auto kernel = std::make_unique<Kernel>();
  kernel->name = "softmax";
  Builder b(*kernel);
  ExprContext &context = b.context();
  Buffer *x = b.parameter("x", DType::kF32, K::kInput), *y = b.parameter("y", DType::kF32, K::kOutput);
  const Expr n = context.var(b.size("n")), m = context.var(b.size("m"));
  b.task("i", n, [&](Expr i) {
    Buffer *most = b.registers("most", DType::kF32, 1), *sum = b.registers("sum", DType::kF32, 1);
    const Expr zero = context.integer(0);
    b.store(most, zero, context.real(-HUGE_VAL, DType::kF32));
    b.serial("j", zero, m, 1, [&](Expr j) {
      const Expr value = context.load(x, i * m + j), old = context.load(most, zero);
      b.store(most, zero, select(old < value, value, old));
    });
    b.store(sum, zero, context.real(0, DType::kF32));
    b.serial("j", zero, m, 1, [&](Expr j) {
      const Expr e = b.let("e", exp(context.load(x, i * m + j) - context.load(most, zero)));
      b.store(y, i * m + j, e);
      b.store(sum, zero, context.load(sum, zero) + e);
    });
    b.serial("j", zero, m, 16, [&](Expr j) {
      b.vector("v", min(context.integer(16), m - j), 16, [&](Expr v) {
        const Expr at = i * m + j + v;
        b.store(y, at, context.load(y, at) / context.load(sum, zero), at < n * m);
      });
    });
  });
  return kernel;
}

void expect_round_trip(const Kernel &kernel) {
  const std::string text = print(kernel);
  EXPECT_EQ(print(*parse(text)), text);
  const std::string canonical = print(kernel, true);
  EXPECT_EQ(print(*parse(canonical), true), canonical);
}

TEST(LoopText, PrintsAndParses) {
  const auto kernel = softmax();
  verify(*kernel);
  expect_round_trip(*kernel);
  EXPECT_EQ(print(*kernel), R"(kernel @softmax(%x: f32 in, %y: f32 out; %n, %m) grid (%n) {
  task %i in [0, %n) {
    local %most: f32[1]
    local %sum: f32[1]
    %most[0] = -inf:f32
    for %j in [0, %m) {
      %most[0] = select(%most[0] < %x[%m*%i + %j], %x[%m*%i + %j], %most[0])
    }
    %sum[0] = 0:f32
    for %j_1 in [0, %m) {
      let %e = exp(%x[%m*%i + %j_1] - %most[0])
      %y[%m*%i + %j_1] = %e
      %sum[0] = %sum[0] + %e
    }
    for %j_2 in [0, %m) step 16 {
      for %v in [0, min(%m - %j_2, 16)) vector 16 {
        %y[%m*%i + %j_2 + %v] = %y[%m*%i + %j_2 + %v] / %sum[0]
      }
    }
  }
}
)");
}

TEST(LoopText, SharedValuesAreWrittenOnce) {
  const auto kernel = parse(R"(kernel @k(%x: f32 in, %y: f32 out; %n in [2, 100) hint 7) grid (%n) grain 4 {
  task %i in [0, %n) {
    $0 = exp(%x[%i]) * 2:f32 + 1:f32
    %y[%i] = $0 / ($0 + $0*$0)
    if %x[%i] < 0:f32 {
      check %i < 50 else 1
    } else {
      let index %k in [0, 10) = i64(%x[%i])
      %y[%k] = -1.5:f32
    }
  }
}
)");
  verify(*kernel);
  expect_round_trip(*kernel);
  EXPECT_EQ(kernel->sizes[0]->hint, 7);
  EXPECT_NE(print(*kernel).find("$0 / ($0 + $0*$0)"), std::string::npos);
  EXPECT_NE(print(*kernel).find("let index %k in [0, 10) = i64(%x[%i])"), std::string::npos);
}

TEST(LoopText, ErrorsNameThePlace) {
  const auto message = [](const std::string &text) -> std::string {
    try {
      parse(text);
    } catch (const CompileError &error) {
      return error.what();
    }
    return "parsed";
  };
  EXPECT_EQ(message("kernel @k(%x: f32 in; %n) grid (%n) {\n  task %i in [0, %n) {\n    %x[%j] = 1:f32\n  }\n}\n"),
            "3:8: unknown variable %j\n  where  line 3:8\n  found      %x[%j] = 1:f32");
  EXPECT_EQ(message("kernel @k(%x: f32 in; %n) grid (%n) { task %i in [0, %n) { %x[%i] = %i } }").substr(0, 44),
            "1:69: a store of i64 into %x: f32\n  where  l");
  EXPECT_EQ(message("kernel @k(%x: f33 in)").substr(0, 46), "1:15: expected an element type, found \"f33\"\n  ");
}

TEST(LoopVerify, NamesTheBrokenRule) {
  const auto broken = [](const std::string &text) -> std::string {
    try {
      verify(*parse(text));
    } catch (const InternalError &error) {
      return error.what();
    }
    return "holds";
  };
  EXPECT_NE(broken("kernel @k(%x: f32 in; %n) grid (%n) { task %i in [0, %n) { %x[%i] = 1:f32 } }")
                .find("a store into the input %x"),
            std::string::npos);
  EXPECT_NE(broken("kernel @k(%x: f32 out; %n) grid (%n) { task %i in [0, %n) { for %v in [0, 8) vector 8 { for %j in "
                   "[0, 2) { %x[%i] = 1:f32 } } } }")
                .find("a loop inside a vector loop"),
            std::string::npos);
  EXPECT_NE(broken("kernel @k(%x: f32 out; %n, %m) grid (%m) { task %i in [0, %n) { %x[%i] = 1:f32 } }")
                .find("the task loop runs over the grid"),
            std::string::npos);
  EXPECT_NE(broken("kernel @k(%x: f32 out; %n) grid (%n) { task %i in [0, %n) { for %v in [0, 9) vector 8 { %x[%i] = "
                   "1:f32 } } }")
                .find("extent is at most its width"),
            std::string::npos);
}

TEST(LoopInterpret, Softmax) {
  const auto kernel = softmax();
  constexpr int64_t n = 3, m = 37;
  std::vector<float> x(n * m), y(n * m);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = std::sin(static_cast<float>(i)) * 5;
  EXPECT_EQ(interpret(*kernel, {x.data(), y.data()}, {n, m}), 0);
  for (int64_t i = 0; i < n; ++i) {
    double sum = 0;
    for (int64_t j = 0; j < m; ++j)
      sum += std::exp(static_cast<double>(x[static_cast<size_t>(i * m + j)]));
    for (int64_t j = 0; j < m; ++j)
      EXPECT_NEAR(y[static_cast<size_t>(i * m + j)],
                  std::exp(static_cast<double>(x[static_cast<size_t>(i * m + j)])) / sum, 1e-6);
  }
  const auto again = parse(print(*kernel));
  std::vector<float> z(n * m);
  EXPECT_EQ(interpret(*again, {x.data(), z.data()}, {n, m}), 0);
  EXPECT_EQ(y, z);
}

TEST(LoopInterpret, ContractionOnColumnsAndDepth) {
  constexpr int64_t rows = 4, cols = 8, depth = 21;
  std::vector<float> a(rows * depth), b(depth * cols), transposed(cols * depth);
  for (size_t i = 0; i < a.size(); ++i)
    a[i] = static_cast<float>(i % 7) - 3;
  for (int64_t k = 0; k < depth; ++k)
    for (int64_t c = 0; c < cols; ++c)
      b[static_cast<size_t>(k * cols + c)] = transposed[static_cast<size_t>(c * depth + k)] =
          static_cast<float>((k * 5 + c) % 11) - 5;
  const auto columns = parse(R"(kernel @columns(%a: f32 in, %b: f32 in, %y: f32 out; %n, %k) grid (%n) {
  task %t in [0, %n) {
    local %acc: f32[32]
    for %i in [0, 32) unroll {
      %acc[%i] = 0:f32
    }
    contract %acc[%r in 4, %c in 8] over %p in [0, %k) columns 8 unroll 2 {
      %a[%r*%k + %p]
      %b[%p*8 + %c] limit 7
    }
    for %i_1 in [0, 32) unroll {
      %y[%i_1] = %acc[%i_1]
    }
  }
}
)");
  verify(*columns);
  expect_round_trip(*columns);
  std::vector<float> y(rows * cols), z(rows * cols);
  EXPECT_EQ(interpret(*columns, {a.data(), b.data(), y.data()}, {1, depth}), 0);
  const auto along = parse(R"(kernel @depth(%a: f32 in, %b: f32 in, %y: f32 out; %n, %k) grid (%n) {
  task %t in [0, %n) {
    local %acc: f32[128]
    for %i in [0, 128) unroll {
      %acc[%i] = 0:f32
    }
    contract %acc[%r in 4, %c in 8] over %p in [0, %k) depth 4 {
      %a[%r*%k + %p]
      %b[%c*%k + %p]
    }
    for %j in [0, 32) unroll {
      %y[%j] = (%acc[%j*4] + %acc[%j*4 + 1]) + (%acc[%j*4 + 2] + %acc[%j*4 + 3])
    }
  }
}
)");
  verify(*along);
  expect_round_trip(*along);
  EXPECT_EQ(interpret(*along, {a.data(), transposed.data(), z.data()}, {1, depth}), 0);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) {
      float sum = 0;
      for (int64_t k = 0; k < depth; ++k)
        sum += a[static_cast<size_t>(r * depth + k)] * b[static_cast<size_t>(k * cols + c)];
      EXPECT_EQ(y[static_cast<size_t>(r * cols + c)], c < 7 ? sum : 0.0f);
      EXPECT_EQ(z[static_cast<size_t>(r * cols + c)], sum);
    }
}

TEST(LoopInterpret, TypesRoundAndWrap) {
  const auto kernel = parse(R"(kernel @types(%h: bf16 inout, %b: u8 inout, %z: c64 inout; %n) grid (%n) {
  task %i in [0, %n) {
    %h[0] = bf16(f32(%h[0]) + 0.01:f32)
    %b[0] = %b[0] + 10:u8
    %z[0] = %z[0] * %z[0]
    check %n < 2 else 3
  }
}
)");
  verify(*kernel);
  expect_round_trip(*kernel);
  uint16_t half = bf16_from_float(1.0f);
  uint8_t byte = 250;
  float z[2] = {1, 2};
  EXPECT_EQ(interpret(*kernel, {&half, &byte, z}, {1}), 0);
  EXPECT_EQ(float_from_bf16(half), 1.0078125f);
  EXPECT_EQ(byte, 4);
  EXPECT_EQ(z[0], -3.0f);
  EXPECT_EQ(z[1], 4.0f);
  EXPECT_EQ(interpret(*kernel, {&half, &byte, z}, {2}), 3);
}

TEST(LoopInterpret, HalfConversionsAreExact) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<uint16_t>(bits);
    EXPECT_EQ(f16_from_float(float_from_f16(half)), half);
    EXPECT_EQ(bf16_from_float(float_from_bf16(half)), half);
  }
  EXPECT_EQ(f16_from_float(65519.0f), 0x7bff);
  EXPECT_EQ(f16_from_float(65520.0f), 0x7c00);
  EXPECT_EQ(f16_from_float(0x1p-25f), 0x0000);
  EXPECT_EQ(f16_from_float(0x1.8p-25f), 0x0001);
}

TEST(LoopScratch, SiblingBlocksShareMemory) {
  Kernel kernel;
  Builder b(kernel);
  Buffer *y = b.parameter("y", DType::kF32, K::kOutput);
  Buffer *first = nullptr, *second = nullptr, *outer = nullptr;
  b.task("i", b.context().integer(1), [&](Expr) {
    outer = b.scratch("outer", DType::kF32, 3);
    const auto use = [&](Buffer *&buffer, int64_t size) {
      b.serial("j", b.context().integer(0), b.context().integer(2), 1, [&](Expr j) {
        buffer = b.scratch("s", DType::kF32, size);
        b.store(y, j, b.context().load(buffer, j));
      });
    };
    use(first, 16);
    use(second, 100);
  });
  assign_scratch(kernel);
  EXPECT_EQ(outer->scratch_offset, 0);
  EXPECT_EQ(first->scratch_offset, 64);
  EXPECT_EQ(second->scratch_offset, 64);
  EXPECT_EQ(kernel.scratch_bytes, 64 + 448);
  verify(kernel);
  expect_round_trip(kernel);
}

} // namespace
} // namespace oxyfuel::loop
