#include "runtime/arguments.h"

namespace oxyfuel::runtime {
namespace {

OxyfuelStatus refuse(const Plan &plan, size_t index, const std::string &found, const std::string &wanted,
                     std::string *message) {
  if (message) {
    const std::string &name = plan.arguments[index].name;
    *message = "argument " + std::to_string(index) + (name.empty() ? "" : " (" + name + ")") + ": found " + found +
               ", wanted " + wanted;
  }
  return kOxyfuelBadArgument;
}

std::string list_text(const int64_t *values, size_t count) {
  std::string text = "[";
  for (size_t i = 0; i < count; ++i)
    text += (i ? ", " : "") + std::to_string(values[i]);
  return text + "]";
}

std::string list_text(const std::vector<Slot> &values, const int64_t *slots) {
  std::vector<int64_t> numbers;
  for (Slot slot : values)
    numbers.push_back(slots[slot]);
  return list_text(numbers.data(), numbers.size());
}

/// Stride of an axis of a contiguous tensor.
int64_t contiguous_stride(const int64_t *shape, size_t rank, size_t axis) {
  int64_t stride = 1;
  for (size_t i = axis + 1; i < rank; ++i)
    stride *= shape[i];
  return stride;
}

bool has_strides(const Argument &argument, const int64_t *shape, const int64_t *strides, const int64_t *slots) {
  const size_t rank = argument.shape.size();
  for (size_t axis = 0; axis < rank; ++axis)
    if (shape[axis] == 0)
      return true;
  for (size_t axis = 0; axis < rank; ++axis) {
    const int64_t found = strides ? strides[axis] : contiguous_stride(shape, rank, axis);
    if (shape[axis] != 1 && found != slots[argument.strides[axis]])
      return false;
  }
  return true;
}

} // namespace

OxyfuelStatus check_kinds(const Plan &plan, const Call &call, std::string *message) {
  if (!call.argument_ranks && !call.argument_dtypes)
    return kOxyfuelOk;
  for (size_t i = 0; i < plan.arguments.size(); ++i) {
    const Argument &argument = plan.arguments[i];
    if (argument.kind != Argument::Kind::kTensor)
      continue;
    if (call.argument_ranks && call.argument_ranks[i] != static_cast<int32_t>(argument.shape.size()))
      return refuse(plan, i, std::to_string(call.argument_ranks[i]) + " axes", std::to_string(argument.shape.size()),
                    message);
    if (call.argument_dtypes && call.argument_dtypes[i] != argument.dtype)
      return refuse(plan, i, std::string(name_of(call.argument_dtypes[i])), std::string(name_of(argument.dtype)),
                    message);
  }
  return kOxyfuelOk;
}

void read_symbols(const Plan &plan, const Call &call, std::vector<int64_t> &symbols) {
  for (size_t i = 0; i < plan.symbols.size(); ++i) {
    const SymbolSource &source = plan.symbols[i];
    switch (source.kind) {
    case SymbolSource::Kind::kInteger: symbols[i] = call.integers[source.argument]; break;
    case SymbolSource::Kind::kSize: symbols[i] = call.argument_shapes[source.argument][source.axis]; break;
    case SymbolSource::Kind::kStride: {
      const int64_t *strides = call.argument_strides ? call.argument_strides[source.argument] : nullptr;
      symbols[i] = strides ? strides[source.axis]
                           : contiguous_stride(call.argument_shapes[source.argument],
                                               plan.arguments[source.argument].shape.size(), source.axis);
      break;
    }
    case SymbolSource::Kind::kStep: break;
    }
  }
}

OxyfuelStatus check_arguments(const Plan &plan, const Call &call, const int64_t *slots, std::string *message) {
  for (size_t i = 0; i < plan.arguments.size(); ++i) {
    const Argument &argument = plan.arguments[i];
    if (argument.kind != Argument::Kind::kTensor || argument.shape.empty())
      continue;
    const int64_t *shape = call.argument_shapes[i],
                  *strides = call.argument_strides ? call.argument_strides[i] : nullptr;
    const size_t rank = argument.shape.size();
    for (size_t axis = 0; axis < rank; ++axis)
      if (shape[axis] != slots[argument.shape[axis]])
        return refuse(plan, i, "shape " + list_text(shape, rank), list_text(argument.shape, slots), message);
    if (!has_strides(argument, shape, strides, slots))
      return refuse(plan, i, "strides " + (strides ? list_text(strides, rank) : "of a contiguous tensor"),
                    list_text(argument.strides, slots) + " for shape " + list_text(shape, rank), message);
  }
  return kOxyfuelOk;
}

} // namespace oxyfuel::runtime
