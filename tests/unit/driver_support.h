// Programs as text, compiled, run by the runtime, and compared with the graph interpreter.
#pragma once

#include <cmath>
#include <cstring>
#include <random>

#include <gtest/gtest.h>

#include "driver/compile.h"
#include "ops/interpret.h"
#include "ops/op.h"
#include "runtime/program_file.h"
#include "support/half.h"

namespace oxyfuel::testing {

using graph::Tensor;

struct OutputMemory {
  std::vector<std::vector<std::byte>> data;
  std::vector<std::vector<int64_t>> shapes, strides;
};

inline OxyfuelStatus allocate(void *context, int32_t output, DType dtype, int32_t rank, const int64_t *shape,
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

inline Tensor random_tensor(DType dtype, std::vector<int64_t> shape, std::mt19937 &random) {
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
inline void check(const std::string &text, std::vector<int64_t> symbols = {}, float tolerance = 1e-5f) {
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

} // namespace oxyfuel::testing
