#include "python/call_state.h"

#include <algorithm>

#include "python/torch_bridge.h"

namespace oxyfuel::python {

namespace {

/// Holds the interpreter lock in a callback that runs between `begin` and `end`, where it is released.
class WithInterpreter {
public:
  explicit WithInterpreter(CallState &state) : state_(state), was_released_(state.thread) {
    if (was_released_)
      PyEval_RestoreThread(state.thread);
  }
  ~WithInterpreter() {
    if (was_released_)
      state_.thread = PyEval_SaveThread();
  }

private:
  CallState &state_;
  bool was_released_;
};

bool same_strides(int32_t rank, const int64_t *shape, const int64_t *a, const int64_t *b) {
  for (int32_t axis = 0; axis < rank; ++axis)
    if (shape[axis] == 0)
      return true;
  for (int32_t axis = 0; axis < rank; ++axis)
    if (shape[axis] != 1 && a[axis] != b[axis])
      return false;
  return true;
}

/// One past the last byte.
const void *end_of(const DLTensor &tensor) {
  int64_t elements = 1;
  for (int32_t axis = 0; axis < tensor.ndim; ++axis) {
    if (tensor.shape[axis] == 0)
      return tensor.data;
    elements += (tensor.shape[axis] - 1) * tensor.strides[axis];
  }
  return static_cast<const char *>(tensor.data) + elements * ((tensor.dtype.bits + 7) / 8);
}

/// "torch.float32 on cpu, torch.strided": for messages.
std::string describe(nb::handle value) {
  if (!nb::hasattr(value, "dtype") || !nb::hasattr(value, "device") || !nb::hasattr(value, "layout"))
    return std::string("an object of type ") + Py_TYPE(value.ptr())->tp_name;
  const auto text = [&](const char *name) {
    const nb::object part = value.attr(name);
    return std::string(nb::str(nb::handle(part)).c_str());
  };
  return text("dtype") + " on " + text("device") + ", " + text("layout");
}

DLTensor seen(PyObject *tensor) {
  DLTensor view;
  if (torch_bridge().exchange->dltensor_from_py_object_no_sync(tensor, &view) != 0)
    throw nb::python_error();
  return view;
}

} // namespace

CallState::CallState(Executable &executable_) : executable(executable_) {
  const runtime::Plan &plan = executable.program_->plan();
  const size_t count = plan.arguments.size();
  tensors.resize(count), data.resize(count), shapes.resize(count), strides.resize(count), ranks.resize(count);
  dtypes.resize(count), fingerprints.resize(count), integers.resize(count), inference.resize(count);
  outputs.resize(plan.outputs.size()), extern_results.resize(plan.buffers.size());
}

void CallState::start(nb::list list) {
  arguments = std::move(list);
  message.clear();
}

void CallState::read_tensor(size_t i, int32_t position) {
  const Signature &signature = executable.signature_;
  PyObject *tensor = position < signature.argument_count
                         ? PyList_GET_ITEM(arguments.ptr(), position)
                         : signature.constants[position - signature.argument_count].ptr();
  DLTensor view;
  if (torch_bridge().exchange->dltensor_from_py_object_no_sync(tensor, &view) != 0 ||
      view.device.device_type != kDLCPU || !from_dlpack(view.dtype, dtypes[i])) {
    PyErr_Clear();
    throw std::runtime_error("oxyfuel: argument " + std::to_string(position) +
                             " is no tensor in plain memory of the CPU\n  found  " + describe(tensor));
  }
  if (!view.data && end_of(view) && position < signature.argument_count) {
    // One of autograd's zeros, which have no memory: real zeros take its place.
    nb::object zeros = nb::handle(tensor).attr("clone")();
    tensor = zeros.ptr();
    PyList_SetItem(arguments.ptr(), position, zeros.release().ptr());
    view = seen(tensor);
  }
  tensors[i] = tensor;
  data[i] = static_cast<char *>(view.data) + view.byte_offset;
  shapes[i] = view.shape;
  strides[i] = view.strides;
  ranks[i] = view.ndim;
}

void CallState::read_integer(size_t i, int32_t position) {
  const long long value = PyLong_AsLongLong(PyList_GET_ITEM(arguments.ptr(), position));
  if (value == -1 && PyErr_Occurred())
    throw nb::python_error();
  integers[i] = value;
}

void CallState::fill(runtime::Call &call) {
  call.argument_data = data.data();
  call.argument_shapes = shapes.data();
  call.argument_strides = strides.data();
  call.argument_ranks = ranks.data();
  call.argument_dtypes = dtypes.data();
  call.integers = integers.data();
  call.fingerprints = fingerprints.data();
  call.context = this;
  call.allocate = [](void *self, int32_t index, DType dtype, int32_t rank, const int64_t *shape, const int64_t *stride,
                     void **memory) {
    return static_cast<CallState *>(self)->allocate(index, dtype, rank, shape, stride, memory);
  };
  call.begin = [](void *self) { static_cast<CallState *>(self)->thread = PyEval_SaveThread(); };
  call.end = [](void *self) {
    auto *state = static_cast<CallState *>(self);
    PyEval_RestoreThread(state->thread);
    state->thread = nullptr;
  };
  call.run_extern = [](void *self, const runtime::ExternStep &step) {
    return static_cast<CallState *>(self)->run_extern(step);
  };
  call.deliver = [](void *self, int32_t index, const runtime::Output &description, const int64_t *shape,
                    const int64_t *stride, int64_t offset) {
    return static_cast<CallState *>(self)->deliver(index, description, shape, stride, offset);
  };
}

void CallState::show_steps(runtime::Call &call) {
  call.begin_step = [](void *self, int32_t step) {
    auto *state = static_cast<CallState *>(self);
    WithInterpreter lock(*state);
    state->ranges.begin(state->executable.program_->plan(), step);
  };
  call.end_step = [](void *self, int32_t step) {
    auto *state = static_cast<CallState *>(self);
    WithInterpreter lock(*state);
    state->ranges.end(step);
  };
}

nb::object CallState::output(int32_t index) { return outputs[index]; }

void CallState::finish() {
  for (nb::object &output : outputs)
    output.reset();
  if (holds_extern_results)
    for (nb::object &result : extern_results)
      result.reset();
  as_made.clear();
  holds_extern_results = false;
  arguments = nb::list(nb::handle(), nb::detail::steal_t());
  Py_CLEAR(error);
}

void CallState::keep_error() {
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (trace)
    PyException_SetTraceback(value, trace);
  Py_XDECREF(type), Py_XDECREF(trace);
  if (!error)
    error = value;
  else
    Py_XDECREF(value);
}

void CallState::raise_error() {
  PyObject *value = error;
  error = nullptr;
  PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(value)), value);
  Py_DECREF(value);
  throw nb::python_error();
}

