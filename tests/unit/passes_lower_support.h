// Lowers one group given as the text of its region, runs the kernels (by the Loop IR interpreter, or as the caller
// says) and compares the results with those of the Graph IR interpreter.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>

#include "ir/graph/graph.h"
#include "ir/scalar.h"
#include "ops/interpret.h"
#include "ops/op.h"
#include "ops/reference.h"
#include "passes/loop/expand_math.h"
#include "passes/lower/evaluate.h"
#include "passes/lower/lower.h"
#include "support/memory.h"

namespace oxyfuel::testing {

using graph::Tensor;

/// A group of its own, made of a region.
struct Group {
  std::shared_ptr<graph::Graph> region;
  std::unique_ptr<graph::Graph> outer;
  graph::Node *node = nullptr;

  Group(const std::string &text, const std::string &kind) : region(graph::parse(text)) {
    outer = std::make_unique<graph::Graph>(region->shared_context());
    outer->symbols = region->symbols;
    std::vector<graph::Value *> inputs;
    for (const auto &input : region->inputs()) {
      inputs.push_back(outer->add_input(input->type, input->name));
      inputs.back()->layout = input->layout;
    }
    std::vector<graph::Type> types;
    for (const graph::Value *output : region->outputs)
      types.push_back(output->type);
    node = outer->add_typed(op("group"), inputs, {{"kind", kind}, {"region", region}}, types);
    for (size_t i = 0; i < types.size(); ++i)
      node->result(static_cast<int>(i))->layout = region->outputs[i]->layout;
  }

