// Whole compiles: programs as text, compiled, run by the runtime, and compared with the graph interpreter.
#include <cmath>
#include <cstring>
#include <random>

#include <gtest/gtest.h>

#include "driver/compile.h"
#include "ops/interpret.h"
#include "ops/op.h"
#include "runtime/program_file.h"
#include "support/half.h"

namespace oxyfuel {
namespace {

using graph::Tensor;

struct OutputMemory {
  std::vector<std::vector<std::byte>> data;
  std::vector<std::vector<int64_t>> shapes, strides;
};

OxyfuelStatus allocate(void *context, int32_t output, DType dtype, int32_t rank, const int64_t *shape,
                       const int64_t *strides, void **data) {
  auto &memory = *static_cast<OutputMemory *>(context);
  int64_t last = 1;
  for (int i = 0; i < rank; ++i)
    last += (shape[i] - 1) * strides[i];
  memory.data[output].resize(std::max<int64_t>(1, last) * size_of(dtype));
  memory.shapes[output].assign(shape, shape + rank);
  memory.strides[output].assign(strides, strides + rank);
  *data = memory.data[output].data();
  return kOxyfuelOk;
}

Tensor random_tensor(DType dtype, std::vector<int64_t> shape, std::mt19937 &random) {
  Tensor tensor{dtype, shape, {}};
  int64_t count = 1;
  for (int64_t extent : shape)
    count *= extent;
  tensor.data.resize(count * size_of(dtype));
  std::normal_distribution<float> normal;
  for (int64_t i = 0; i < count; ++i) {
    if (dtype == DType::kF32)
      reinterpret_cast<float *>(tensor.data.data())[i] = normal(random);
    else if (dtype == DType::kI64)
      reinterpret_cast<int64_t *>(tensor.data.data())[i] = static_cast<int64_t>(random() % 4);
    else
      tensor.data[i] = static_cast<std::byte>(random() % 2);
  }
  return tensor;
}

/// Compiles and runs; expects float32 results close to the interpreter's, others equal.
void check(const std::string &text, std::vector<int64_t> symbols = {}, float tolerance = 1e-5f) {
  auto reference = graph::parse(text);
  auto program_graph = graph::parse(text);
  std::mt19937 random(7);
  std::vector<Tensor> inputs;
  for (const auto &input : reference->inputs()) {
    std::vector<int64_t> shape;
    for (Expr extent : input->type.shape)
      shape.push_back(evaluate(extent, [&](const Var *v) {
        for (size_t i = 0; i < reference->symbols.size(); ++i)
          if (reference->symbols[i] == v)
            return symbols[i];
        return int64_t{0};
      }));
    inputs.push_back(random_tensor(input->type.dtype, shape, random));
  }
  std::vector<Tensor> expected = graph::interpret(*reference, inputs, symbols);

  CompileSettings settings;
  settings.verify = true;
  CompiledProgram compiled = compile(*program_graph, settings);
  std::string message;
  auto program = runtime::read_program(compiled.bytes.data(), compiled.bytes.size(), message);
  ASSERT_TRUE(program) << message;
  std::vector<void *> data;
  std::vector<const int64_t *> shapes, strides;
  for (Tensor &input : inputs) {
    data.push_back(input.data.data());
    shapes.push_back(input.shape.data());
    strides.push_back(nullptr);
  }
  OutputMemory memory;
  memory.data.resize(expected.size());
  memory.shapes.resize(expected.size());
  memory.strides.resize(expected.size());
  runtime::Call call;
  call.argument_data = data.data();
  call.argument_shapes = shapes.data();
  call.argument_strides = strides.data();
  call.threads = 2;
  call.context = &memory;
  call.allocate = allocate;
  call.poison = true;
  ASSERT_EQ(program->run(call, &message), kOxyfuelOk) << message;
  for (size_t o = 0; o < expected.size(); ++o) {
    ASSERT_EQ(memory.shapes[o], expected[o].shape);
    size_t count = expected[o].data.size() / size_of(expected[o].dtype);
    if (expected[o].dtype != DType::kF32) {
      ASSERT_EQ(std::memcmp(memory.data[o].data(), expected[o].data.data(), expected[o].data.size()), 0);
      continue;
    }
    const auto *got = reinterpret_cast<const float *>(memory.data[o].data());
    const auto *want = reinterpret_cast<const float *>(expected[o].data.data());
    for (size_t i = 0; i < count; ++i)
      ASSERT_NEAR(got[i], want[i], tolerance * (1 + std::fabs(want[i]))) << "output " << o << " element " << i;
  }
}

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
  })", {}, 1e-3f);
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
  })", {}, 1e-4f);
}

TEST(Compile, Convolution) {
  check(R"(graph @main(%x: f32[2, 3, 11, 13], %w: f32[24, 3, 3, 3] static, %v: f32[20, 24, 1, 1] static) {
    %1: f32[2, 24, 6, 7] = convolution(%x, %w) {dilation = [1, 1], groups = 1, output_padding = [0, 0], padding = [1, 1], stride = [2, 2], transposed = false}
    %2: f32[2, 24, 6, 7] = relu(%1)
    %3: f32[2, 20, 6, 7] = convolution(%2, %v) {dilation = [1, 1], groups = 1, output_padding = [0, 0], padding = [0, 0], stride = [1, 1], transposed = false}
    return %3
  })", {}, 1e-4f);
}

} // namespace
} // namespace oxyfuel
