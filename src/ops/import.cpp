// Arguments of ATen calls, and the check that what a rule built is what PyTorch says.
#include "ops/import.h"

#include "support/error.h"

namespace oxyfuel {

namespace {

[[noreturn]] void wrong_argument(const AtenCall &call, int i, const char *wanted) {
  throw UnsupportedError(call.overload + ": argument " + std::to_string(i) + " is not " + wanted);
}

const AtenArgument &argument(const AtenCall &call, int i) {
  if (i < 0 || i >= static_cast<int>(call.arguments.size()))
    throw UnsupportedError(call.overload + ": argument " + std::to_string(i) + " is missing");
  return call.arguments[i];
}

Expr size_of_argument(const AtenCall &call, int i, const AtenArgument &argument, ExprContext &context) {
  if (auto *value = std::get_if<int64_t>(&argument.data))
    return context.integer(*value);
  if (auto *value = std::get_if<Expr>(&argument.data))
    return *value;
  wrong_argument(call, i, "a size");
}

/// Throws when the result differs in type from PyTorch's own.
void check_result(const AtenCall &call, size_t i, const graph::Type &found) {
  const graph::Type &wanted = call.results[i];
  bool is_equal = found.dtype == wanted.dtype && found.rank() == wanted.rank();
  std::string text = std::string(name_of(found.dtype)) + "[";
  for (int axis = 0; axis < found.rank(); ++axis) {
    text += (axis ? ", " : "") + print(found.shape[axis]);
    if (!is_equal)
      continue;
    auto a = found.shape[axis].constant(), b = wanted.shape[axis].constant();
    is_equal = !a || !b || *a == *b;
  }
  if (is_equal)
    return;
  std::string other = std::string(name_of(wanted.dtype)) + "[";
  for (int axis = 0; axis < wanted.rank(); ++axis)
    other += (axis ? ", " : "") + print(wanted.shape[axis]);
  throw UnsupportedError(call.overload + ": its rule gives " + text + "] where PyTorch gives " + other + "]",
                         {.where = call.location.place, .found = {}, .so = {}, .hint = {}});
}

} // namespace

graph::Value *AtenCall::tensor_or_null(int i) const {
  auto *value = std::get_if<graph::Value *>(&argument(*this, i).data);
  return value ? *value : nullptr;
}

graph::Value *AtenCall::value_or_null(int i) const {
  if (!has(i))
    return nullptr;
  graph::Value *value = tensor_or_null(i);
  if (!value)
    wrong_argument(*this, i, "a tensor");
  return value;
}

graph::Value *AtenCall::value(int i) const {
  graph::Value *value = value_or_null(i);
  if (!value)
    wrong_argument(*this, i, "a tensor");
  return value;
}

std::vector<graph::Value *> AtenCall::values(int i) const {
  auto *list = std::get_if<std::vector<AtenArgument>>(&argument(*this, i).data);
  if (!list)
    wrong_argument(*this, i, "a list of tensors");
  std::vector<graph::Value *> result;
  for (const AtenArgument &item : *list) {
    auto *value = std::get_if<graph::Value *>(&item.data);
    if (!value && !item.is_none())
      wrong_argument(*this, i, "a list of tensors");
    result.push_back(value ? *value : nullptr);
  }
  return result;
}

int64_t AtenCall::integer(int i) const {
  const AtenArgument &item = argument(*this, i);
  if (auto *value = std::get_if<int64_t>(&item.data))
    return *value;
  if (auto *value = std::get_if<bool>(&item.data))
    return *value;
  if (auto *value = std::get_if<Expr>(&item.data))
    if (auto constant = value->constant())
      return *constant;
  wrong_argument(*this, i, "a constant integer");
}

Expr AtenCall::size(int i, ExprContext &context) const {
  return size_of_argument(*this, i, argument(*this, i), context);
}

double AtenCall::number(int i) const {
  const AtenArgument &item = argument(*this, i);
  if (auto *value = std::get_if<double>(&item.data))
    return *value;
  return static_cast<double>(integer(i));
}

bool AtenCall::boolean(int i) const { return integer(i) != 0; }

std::string AtenCall::text(int i) const {
  if (auto *value = std::get_if<std::string>(&argument(*this, i).data))
    return *value;
  wrong_argument(*this, i, "a string");
}

std::vector<int64_t> AtenCall::integers(int i) const {
  const AtenArgument &item = argument(*this, i);
  if (std::holds_alternative<int64_t>(item.data))
    return {std::get<int64_t>(item.data)};
  auto *list = std::get_if<std::vector<AtenArgument>>(&item.data);
  if (!list)
    wrong_argument(*this, i, "a list of constant integers");
  std::vector<int64_t> result;
  for (const AtenArgument &element : *list) {
    auto *value = std::get_if<int64_t>(&element.data);
    auto *flag = std::get_if<bool>(&element.data);
    auto *size = std::get_if<Expr>(&element.data);
    if (value)
      result.push_back(*value);
    else if (flag)
      result.push_back(*flag);
    else if (size && size->constant())
      result.push_back(*size->constant());
    else
      wrong_argument(*this, i, "a list of constant integers");
  }
  return result;
}

std::vector<Expr> AtenCall::sizes(int i, ExprContext &context) const {
  const AtenArgument &item = argument(*this, i);
  auto *list = std::get_if<std::vector<AtenArgument>>(&item.data);
  if (!list)
    return {size_of_argument(*this, i, item, context)};
  std::vector<Expr> result;
  for (const AtenArgument &element : *list)
    result.push_back(size_of_argument(*this, i, element, context));
  return result;
}

std::optional<DType> AtenCall::dtype(int i) const {
  if (!has(i))
    return {};
  if (auto *value = std::get_if<DType>(&argument(*this, i).data))
    return *value;
  wrong_argument(*this, i, "an element type");
}

std::optional<std::vector<graph::Value *>> import_aten(graph::Graph &graph, const AtenCall &call) {
  const AtenRule *rule = find_rule(call.overload);
  if (!rule)
    return {};
  GraphBuilder builder(graph, call.location);
  std::vector<graph::Value *> results = rule->build(builder, call);
  if (results.size() != call.results.size())
    throw UnsupportedError(call.overload + ": its rule gives " + std::to_string(results.size()) +
                           " results where PyTorch gives " + std::to_string(call.results.size()));
  for (size_t i = 0; i < results.size(); ++i)
    if (results[i])
      check_result(call, i, results[i]->type);
  return results;
}

} // namespace oxyfuel
