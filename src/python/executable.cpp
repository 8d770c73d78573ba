#include "python/executable.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <nanobind/stl/string.h>

#include "python/call_state.h"
#include "python/profiling.h"
#include "python/torch_bridge.h"
#include "runtime/program_file.h"
#include "support/error.h"
#include "support/memory.h"

namespace oxyfuel::python {

namespace {

std::atomic<uint64_t> epoch{0};

[[noreturn]] void raise_status(OxyfuelStatus status, const std::string &message) {
  switch (status) {
  case kOxyfuelIndexOutOfRange: throw nb::index_error(message.c_str());
  case kOxyfuelDivisionByZero: throw std::runtime_error("ZeroDivisionError");
  case kOxyfuelOutOfMemory:
    throw std::runtime_error("oxyfuel: not enough memory\n  found  " + message +
                             "\n  or     smaller batches; other tensors freed first");
  case kOxyfuelAssertFailed: throw std::runtime_error(message);
  default: throw std::runtime_error("oxyfuel: " + message);
  }
}

/// The version counter of a static argument. Inference tensors have none; they never change in place outside of
/// inference mode, and samples see the rest.
uint64_t version_of(PyObject *tensor, SeenInference &seen, const void *data) {
  static PyObject *name = PyUnicode_InternFromString("_version");
  if (seen.object == tensor && seen.data == data)
    return 0;
  PyObject *version = PyObject_GetAttr(tensor, name);
  if (!version) {
    PyErr_Clear();
    seen = {tensor, data};
    return 0;
  }
  const uint64_t value = PyLong_AsUnsignedLongLongMask(version);
  Py_DECREF(version);
  return value;
}

nb::object number_of(PyObject *tensor, bool is_boolean) {
  DLTensor seen;
  if (torch_bridge().exchange->dltensor_from_py_object_no_sync(tensor, &seen) != 0)
    throw nb::python_error();
  int64_t value = 0;
  std::memcpy(&value, seen.data, sizeof value);
  return is_boolean ? nb::object(nb::bool_(value != 0)) : nb::object(nb::int_(value));
}

} // namespace

void bump_epoch() { epoch.fetch_add(1, std::memory_order_relaxed); }

Executable::Executable(nb::bytes program, Signature signature) : signature_(std::move(signature)) {
  std::string message;
  program_ = runtime::read_program(static_cast<const uint8_t *>(program.data()), program.size(), message);
  if (!program_ && !can_run_new_code())
    throw UnsupportedError(
        "this system does not let the process run code that it makes",
        {.found = message, .hint = "a service without MemoryDenyWriteExecute, a policy that grants execmem"});
  if (!program_)
    throw nb::value_error(("a compiled program does not load: " + message).c_str());
  const runtime::Plan &plan = program_->plan();
  if (plan.arguments.size() != signature_.positions.size())
    throw nb::value_error("the program has other arguments than its signature");
  const auto total = static_cast<int32_t>(signature_.argument_count + signature_.constants.size());
  for (int32_t position : signature_.positions)
    if (position < 0 || position >= total)
      throw nb::value_error("an argument of the program does not exist");
  for (const OutputRecipe &recipe : signature_.outputs) {
    const bool is_argument = recipe.kind == OutputRecipe::Kind::kArgument || recipe.kind == OutputRecipe::Kind::kView;
    const auto limit = is_argument ? signature_.argument_count : static_cast<int32_t>(plan.outputs.size());
    if (recipe.kind != OutputRecipe::Kind::kConstant && (recipe.index < 0 || recipe.index >= limit))
      throw nb::value_error("an output of the signature does not exist");
  }
  is_bound_.assign(plan.arguments.size(), 0);
  for (const runtime::Step &step : plan.bind_steps)
    for (int32_t buffer : step.buffers)
      if (plan.buffers[buffer].kind == runtime::Buffer::Kind::kArgument)
        is_bound_[plan.buffers[buffer].index] = 1;
  find_last_uses();
  const char *poison = std::getenv("OXYFUEL_POISON");
  poison_ = poison && *poison && *poison != '0';
}

Executable::~Executable() = default;

/// A use inside of a loop lasts until the outermost loop ends.
void Executable::find_last_uses() {
  const runtime::Plan &plan = program_->plan();
  last_use_.assign(plan.buffers.size(), -1);
  is_delivered_.assign(plan.buffers.size(), 0), is_viewed_.assign(plan.outputs.size(), 0);
  int32_t control_end = -1;
  for (int32_t i = 0; i < static_cast<int32_t>(plan.steps.size()); ++i) {
    const runtime::Step &step = plan.steps[i];
    if (i > control_end && (step.body > 0 || step.other > 0))
      control_end = i + step.body + step.other;
    for (int32_t buffer : step.buffers)
      last_use_[buffer] = std::max(i, control_end);
    if (step.kind != runtime::Step::Kind::kExtern)
      continue;
    if (step.index < 0 || step.index >= static_cast<int32_t>(signature_.externs.size()))
      throw nb::value_error("an extern step of the program has no function");
    const ExternFunction &function = signature_.externs[step.index];
    size_t sizes = function.integer_count;
    for (int32_t rank : function.operand_ranks)
      sizes += 1 + 2 * rank;
    bool is_ordered = function.result_orders.size() == function.result_ranks.size();
    for (size_t r = 0; r < function.result_ranks.size(); ++r) {
      sizes += 2 * function.result_ranks[r];
      is_ordered = is_ordered && static_cast<int32_t>(function.result_orders[r].size()) == function.result_ranks[r];
    }
    if (!is_ordered || step.buffers.size() != function.operand_ranks.size() + function.result_ranks.size() ||
        step.sizes.size() != sizes)
      throw nb::value_error(("extern step " + step.name + " does not fit its function").c_str());
  }
  for (const OutputRecipe &recipe : signature_.outputs)
    if (recipe.kind == OutputRecipe::Kind::kShared)
      is_viewed_.at(recipe.index) = 1;
  for (const runtime::Output &output : plan.outputs)
    if (output.kind == runtime::Output::Kind::kExtern) {
      const runtime::Step &step = plan.steps[output.source];
      const size_t first = signature_.externs[step.index].operand_ranks.size();
      is_delivered_[step.buffers.at(first + output.result)] = 1;
    }
}

std::unique_ptr<CallState> Executable::take_state() {
  if (idle_.empty())
    return std::make_unique<CallState>(*this);
  std::unique_ptr<CallState> state = std::move(idle_.back());
  idle_.pop_back();
  return state;
}

nb::list Executable::step_times() {
  static constexpr const char *kinds[] = {"kernel", "extern", "sizes", "loop", "branch", "while", "copy"};
  const auto &steps = program_->plan().steps;
  nb::list result;
  for (size_t i = 0; i < times_.size(); ++i)
    result.append(nb::make_tuple(kinds[static_cast<size_t>(steps[i].kind)], steps[i].name, steps[i].location,
                                 times_[i].runs, times_[i].nanoseconds, times_[i].begin, times_[i].end));
  return result;
}

void Executable::add_times(const std::vector<runtime::StepTime> &times) {
  times_.resize(times.size());
  for (size_t i = 0; i < times.size(); ++i) {
    times_[i].runs += times[i].runs;
    times_[i].nanoseconds += times[i].nanoseconds;
    if (times[i].runs > 0)
      times_[i].begin = times[i].begin, times_[i].end = times[i].end;
  }
}

nb::list Executable::call(nb::list arguments) {
  if (PyList_GET_SIZE(arguments.ptr()) != signature_.argument_count)
    throw nb::type_error(("found " + std::to_string(PyList_GET_SIZE(arguments.ptr())) + " arguments, wanted " +
                          std::to_string(signature_.argument_count))
                             .c_str());
  std::unique_ptr<CallState> state = take_state();
  state->start(arguments);
  const uint64_t now = epoch.load(std::memory_order_relaxed) << 40;
  const std::vector<runtime::Argument> &described = program_->plan().arguments;
  for (size_t i = 0; i < described.size(); ++i) {
    if (described[i].kind == runtime::Argument::Kind::kInteger) {
      state->read_integer(i, signature_.positions[i]);
      continue;
    }
    state->read_tensor(i, signature_.positions[i]);
    if (is_bound_[i])
      state->fingerprints[i] = now ^ version_of(state->tensors[i], state->inference[i], state->data[i]);
  }

  runtime::Call call;
  state->fill(call);
  call.threads = thread_count();
  const bool records = records_steps();
  if (records) {
    state->times.assign(program_->plan().steps.size(), {});
    call.step_times = state->times.data();
  }
  if (torch_profiler_is_on())
    state->show_steps(call);
  call.poison = poison_;
  const OxyfuelStatus status = program_->run(call, &state->message);
  if (records)
    add_times(state->times);
  if (state->has_error())
    state->raise_error();
  if (status != kOxyfuelOk)
    raise_status(status, state->message);

  nb::list results = nb::steal<nb::list>(PyList_New(static_cast<Py_ssize_t>(signature_.outputs.size())));
  for (size_t i = 0; i < signature_.outputs.size(); ++i) {
    const OutputRecipe &recipe = signature_.outputs[i];
    nb::object value;
    switch (recipe.kind) {
    case OutputRecipe::Kind::kConstant: value = recipe.constant; break;
    case OutputRecipe::Kind::kArgument: value = nb::borrow(PyList_GET_ITEM(arguments.ptr(), recipe.index)); break;
    case OutputRecipe::Kind::kView:
    case OutputRecipe::Kind::kShared: {
      const bool is_argument = recipe.kind == OutputRecipe::Kind::kView;
      nb::object base =
          is_argument ? nb::borrow(PyList_GET_ITEM(arguments.ptr(), recipe.index)) : state->output(recipe.index);
      value = nb::steal(view_of(base.ptr(), static_cast<int32_t>(recipe.shape.size()), recipe.shape.data(),
                                recipe.strides.data(), recipe.offset));
      break;
    }
    case OutputRecipe::Kind::kResult: value = state->output(recipe.index); break;
    case OutputRecipe::Kind::kInteger: value = number_of(state->output(recipe.index).ptr(), false); break;
    case OutputRecipe::Kind::kBoolean: value = number_of(state->output(recipe.index).ptr(), true); break;
    }
    if (!value)
      throw nb::python_error();
    PyList_SET_ITEM(results.ptr(), static_cast<Py_ssize_t>(i), value.release().ptr());
  }
  state->finish();
  idle_.push_back(std::move(state));
  PyList_SetSlice(arguments.ptr(), 0, PyList_GET_SIZE(arguments.ptr()), nullptr);
  return results;
}

} // namespace oxyfuel::python