  int64_t size(Expr e, const std::vector<int64_t> &symbols) const {
    return evaluate(e, [&](const Var *var) {
      for (size_t i = 0; i < symbols.size(); ++i)
        if (outer->symbols[i] == var)
          return symbols[i];
      return int64_t{0};
    });
  }
};

inline Tensor random_tensor(DType dtype, std::vector<int64_t> shape, uint32_t seed, double low = -2, double high = 2) {
  Tensor tensor = graph::make_tensor(dtype, std::move(shape));
  std::mt19937 random(seed);
  std::uniform_real_distribution<double> real(low, high);
  for (int64_t i = 0; i < graph::element_count(tensor); ++i) {
    if (is_float(dtype)) {
      graph::set_number(tensor, i, real(random));
    } else {
      Scalar value{};
      value.i = is_bool(dtype) ? static_cast<int64_t>(random() & 1) : static_cast<int64_t>(std::floor(real(random)));
      graph::set_element(tensor, i, value);
    }
  }
  return tensor;
}

/// Memory of a value in its layout, with a margin behind it.
class Memory {
public:
  Memory(const Group &group, const graph::Value &value, const std::vector<int64_t> &symbols)
      : dtype_(value.type.dtype) {
    ExprContext &context = *group.region->shared_context();
    std::vector<Expr> strides = value.layout.strides;
    if (strides.empty())
      strides = graph::contiguous_strides(context, value.type.shape);
    int64_t last = value.layout.offset ? group.size(value.layout.offset, symbols) : 0;
    offset_ = last;
    for (size_t i = 0; i < strides.size(); ++i) {
      shape_.push_back(group.size(value.type.shape[i], symbols));
      strides_.push_back(group.size(strides[i], symbols));
      last += std::max<int64_t>(0, shape_[i] - 1) * strides_[i];
    }
    bytes_.assign(static_cast<size_t>(last + 1) * size_of(dtype_) + 64, std::byte{0xFF});
  }
  void *data() { return bytes_.data(); }
  void fill(const Tensor &tensor) {
    each([&](int64_t place, int64_t flat) {
      std::memcpy(bytes_.data() + static_cast<size_t>(place) * size_of(dtype_),
                  tensor.data.data() + static_cast<size_t>(flat) * size_of(dtype_), size_of(dtype_));
    });
  }
  Tensor read() {
    Tensor tensor = graph::make_tensor(dtype_, shape_);
    each([&](int64_t place, int64_t flat) {
      std::memcpy(tensor.data.data() + static_cast<size_t>(flat) * size_of(dtype_),
                  bytes_.data() + static_cast<size_t>(place) * size_of(dtype_), size_of(dtype_));
    });
    return tensor;
  }

private:
  void each(const std::function<void(int64_t, int64_t)> &f) {
    int64_t flat = 0;
    graph::for_each_index(shape_, [&](const std::vector<int64_t> &index) {
      int64_t place = offset_;
      for (size_t i = 0; i < index.size(); ++i)
        place += index[i] * strides_[i];
      f(place, flat++);
    });
  }
  DType dtype_;
  int64_t offset_ = 0;
  std::vector<int64_t> shape_, strides_;
  std::vector<std::byte> bytes_;
};

using RunKernel = std::function<int32_t(const loop::Kernel &, const std::vector<void *> &, const std::vector<int64_t> &,
                                        int64_t tasks)>;

inline int32_t run_by_interpreter(const loop::Kernel &kernel, const std::vector<void *> &buffers,
                                  const std::vector<int64_t> &sizes, int64_t) {
  return loop::interpret(kernel, buffers, sizes);
}

struct GroupRun {
  int32_t status = 0;
  std::vector<Tensor> results;
  LoweredGroup lowered;
};

inline GroupRun run_group(const Group &group, const std::vector<Tensor> &inputs, const std::vector<int64_t> &symbols,
                          const Machine &machine, const RunKernel &run = run_by_interpreter) {
  GroupRun out;
  out.lowered = lower_group(*group.node, machine);
  std::vector<Memory> operands, results;
  for (size_t i = 0; i < inputs.size(); ++i) {
    operands.emplace_back(group, *group.node->operands[i], symbols);
    operands.back().fill(inputs[i]);
  }
  for (const auto &result : group.node->results)
    results.emplace_back(group, *result, symbols);
  std::vector<AlignedMemory> temporaries(out.lowered.temporaries.size());
  for (size_t i = 0; i < temporaries.size(); ++i) {
    const Temporary &temporary = out.lowered.temporaries[i];
    size_t bytes = static_cast<size_t>(group.size(temporary.elements, symbols)) * size_of(temporary.dtype);
    EXPECT_TRUE(temporaries[i].reserve(bytes + 64));
    std::memset(temporaries[i].data(), 0xFF, bytes);
  }
  for (const KernelCall &call : out.lowered.calls) {
    loop::Kernel &kernel = *out.lowered.kernels[call.kernel];
    PassContext context;
    loop::expand_math(kernel, context);
    loop::verify(kernel);
    std::vector<void *> buffers;
    for (const BufferReference &buffer : call.buffers)
      buffers.push_back(buffer.kind == BufferReference::Kind::kOperand  ? operands[buffer.index].data()
                        : buffer.kind == BufferReference::Kind::kResult ? results[buffer.index].data()
                                                                        : temporaries[buffer.index].data());
    std::vector<int64_t> sizes;
    for (Expr size : call.sizes)
      sizes.push_back(group.size(size, symbols));
    int64_t tasks = evaluate(kernel.grid, [&](const Var *var) {
      for (size_t i = 0; i < kernel.sizes.size(); ++i)
        if (kernel.sizes[i] == var)
          return sizes[i];
      return int64_t{0};
    });
    out.status = run(kernel, buffers, sizes, tasks);
    if (out.status)
      return out;
  }
  for (Memory &result : results)
    out.results.push_back(result.read());
  return out;
}

/// `tolerance` is relative to the largest magnitude, 0: bit for bit but for NaN.
inline void expect_equal(const Tensor &want, const Tensor &got, double tolerance, const std::string &what) {
  ASSERT_EQ(want.shape, got.shape) << what;
  ASSERT_EQ(want.dtype, got.dtype) << what;
  double scale = 1;
  for (int64_t i = 0; is_float(want.dtype) && i < graph::element_count(want); ++i)
    if (double x = std::abs(graph::number_at(want, i)); std::isfinite(x))
      scale = std::max(scale, x);
  for (int64_t i = 0; i < graph::element_count(want); ++i) {
    if (!is_float(want.dtype)) {
      ASSERT_EQ(graph::element_at(want, i).i, graph::element_at(got, i).i) << what << " at " << i;
      continue;
    }
    double a = graph::number_at(want, i), b = graph::number_at(got, i);
    if (std::isnan(a) || std::isinf(a) || tolerance == 0)
      ASSERT_TRUE(a == b || (std::isnan(a) && std::isnan(b))) << what << " at " << i << ": " << b << ", not " << a;
    else
      ASSERT_NEAR(a, b, tolerance * scale) << what << " at " << i;
  }
}

/// Small vectors so that tails are met early, and those of this machine.
inline std::vector<Machine> test_machines() {
  Machine narrow, wide;
  narrow.vector_bytes = 16;
  wide.vector_bytes = 64, wide.vector_registers = 32, wide.has_masks = true;
  return {narrow, wide};
}

inline void check_group(const std::string &text, const std::string &kind, const std::vector<Tensor> &inputs,
                        const std::vector<int64_t> &symbols = {}, double tolerance = 0,
                        const RunKernel &run = run_by_interpreter) {
  SCOPED_TRACE(text);
  for (const Machine &machine : test_machines()) {
    Group group(text, kind);
    std::vector<Tensor> want = graph::interpret(*group.region, inputs, symbols);
    GroupRun got = run_group(group, inputs, symbols, machine, run);
    ASSERT_EQ(got.status, 0);
    for (size_t i = 0; i < want.size(); ++i)
      expect_equal(want[i], got.results[i], tolerance, "result " + std::to_string(i));
  }
}

} // namespace oxyfuel::testing
