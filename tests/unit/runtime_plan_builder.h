// Plans for tests, with C++ functions as kernels: vectors of f32 of one symbolic length n, and an output of the same
// length.
#pragma once

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "runtime/plan.h"
#include "runtime/program.h"

namespace oxyfuel::runtime {

/// Slots: 0 the symbol n, 1 the loop counter or bound size m, then what the sizes kernel computes.
enum TestSlot : Slot { kN = 0, kM = 1, kOne = 2, kBytesN = 3, kBytesM = 4, kThree = 5, kTestSlots = 6 };

inline int32_t test_sizes(void *const *buffers, const int64_t *symbols, int64_t, int64_t, void *,
                          const OxyfuelHostTable *) {
  auto *slots = static_cast<int64_t *>(buffers[0]);
  slots[kOne] = 1;
  slots[kBytesN] = symbols[kN] * 4;
  slots[kBytesM] = symbols[kM] * 4;
  slots[kThree] = 3;
  return kOxyfuelOk;
}

struct PlanBuilder {
  Plan plan;
  std::vector<OxyfuelKernel> kernels;

  /// A plan with the slots above; `arguments` tensors of shape [n].
  explicit PlanBuilder(int arguments = 1) {
    plan.symbol_count = 2;
    plan.slot_count = kTestSlots;
    plan.symbols = {{SymbolSource::Kind::kSize, 0, 0}, {SymbolSource::Kind::kStep, 0, 0}};
    plan.sizes_kernel = kernel("sizes", test_sizes);
    for (int i = 0; i < arguments; ++i) {
      Argument argument;
      argument.shape = {kN};
      argument.strides = {kOne};
      argument.name = "x" + std::to_string(i);
      plan.arguments.push_back(argument);
    }
  }

  int32_t kernel(const std::string &name, OxyfuelKernel code) {
    plan.kernels.push_back({name, 0, 0});
    kernels.push_back(code);
    return static_cast<int32_t>(kernels.size()) - 1;
  }
  int32_t buffer(Buffer::Kind kind, int32_t index = 0, Slot bytes = kBytesN, DType dtype = DType::kF32) {
    plan.buffers.push_back({kind, dtype, index, bytes, 0, 0});
    return static_cast<int32_t>(plan.buffers.size()) - 1;
  }
  /// An output of shape [extent] in memory of its own.
  int32_t output(Slot extent = kN) {
    const int32_t index = buffer(Buffer::Kind::kOutput, static_cast<int32_t>(plan.outputs.size()), kNoSlot);
    Output output;
    output.source = index;
    output.shape = {extent};
    output.strides = {kOne};
    plan.outputs.push_back(output);
    return index;
  }
  Step &step(OxyfuelKernel code, std::vector<int32_t> buffers, std::vector<Slot> sizes = {}, Slot grid = kN) {
    Step step;
    step.index = kernel("kernel", code);
    step.buffers = std::move(buffers);
    step.sizes = std::move(sizes);
    step.grid = grid;
    step.name = "step " + std::to_string(plan.steps.size());
    plan.steps.push_back(step);
    return plan.steps.back();
  }
  Step &control(Step::Kind kind, std::vector<int32_t> buffers = {}) {
    Step step;
    step.kind = kind;
    step.buffers = std::move(buffers);
    plan.steps.push_back(step);
    return plan.steps.back();
  }
  /// Gives all buffers their lives: from the first to the last step that uses them, or the whole plan when there are
  /// control steps.
  void set_lives() {
    bool control = false;
    for (const Step &step : plan.steps)
      control |= step.kind != Step::Kind::kKernel && step.kind != Step::Kind::kCopy;
    for (size_t b = 0; b < plan.buffers.size(); ++b) {
      int32_t first = -1, last = 0;
      for (size_t s = 0; s < plan.steps.size(); ++s)
        for (int32_t used : plan.steps[s].buffers)
          if (used == static_cast<int32_t>(b)) {
            first = first < 0 ? static_cast<int32_t>(s) : first;
            last = static_cast<int32_t>(s);
          }
      plan.buffers[b].first_step = std::max(first, 0);
      plan.buffers[b].last_step = control ? std::max<int32_t>(static_cast<int32_t>(plan.steps.size()) - 1, 0) : last;
    }
  }
  std::unique_ptr<Program> make() {
    set_lives();
    std::string message;
    auto program = Program::make(plan, kernels, message);
    if (!program) {
      std::fprintf(stderr, "%s\n", message.c_str());
      std::abort();
    }
    return program;
  }
};

/// A call with vectors of f32 as arguments and outputs.
struct TestCall {
  Call call;
  std::vector<void *> data;
  std::vector<int64_t> extents;
  std::vector<const int64_t *> shapes;
  std::vector<uint64_t> fingerprints;
  std::vector<std::vector<float>> outputs;
  std::vector<std::vector<int64_t>> delivered; ///< per delivered output: its index, its offset, its shape
  std::string message, order;