OxyfuelStatus CallState::allocate(int32_t index, DType dtype, int32_t rank, const int64_t *shape, const int64_t *stride,
                                  void **memory) {
  WithInterpreter lock(*this);
  PyObject *tensor = new_tensor(dtype, rank, shape, stride, memory);
  if (!tensor) {
    keep_error();
    return kOxyfuelOutOfMemory;
  }
  outputs[index] = nb::steal(tensor);
  return kOxyfuelOk;
}

OxyfuelStatus CallState::deliver(int32_t index, const runtime::Output &description, const int64_t *shape,
                                 const int64_t *stride, int64_t offset) {
  using Kind = runtime::Output::Kind;
  switch (description.kind) {
  case Kind::kBuffer: break;
  case Kind::kArgument: outputs[index] = nb::borrow(tensors[description.source]); break;
  case Kind::kView: {
    PyObject *base = description.source >= 0 ? tensors[description.source] : outputs[~description.source].ptr();
    outputs[index] = nb::steal(view_of(base, static_cast<int32_t>(description.shape.size()), shape, stride, offset));
    break;
  }
  case Kind::kExtern: {
    const runtime::Step &step = executable.program_->plan().steps[description.source];
    const size_t first = executable.signature_.externs[step.index].operand_ranks.size();
    const int32_t buffer = step.buffers[first + description.result];
    const auto made = executable.is_viewed_[index] ? as_made.end() : as_made.find(buffer);
    outputs[index] = made == as_made.end() ? extern_results[buffer] : made->second;
    break;
  }
  case Kind::kInteger: outputs[index] = nb::int_(offset); break;
  case Kind::kNone: outputs[index] = nb::none(); break;
  }
  if (outputs[index])
    return kOxyfuelOk;
  if (PyErr_Occurred())
    keep_error();
  return kOxyfuelExternFailed;
}

