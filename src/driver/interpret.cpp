// Kernels are plain functions to the runtime, without a place for an interpreter's state: function number N of a fixed
// table runs kernel N of the set that this thread runs. One thread runs all tasks, so that a kernel is entered once a
// step.
#include "driver/interpret.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <utility>

#include "driver/kernels.h"
#include "driver/pipeline.h"
#include "driver/plan_builder.h"
#include "runtime/program.h"
#include "support/error.h"

namespace oxyfuel {
namespace {

constexpr size_t kMostKernels = 256;

struct Run {
  const KernelSet *kernels = nullptr;
  std::exception_ptr failure;
};
thread_local Run *current = nullptr;

template <size_t N>
int32_t run_kernel(void *const *buffers, const int64_t *sizes, int64_t, int64_t, void *, const OxyfuelHostTable *) {
  try { // the runtime does not throw
    const loop::Kernel &kernel = current->kernels->kernel(static_cast<int>(N));
    return loop::interpret(kernel, {buffers, buffers + kernel.buffers.size()}, {sizes, sizes + kernel.sizes.size()});
  } catch (...) {
    current->failure = std::current_exception();
    return kOxyfuelAssertFailed;
  }
}

template <size_t... N> constexpr std::array<OxyfuelKernel, sizeof...(N)> make_table(std::index_sequence<N...>) {
  return {run_kernel<N>...};
}

/// Memory of the outputs, as the program lays them out.
struct Outputs {
  std::vector<std::vector<std::byte>> data;
  std::vector<std::vector<int64_t>> strides;
  std::vector<graph::Tensor> tensors;
};

OxyfuelStatus allocate(void *context, int32_t output, DType dtype, int32_t rank, const int64_t *shape,
                       const int64_t *strides, void **data) {
  auto &outputs = *static_cast<Outputs *>(context);
  int64_t elements = 1;
  for (int32_t i = 0; i < rank; ++i)
    elements += std::max<int64_t>(0, shape[i] - 1) * strides[i];
  outputs.data[output].resize(static_cast<size_t>(elements) * size_of(dtype));
  outputs.strides[output].assign(strides, strides + rank);
  outputs.tensors[output] = {dtype, {shape, shape + rank}, {}};
  *data = outputs.data[output].data();
  return kOxyfuelOk;
}

/// The elements in row-major order.
void gather(graph::Tensor &tensor, const std::vector<std::byte> &data, const std::vector<int64_t> &strides) {
  int64_t count = 1;
  for (int64_t extent : tensor.shape)
    count *= extent;
  const size_t size = size_of(tensor.dtype);
  tensor.data.resize(static_cast<size_t>(count) * size);
  for (int64_t place = 0; place < count; ++place) {
    int64_t rest = place, element = 0;
    for (size_t axis = tensor.shape.size(); axis-- > 0; rest /= tensor.shape[axis])
      element += rest % tensor.shape[axis] * strides[axis];
    std::memcpy(tensor.data.data() + static_cast<size_t>(place) * size,
                data.data() + static_cast<size_t>(element) * size, size);
  }
}

} // namespace

std::vector<graph::Tensor> interpret_kernels(graph::Graph &graph, const CompileSettings &settings,
                                             std::vector<std::vector<std::byte>> &inputs) {
  static constexpr auto kTable = make_table(std::make_index_sequence<kMostKernels>());
  PassContext passes(settings.passes);
  CompileReport report;
  run_graph_pipeline(graph, passes);
  KernelSet kernels;
  Machine machine = machine_of(settings);
  PlanBuilder builder(graph, settings, machine, kernels, passes, report);
  builder.build();
  const auto count = static_cast<size_t>(kernels.count());
  OXYFUEL_CHECK(count <= kMostKernels, "a program of more kernels than the interpreter has room for");
  OXYFUEL_CHECK(inputs.size() == graph.inputs().size(), "the memory of every input is wanted");
  for (int i = 0; i < kernels.count(); ++i)
    run_loop_pipeline(kernels.kernel(i), passes);

  Run run{&kernels, nullptr};
  Run *outer = std::exchange(current, &run);
  std::string message;
  auto program = runtime::Program::make(builder.finish(), {kTable.begin(), kTable.begin() + count}, message);
  OxyfuelStatus status = kOxyfuelBadArgument;
  Outputs outputs;
  if (program) {
    const runtime::Plan &plan = program->plan();
    const size_t results = plan.outputs.size();
    outputs.data.resize(results);
    outputs.strides.resize(results);
    outputs.tensors.resize(results);
    std::vector<void *> data;
    std::vector<std::vector<int64_t>> shapes, strides;
    auto constants = [](const std::vector<Expr> &values) {
      std::vector<int64_t> numbers;
      for (Expr value : values)
        numbers.push_back(value.constant().value());
      return numbers;
    };
    for (size_t i = 0; i < inputs.size(); ++i) {
      const graph::Value &input = *graph.inputs()[i];
      data.push_back(inputs[i].data());
      shapes.push_back(constants(input.type.shape));
      strides.push_back(constants(input.layout.strides.empty()
                                      ? graph::contiguous_strides(graph.context(), input.type.shape)
                                      : input.layout.strides));
    }
    std::vector<const int64_t *> shape_pointers, stride_pointers;
    for (size_t i = 0; i < inputs.size(); ++i) {
      shape_pointers.push_back(shapes[i].data());
      stride_pointers.push_back(strides[i].data());
    }
    runtime::Call call;
    call.argument_data = data.data();
    call.argument_shapes = shape_pointers.data();
    call.argument_strides = stride_pointers.data();
    call.context = &outputs;
    call.allocate = allocate;
    call.poison = true;
    status = program->run(call, &message);
    for (size_t i = 0; i < results; ++i)
      if (!outputs.data[i].empty())
        gather(outputs.tensors[i], outputs.data[i], outputs.strides[i]);
  }
  current = outer;
  if (run.failure)
    std::rethrow_exception(run.failure);
  OXYFUEL_CHECK(status == kOxyfuelOk, "an interpreted program fails: " + message);
  return std::move(outputs.tensors);
}

} // namespace oxyfuel
