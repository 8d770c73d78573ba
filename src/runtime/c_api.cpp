// The C interface over Program: thin.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "oxyfuel/runtime.h"
#include "runtime/program.h"
#include "runtime/program_file.h"

using namespace oxyfuel;
using namespace oxyfuel::runtime;

struct oxyfuel_program {
  std::unique_ptr<Program> program;
};

namespace {

thread_local std::string last_error;

void describe(oxyfuel_tensor &tensor, DType dtype, size_t rank, const int64_t *shape, const int64_t *strides) {
  tensor.dtype = static_cast<int32_t>(dtype);
  tensor.rank = static_cast<int32_t>(rank);
  std::copy_n(shape, rank, tensor.shape);
  std::copy_n(strides, rank, tensor.strides);
}

/// Memory for a tensor that is not a view: aligned like an arena buffer.
OxyfuelStatus own(oxyfuel_tensor &tensor, DType dtype) {
  size_t elements = 1;
  for (int32_t axis = 0; axis < tensor.rank; ++axis)
    elements = tensor.shape[axis] == 0 || elements == 0
                   ? 0
                   : elements + static_cast<size_t>(tensor.shape[axis] - 1) * static_cast<size_t>(tensor.strides[axis]);
  const size_t bytes = std::max<size_t>(elements * size_of(dtype), 1);
  if (posix_memalign(&tensor.owned, 64, bytes) != 0) {
    tensor.owned = nullptr;
    return kOxyfuelOutOfMemory;
  }
  tensor.data = tensor.owned;
  return kOxyfuelOk;
}

struct Run {
  const oxyfuel_tensor *arguments;
  oxyfuel_tensor *outputs;
};

OxyfuelStatus allocate(void *context, int32_t output, DType dtype, int32_t rank, const int64_t *shape,
                       const int64_t *strides, void **data) {
  oxyfuel_tensor &tensor = static_cast<Run *>(context)->outputs[output];
  describe(tensor, dtype, static_cast<size_t>(rank), shape, strides);
  const OxyfuelStatus status = own(tensor, dtype);
  *data = tensor.data;
  return status;
}

OxyfuelStatus deliver(void *context, int32_t output, const Output &description, const int64_t *shape,
                      const int64_t *strides, int64_t offset) {
  const Run &run = *static_cast<Run *>(context);
  oxyfuel_tensor &tensor = run.outputs[output];
  switch (description.kind) {
  case Output::Kind::kArgument:
    tensor = run.arguments[description.source];
    tensor.owned = nullptr;
    return kOxyfuelOk;
  case Output::Kind::kView: {
    const oxyfuel_tensor &source =
        description.source >= 0 ? run.arguments[description.source] : run.outputs[~description.source];
    describe(tensor, description.dtype, description.shape.size(), shape, strides);
    tensor.data = source.data
                      ? static_cast<char *>(source.data) + offset * static_cast<int64_t>(size_of(description.dtype))
                      : nullptr;
    return kOxyfuelOk;
  }
  case Output::Kind::kInteger: {
    describe(tensor, DType::kI64, 0, nullptr, nullptr);
    const OxyfuelStatus status = own(tensor, DType::kI64);
    if (status == kOxyfuelOk)
      *static_cast<int64_t *>(tensor.data) = offset;
    return status;
  }
  case Output::Kind::kNone: return kOxyfuelOk;
  default: return kOxyfuelExternFailed;
  }
}

/// What the C interface cannot serve.
std::string find_obstacle(const Plan &plan) {
  for (const Step &step : plan.steps)
    if (step.kind == Step::Kind::kExtern)
      return "program needs its host for " + (step.name.empty() ? "an operator" : step.name);
  for (const Argument &argument : plan.arguments)
    if (argument.shape.size() > OXYFUEL_MAX_RANK)
      return "argument " + argument.name + " has more than 16 axes";
  for (const Output &output : plan.outputs)
    if (output.shape.size() > OXYFUEL_MAX_RANK)
      return "an output has more than 16 axes";
  return "";
}

} // namespace

oxyfuel_program *oxyfuel_load(const void *bytes, size_t size) {
  last_error.clear();
  auto program = read_program(static_cast<const uint8_t *>(bytes), size, last_error);
  if (!program)
    return nullptr;
  last_error = find_obstacle(program->plan());
  return last_error.empty() ? new oxyfuel_program{std::move(program)} : nullptr;
}

void oxyfuel_unload(oxyfuel_program *program) { delete program; }

size_t oxyfuel_argument_count(const oxyfuel_program *program) { return program->program->plan().arguments.size(); }
size_t oxyfuel_output_count(const oxyfuel_program *program) { return program->program->plan().outputs.size(); }
const char *oxyfuel_argument_name(const oxyfuel_program *program, size_t index) {
  const auto &arguments = program->program->plan().arguments;
  return index < arguments.size() ? arguments[index].name.c_str() : nullptr;
}

int oxyfuel_run(oxyfuel_program *program, const oxyfuel_tensor *arguments, oxyfuel_tensor *outputs, int threads) {
  const Plan &plan = program->program->plan();
  const size_t count = plan.arguments.size();
  std::vector<void *> data(count);
  std::vector<const int64_t *> shapes(count), strides(count);
  std::vector<int64_t> integers(count);
  std::vector<int32_t> ranks(count);
  std::vector<DType> dtypes(count);
  for (size_t i = 0; i < count; ++i) {
    data[i] = arguments[i].data;
    shapes[i] = arguments[i].shape;
    strides[i] = arguments[i].strides;
    ranks[i] = arguments[i].rank;
    if (arguments[i].dtype < 0 || arguments[i].dtype >= kDTypeCount) {
      last_error = "argument " + std::to_string(i) + " has no element type";
      return kOxyfuelBadArgument;
    }
    dtypes[i] = static_cast<DType>(arguments[i].dtype);
    if (plan.arguments[i].kind != Argument::Kind::kInteger)
      continue;
    if (dtypes[i] != DType::kI64 || ranks[i] != 0 || !data[i]) {
      last_error = "argument " + std::to_string(i) + " is an integer: a tensor of rank 0 and type i64 is wanted";
      return kOxyfuelBadArgument;
    }
    integers[i] = *static_cast<const int64_t *>(data[i]);
  }
  std::fill_n(outputs, plan.outputs.size(), oxyfuel_tensor{});
  Run context{arguments, outputs};
  Call call;
  call.argument_data = data.data();
  call.argument_shapes = shapes.data();
  call.argument_strides = strides.data();
  call.integers = integers.data();
  call.argument_ranks = ranks.data();
  call.argument_dtypes = dtypes.data();
  call.threads = threads;
  call.context = &context;
  call.allocate = allocate;
  call.deliver = deliver;
  const OxyfuelStatus status = program->program->run(call, &last_error);
  if (status != kOxyfuelOk)
    oxyfuel_release(outputs, plan.outputs.size());
  return status;
}

void oxyfuel_release(oxyfuel_tensor *outputs, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    std::free(outputs[i].owned);
    outputs[i] = oxyfuel_tensor{};
  }
}

void oxyfuel_invalidate(oxyfuel_program *program) { program->program->invalidate(); }

const char *oxyfuel_error(void) { return last_error.c_str(); }