/// A tensor over the memory of operand `i`; an argument is handed over as it is where its layout is the wanted one.
nb::object CallState::operand(const runtime::ExternStep &step, size_t i, int32_t rank, const int64_t *sizes) {
  const runtime::Plan &plan = executable.program_->plan();
  const int32_t index = plan.steps[step.step].buffers[i];
  const runtime::Buffer &buffer = plan.buffers[index];
  const int64_t *shape = sizes + 1, *stride = shape + rank;
  char *start = static_cast<char *>(step.buffers[i]) + sizes[0] * static_cast<int64_t>(size_of(buffer.dtype));
  PyObject *whole = nullptr;
  if (buffer.kind == runtime::Buffer::Kind::kArgument)
    whole = tensors[buffer.index];
  else if (buffer.kind == runtime::Buffer::Kind::kOutput && outputs[buffer.index])
    whole = outputs[buffer.index].ptr();
  else if (buffer.kind == runtime::Buffer::Kind::kExtern && extern_results[index])
    whole = extern_results[index].ptr();
  if (whole) {
    const DLTensor view = seen(whole);
    if (view.data == start && view.ndim == rank && std::equal(shape, shape + rank, view.shape) &&
        same_strides(rank, shape, stride, view.strides))
      return nb::borrow(whole);
  }
  PyObject *tensor = borrow_memory(start, to_dlpack(buffer.dtype), rank, shape, stride);
  if (!tensor)
    throw nb::python_error();
  return nb::steal(tensor);
}

bool CallState::overlaps_operand(const runtime::ExternStep &step, size_t operand_count, const void *begin,
                                 const void *end) const {
  const runtime::Plan &plan = executable.program_->plan();
  const runtime::Step &described = plan.steps[step.step];
  for (size_t i = 0; i < operand_count; ++i) {
    const runtime::Buffer &buffer = plan.buffers[described.buffers[i]];
    const char *from = static_cast<const char *>(step.buffers[i]);
    const int64_t bytes = buffer.bytes == runtime::kNoSlot ? 1 : step.slots[buffer.bytes];
    if (from < static_cast<const char *>(end) && static_cast<const char *>(begin) < from + std::max<int64_t>(bytes, 1))
      return true;
  }
  return false;
}