  explicit TestCall(std::vector<std::vector<float> *> arguments, int threads = 1) {
    extents.reserve(arguments.size());
    for (auto *argument : arguments) {
      data.push_back(argument->data());
      extents.push_back(static_cast<int64_t>(argument->size()));
      shapes.push_back(&extents.back());
      fingerprints.push_back(0);
    }
    call.argument_data = data.data();
    call.argument_shapes = shapes.data();
    call.fingerprints = fingerprints.data();
    call.threads = threads;
    call.context = this;
    call.allocate = [](void *context, int32_t output, DType, int32_t rank, const int64_t *shape, const int64_t *,
                       void **place) {
      auto &self = *static_cast<TestCall *>(context);
      self.order += 'a';
      if (self.outputs.size() <= static_cast<size_t>(output))
        self.outputs.resize(static_cast<size_t>(output) + 1);
      self.outputs[static_cast<size_t>(output)].assign(rank ? static_cast<size_t>(shape[0]) : 1, -1.0f);
      *place = self.outputs[static_cast<size_t>(output)].data();
      return kOxyfuelOk;
    };
    call.begin = [](void *context) { static_cast<TestCall *>(context)->order += 'b'; };
    call.end = [](void *context) { static_cast<TestCall *>(context)->order += 'e'; };
    call.deliver = [](void *context, int32_t output, const Output &description, const int64_t *shape, const int64_t *,
                      int64_t offset) {
      auto &self = *static_cast<TestCall *>(context);
      self.order += 'd';
      std::vector<int64_t> all{output, offset};
      all.insert(all.end(), shape, shape + description.shape.size());
      self.delivered.push_back(all);
      return kOxyfuelOk;
    };
  }
  TestCall(const TestCall &) = delete;

  OxyfuelStatus run(Program &program) {
    order.clear();
    delivered.clear();
    return program.run(call, &message);
  }
};

#define OXYFUEL_TEST_KERNEL(name, body)                                                                                \
  inline int32_t name(void *const *buffers, const int64_t *sizes, int64_t begin, int64_t end, void *scratch,           \
                      const OxyfuelHostTable *host) {                                                                  \
    (void)buffers, (void)sizes, (void)scratch, (void)host;                                                             \
    auto in = [&](int i) { return static_cast<float *>(buffers[i]); };                                                 \
    (void)in;                                                                                                          \
    for (int64_t i = begin; i < end; ++i) {                                                                            \
      body;                                                                                                            \
    }                                                                                                                  \
    return kOxyfuelOk;                                                                                                 \
  }

OXYFUEL_TEST_KERNEL(add_one, in(1)[i] = in(0)[i] + 1)
OXYFUEL_TEST_KERNEL(twice, in(1)[i] = in(0)[i] * 2)
OXYFUEL_TEST_KERNEL(add, in(2)[i] = in(0)[i] + in(1)[i])
OXYFUEL_TEST_KERNEL(nothing, )

} // namespace oxyfuel::runtime
