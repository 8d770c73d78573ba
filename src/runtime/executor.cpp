#include "runtime/executor.h"

#include <algorithm>
#include <cstring>

#include "runtime/host_table.h"
#include "support/system.h"

namespace oxyfuel::runtime {
namespace {

constexpr int64_t kCopyGrain = 256 << 10; // bytes that one thread copies in about 20 us

/// Steps after this one that belong to it.
int32_t inner_steps(const Action &action) {
  switch (action.kind) {
  case Step::Kind::kLoop: return action.body;
  case Step::Kind::kBranch:
  case Step::Kind::kWhile: return action.body + action.other;
  default: return 0;
  }
}

struct KernelCall {
  OxyfuelKernel kernel;
  void *const *buffers;
  const int64_t *sizes;
  const OxyfuelHostTable *host;
};

int32_t run_tasks(void *context, int64_t begin, int64_t end, void *scratch) {
  const auto &call = *static_cast<const KernelCall *>(context);
  return call.kernel(call.buffers, call.sizes, begin, end, scratch, call.host);
}

OxyfuelStatus run_copy(const Tables &tables, const Action &action, Frame &frame, Region &region) {
  const int32_t *operands = &tables.operand_buffers[action.buffers.begin];
  auto *source = static_cast<const uint8_t *>(frame.buffers[operands[0]]);
  auto *target = static_cast<uint8_t *>(frame.buffers[operands[1]]);
  const int64_t bytes = std::max<int64_t>(frame.slots[action.grid], 0);
  if (bytes == 0 || source == target)
    return kOxyfuelOk;
  const auto from = reinterpret_cast<uintptr_t>(source), to = reinterpret_cast<uintptr_t>(target);
  const auto length = static_cast<uintptr_t>(bytes);
  if (from < to + length && to < from + length) {
    std::memmove(target, source, length); // arguments may overlap
    return kOxyfuelOk;
  }
  return static_cast<OxyfuelStatus>(
      region.parallel_for(bytes, kCopyGrain, 0, [&](int64_t begin, int64_t end, void *) -> int32_t {
        std::memcpy(target + begin, source + begin, static_cast<size_t>(end - begin));
        return kOxyfuelOk;
      }));
}

/// Bytes from the first to the last element of a tensor.
int64_t span_bytes(const int64_t *shape, const int64_t *strides, size_t rank, DType dtype) {
  int64_t elements = 1;
  for (size_t axis = 0; axis < rank; ++axis) {
    if (shape[axis] <= 0)
      return 0;
    elements += (shape[axis] - 1) * strides[axis];
  }
  return elements * static_cast<int64_t>(size_of(dtype));
}

} // namespace

OxyfuelStatus run_action(const Tables &tables, const Action &action, Frame &frame, Region &region) {
  if (action.kind == Step::Kind::kCopy)
    return run_copy(tables, action, frame, region);
  const int32_t *buffers = tables.operand_buffers.data() + action.buffers.begin;
  for (uint32_t i = 0; i < action.buffers.count; ++i)
    frame.step_buffers[i] = frame.buffers[buffers[i]];
  const Slot *sizes = tables.operand_slots.data() + action.sizes.begin;
  for (uint32_t i = 0; i < action.sizes.count; ++i)
    frame.step_sizes[i] = frame.slots[sizes[i]];
  KernelCall call{action.kernel, frame.step_buffers.data(), frame.step_sizes.data(), &host_table()};
  return static_cast<OxyfuelStatus>(
      region.parallel_for(frame.slots[action.grid], action.grain, action.scratch_bytes, run_tasks, &call));
}

std::string describe_failure(OxyfuelStatus status, const Step &step) {
  const char *problem = "failed";
  switch (status) {
  case kOxyfuelOk: problem = "succeeded"; break;
  case kOxyfuelIndexOutOfRange: problem = "index out of range"; break;
  case kOxyfuelDivisionByZero: problem = "integer division by zero"; break;
  case kOxyfuelAssertFailed: problem = "an assertion of the program failed"; break;
  case kOxyfuelOutOfMemory: problem = "no memory for its scratch space"; break;
  case kOxyfuelExternFailed: problem = "an operator run by the host failed"; break;
  case kOxyfuelBadArgument: problem = "an argument does not fit"; break;
  }
  return step.name.empty() ? problem : step.name + ": " + problem;
}

OxyfuelStatus Executor::fail(OxyfuelStatus status, const std::string &text) {
  if (message_ && message_->empty())
    *message_ = text;
  return status;
}

OxyfuelStatus Executor::allocate_output(int32_t index) {
  const Output &output = tables_.plan.outputs[index];
  int64_t *shape = frame_.step_sizes.data(), *strides = frame_.step_strides.data();
  const size_t rank = output.shape.size();
  for (size_t axis = 0; axis < rank; ++axis) {
    shape[axis] = frame_.slots[output.shape[axis]];
    strides[axis] = frame_.slots[output.strides[axis]];
  }
  const int64_t bytes = span_bytes(shape, strides, rank, output.dtype);
  void *data = nullptr;
  const OxyfuelStatus status = call_.allocate ? call_.allocate(call_.context, index, output.dtype,
                                                               static_cast<int32_t>(rank), shape, strides, &data)
                                              : kOxyfuelOutOfMemory;
  if (status != kOxyfuelOk || (!data && bytes > 0))
    return fail(status != kOxyfuelOk ? status : kOxyfuelOutOfMemory,
                "no memory for output " + std::to_string(index) + " of " + std::to_string(bytes) + " bytes");
  if (call_.poison && bytes > 0)
    std::memset(data, 0xff, static_cast<size_t>(bytes));
  frame_.buffers[output.source] = data;
  frame_.allocated[index] = 1;
  return kOxyfuelOk;
}

OxyfuelStatus Executor::allocate_early_outputs() {
  for (int32_t output : tables_.early_outputs)
    if (const OxyfuelStatus status = allocate_output(output); status != kOxyfuelOk)
      return status;
  return kOxyfuelOk;
}

OxyfuelStatus Executor::allocate_before(const Action &action) {
  for (uint32_t i = 0; i < action.allocate.count; ++i) {
    const int32_t index = tables_.late_buffers[action.allocate.begin + i];
    const Buffer &buffer = tables_.plan.buffers[index];
    if (buffer.kind == Buffer::Kind::kOutput) {
      if (!frame_.allocated[buffer.index])
        if (const OxyfuelStatus status = allocate_output(buffer.index); status != kOxyfuelOk)
          return status;
      continue;
    }
    AlignedMemory &memory = frame_.dynamic[tables_.dynamic_index[index]];
    const int64_t bytes = frame_.slots[buffer.bytes];
    if (bytes < 0 || !memory.reserve(static_cast<size_t>(bytes)))
      return fail(kOxyfuelOutOfMemory, "no memory for a result of " + std::to_string(bytes) + " bytes");
    if (call_.poison && bytes > 0)
      std::memset(memory.data(), 0xff, static_cast<size_t>(bytes));
    frame_.buffers[index] = memory.data();
  }
  return kOxyfuelOk;
}

OxyfuelStatus Executor::run_steps() {
  const OxyfuelStatus status = run_range(0, static_cast<int32_t>(tables_.actions.size()));
  region_.pause();
  return status;
}

OxyfuelStatus Executor::run_range(int32_t begin, int32_t end) {
  for (int32_t i = begin; i < end; ++i) {
    const OxyfuelStatus status = is_watched_ ? run_watched(i) : run_step(i);
    if (status != kOxyfuelOk)
      return status;
    i += inner_steps(tables_.actions[i]);
  }
  return kOxyfuelOk;
}

OxyfuelStatus Executor::run_watched(int32_t index) {
  if (call_.begin_step)
    call_.begin_step(call_.context, index);
  const int64_t begin = monotonic_nanoseconds();
  const OxyfuelStatus status = run_step(index);
  const int64_t end = monotonic_nanoseconds();
  if (call_.begin_step)
    call_.end_step(call_.context, index);
  if (call_.step_times) {
    StepTime &time = call_.step_times[index];
    time = {time.runs + 1, time.nanoseconds + end - begin, begin, end};
  }
  return status;
}

OxyfuelStatus Executor::run_step(int32_t index) {
  const Action &action = tables_.actions[index];
  if (action.allocate.count > 0)
    if (const OxyfuelStatus status = allocate_before(action); status != kOxyfuelOk)
      return status;
  OxyfuelStatus status = kOxyfuelOk;
  switch (action.kind) {
  case Step::Kind::kKernel:
  case Step::Kind::kCopy: status = run_action(tables_, action, frame_, region_); break;
  case Step::Kind::kExtern: status = run_extern(action, index); break;
  case Step::Kind::kSizes: status = update_sizes(); break;
  case Step::Kind::kLoop: return run_loop(action, index);
  case Step::Kind::kBranch: return run_branch(action, index);
  case Step::Kind::kWhile: return run_while(action, index);
  }
  return status == kOxyfuelOk ? status : fail(status, describe_failure(status, tables_.plan.steps[index]));
}

/// Only the counter's own slot changes from one iteration to the next: steps name it among their sizes.
OxyfuelStatus Executor::run_loop(const Action &action, int32_t index) {
  const int64_t count = frame_.slots[action.grid];
  for (int64_t i = 0; i < count; ++i) {
    if (action.symbol >= 0)
      frame_.slots[action.symbol] = action.reverse ? count - 1 - i : i;
    if (const OxyfuelStatus status = run_range(index + 1, index + 1 + action.body); status != kOxyfuelOk)
      return status;
  }
  return kOxyfuelOk;
}

bool Executor::condition(const Action &action) const {
  const int32_t index = tables_.operand_buffers[action.buffers.begin];
  const DType dtype = tables_.plan.buffers[index].dtype;
  uint8_t bytes[16] = {};
  const size_t size = size_of(dtype), part = size_of(real_of(dtype));
  std::memcpy(bytes, frame_.buffers[index], size);
  if (is_float(dtype) || is_complex(dtype))
    for (size_t end = part; end <= size; end += part)
      bytes[end - 1] &= 0x7f; // -0.0 is zero
  return std::any_of(bytes, bytes + size, [](uint8_t byte) { return byte != 0; });
}

OxyfuelStatus Executor::run_branch(const Action &action, int32_t index) {
  const int32_t first = index + 1, second = first + action.body;
  return condition(action) ? run_range(first, second) : run_range(second, second + action.other);
}

OxyfuelStatus Executor::run_while(const Action &action, int32_t index) {
  const int32_t test = index + 1, body = test + action.body;
  for (;;) {
    if (const OxyfuelStatus status = run_range(test, body); status != kOxyfuelOk)
      return status;
    if (!condition(action))
      return kOxyfuelOk;
    if (const OxyfuelStatus status = run_range(body, body + action.other); status != kOxyfuelOk)
      return status;
  }
}

OxyfuelStatus Executor::run_extern(const Action &action, int32_t index) {
  if (!call_.run_extern)
    return kOxyfuelExternFailed;
  region_.pause(); // PyTorch's own threads want the CPUs now
  const int32_t *operands = tables_.operand_buffers.data() + action.buffers.begin;
  for (uint32_t i = 0; i < action.buffers.count; ++i)
    frame_.step_buffers[i] = frame_.buffers[operands[i]];
  std::copy_n(frame_.slots.begin(), frame_.symbols.size(), frame_.symbols.begin());
  const ExternStep step{action.index,
                        index,
                        frame_.slots.data(),
                        frame_.step_buffers.data(),
                        static_cast<int32_t>(action.buffers.count),
                        frame_.symbols.data()};
  if (const OxyfuelStatus status = call_.run_extern(call_.context, step); status != kOxyfuelOk)
    return status;
  for (uint32_t i = 0; i < action.buffers.count; ++i)
    if (tables_.plan.buffers[operands[i]].kind == Buffer::Kind::kExtern)
      frame_.buffers[operands[i]] = frame_.step_buffers[i];
  for (size_t i = 0; i < frame_.symbols.size(); ++i)
    if (tables_.plan.symbols[i].kind == SymbolSource::Kind::kStep)
      frame_.slots[i] = frame_.symbols[i];
  return kOxyfuelOk;
}

OxyfuelStatus Executor::update_sizes() {
  std::copy_n(frame_.slots.begin(), frame_.symbols.size(), frame_.symbols.begin());
  void *const buffers[] = {frame_.slots.data()};
  return static_cast<OxyfuelStatus>(tables_.sizes_kernel(buffers, frame_.symbols.data(), 0, 1, nullptr, &host_table()));
}

OxyfuelStatus Executor::deliver_outputs() {
  for (size_t i = 0; i < tables_.plan.outputs.size(); ++i) {
    const Output &output = tables_.plan.outputs[i];
    const int32_t index = static_cast<int32_t>(i);
    if (output.kind == Output::Kind::kBuffer) {
      if (!frame_.allocated[i])
        if (const OxyfuelStatus status = allocate_output(index); status != kOxyfuelOk)
          return status;
      continue;
    }
    if (!call_.deliver)
      continue;
    for (size_t axis = 0; axis < output.shape.size(); ++axis) {
      frame_.step_sizes[axis] = frame_.slots[output.shape[axis]];
      frame_.step_strides[axis] = frame_.slots[output.strides[axis]];
    }
    const int64_t offset = output.offset == kNoSlot ? 0 : frame_.slots[output.offset];
    if (const OxyfuelStatus status =
            call_.deliver(call_.context, index, output, frame_.step_sizes.data(), frame_.step_strides.data(), offset);
        status != kOxyfuelOk)
      return fail(status, "output " + std::to_string(i) + " cannot be made");
  }
  return kOxyfuelOk;
}

} // namespace oxyfuel::runtime