/// Keeps result `i` and tells the plan where it lies. What PyTorch gives in another layout, or as a view of an operand
/// (whose memory may soon hold something else), is copied. False when its shape is not the one that was promised.
bool CallState::take_result(const runtime::ExternStep &step, size_t i, nb::object tensor, bool has_known_sizes,
                            int32_t rank, const int64_t *sizes) {
  const runtime::Plan &plan = executable.program_->plan();
  const runtime::Step &described = plan.steps[step.step];
  const size_t operand_count = executable.signature_.externs[step.id].operand_ranks.size();
  const size_t at = operand_count + i;
  const int32_t buffer = described.buffers[at];
  DLTensor view = seen(tensor.ptr());
  DType dtype;
  if (view.device.device_type != kDLCPU || view.ndim != rank || !from_dlpack(view.dtype, dtype) ||
      dtype != plan.buffers[buffer].dtype)
    return false;
  std::vector<int64_t> dense(rank, 1);
  const int64_t *wanted = sizes + rank;
  if (has_known_sizes) {
    if (!std::equal(sizes, sizes + rank, view.shape))
      return false;
  } else {
    const std::vector<int32_t> &order = executable.signature_.externs[step.id].result_orders[i];
    for (int32_t k = rank - 1; k > 0; --k)
      dense[order[k - 1]] = dense[order[k]] * std::max<int64_t>(view.shape[order[k]], 1);
    wanted = dense.data();
  }
  const bool overlaps = overlaps_operand(step, operand_count, view.data, end_of(view));
  if (overlaps || !same_strides(rank, view.shape, view.strides, wanted)) {
    if (!overlaps && executable.is_delivered_[buffer])
      as_made[buffer] = tensor;
    void *memory = nullptr;
    nb::object copy = nb::steal(new_tensor(dtype, rank, view.shape, wanted, &memory));
    if (!copy)
      throw nb::python_error();
    if (view.dtype.code != to_dlpack(dtype).code)
      copy = copy.attr("view")(tensor.attr("dtype"));
    copy.attr("copy_")(tensor);
    tensor = std::move(copy);
    view = seen(tensor.ptr());
  }
  step.buffers[at] = static_cast<char *>(view.data) + view.byte_offset;
  extern_results[buffer] = std::move(tensor);
  holds_extern_results = true;
  return true;
}

void CallState::drop_results_before(int32_t step) {
  if (!holds_extern_results)
    return;
  for (size_t i = 0; i < extern_results.size(); ++i)
    if (extern_results[i] && executable.last_use_[i] < step && !executable.is_delivered_[i])
      extern_results[i].reset();
}

void CallState::call_function(const runtime::ExternStep &step) {
  const ExternFunction &function = executable.signature_.externs[step.id];
  const runtime::Step &described = executable.program_->plan().steps[step.step];
  std::vector<int64_t> sizes;
  for (runtime::Slot slot : described.sizes)
    sizes.push_back(step.slots[slot]);
  const int64_t *next = sizes.data();
  nb::list operands, numbers;
  for (size_t i = 0; i < function.operand_ranks.size(); ++i) {
    operands.append(operand(step, i, function.operand_ranks[i], next));
    next += 1 + 2 * function.operand_ranks[i];
  }
  const int64_t *result_sizes = next;
  for (int32_t rank : function.result_ranks)
    next += 2 * rank;
  for (int32_t i = 0; i < function.integer_count; ++i)
    numbers.append(next[i]);

  nb::object results = function.function(operands, numbers);
  if (!function.binds.empty()) {
    nb::object values = results[1];
    results = results[0];
    for (size_t i = 0; i < function.binds.size(); ++i)
      step.symbols[function.binds[i]] = nb::cast<int64_t>(values[i]);
  }
  for (size_t i = 0; i < function.result_ranks.size(); ++i) {
    nb::object tensor = results[i];
    if (!tensor.is_none() &&
        !take_result(step, i, std::move(tensor), function.binds.empty(), function.result_ranks[i], result_sizes)) {
      const std::string text = described.name + ": result " + std::to_string(i) + " is not what PyTorch promised";
      throw std::runtime_error(text);
    }
    result_sizes += 2 * function.result_ranks[i];
  }
}

OxyfuelStatus CallState::run_extern(const runtime::ExternStep &step) {
  WithInterpreter lock(*this);
  drop_results_before(step.step);
  try {
    call_function(step);
    return kOxyfuelOk;
  } catch (nb::python_error &raised) {
    raised.restore();
  } catch (const std::exception &raised) {
    PyErr_SetString(PyExc_RuntimeError, raised.what());
  }
  keep_error();
  return kOxyfuelExternFailed;
}

} // namespace oxyfuel::python
