// Scatters, scans and sorts, one element after the other.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "ops/reference.h"
#include "support/error.h"

namespace oxyfuel::graph {

namespace {

int64_t checked(int64_t index, int64_t size, const Call &call) {
  if (index < 0 || index >= size)
    throw CompileError(std::string(call.node.op->name) + ": an index is out of range",
                       {call.node.location.place, "", "", ""});
  return index;
}

/// Negative indices count from the end.
int64_t wrapped(int64_t index, int64_t size, const Call &call) {
  return checked(index < 0 ? index + size : index, size, call);
}

/// How a scatter combines an element with an update.
Scalar combine(const std::string &mode, Scalar old, Scalar update, DType dtype) {
  Arithmetic arithmetic(dtype);
  if (mode == "add" || mode == "sum" || mode == "mean")
    return arithmetic.add(old, update);
  if (mode == "mul" || mode == "prod")
    return arithmetic.multiply(old, update);
  if (mode == "max")
    return arithmetic.maximum(old, update);
  if (mode == "min")
    return arithmetic.minimum(old, update);
  OXYFUEL_CHECK(mode == "set", "scatter of mode " + mode);
  return update;
}

// result[index[i] along axis] = combine(result[…], update[i])
void scatter(const Call &call, Tensor &result) {
  const Tensor &index = *call.operands[1], &update = *call.operands[2];
  size_t axis = static_cast<size_t>(call.integer("axis", 0));
  std::string mode = call.node.get_or<std::string>("mode", "set");
  std::vector<int64_t> counts(mode == "mean" ? static_cast<size_t>(element_count(result)) : 0, 1);
  for_each_index(index.shape, [&](const std::vector<int64_t> &at) {
    std::vector<int64_t> to = at;
    to[axis] = checked(integer_at(index, flat_place(at, index.shape)), result.shape[axis], call);
    int64_t place = flat_place(to, result.shape);
    std::vector<int64_t> from(update.shape.size());
    for (size_t i = 0; i < from.size(); ++i)
      from[i] = update.shape[i] == 1 ? 0 : at[i];
    Scalar value = convert(element_at(update, flat_place(from, update.shape)), update.dtype, result.dtype);
    set_element(result, place, combine(mode, element_at(result, place), value, result.dtype));
    if (mode == "mean")
      ++counts[static_cast<size_t>(place)];
  });
  for (size_t i = 0; i < counts.size(); ++i) {
    double mean = number_at(result, static_cast<int64_t>(i)) / static_cast<double>(counts[i]);
    if (is_float(result.dtype)) {
      set_number(result, static_cast<int64_t>(i), mean);
    } else {
      Scalar value{};
      value.i = static_cast<int64_t>(std::floor(mean));
      set_element(result, static_cast<int64_t>(i), value);
    }
  }
}

// result[indices…] = values, as aten.index_put: the broadcast dimensions of the indices stand where the first of them
// is when they are side by side, else in front.
void index_put(const Call &call, Tensor &result) {
  const Tensor &values = *call.operands[1];
  std::vector<const Tensor *> indices(call.operands.begin() + 2, call.operands.end());
  indices.resize(result.shape.size(), nullptr);
  std::vector<int64_t> common;
  size_t first = indices.size(), last = 0, count = 0;
  for (size_t axis = 0; axis < indices.size(); ++axis) {
    if (!indices[axis])
      continue;
    first = std::min(first, axis);
    last = axis;
    ++count;
    const auto &shape = indices[axis]->shape;
    if (common.size() < shape.size())
      common.insert(common.begin(), shape.size() - common.size(), 1);
    for (size_t i = 0; i < shape.size(); ++i) {
      int64_t &size = common[common.size() - shape.size() + i];
      size = shape[i] == 1 ? size : shape[i];
    }
  }
  bool is_adjacent = count > 0 && last - first + 1 == count;
  size_t common_at = is_adjacent ? first : 0;
  std::vector<int64_t> shape;
  std::vector<size_t> free_axes;
  for (size_t axis = 0; axis < indices.size(); ++axis)
    if (!indices[axis]) {
      free_axes.push_back(axis);
      shape.push_back(result.shape[axis]);
    }
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(common_at), common.begin(), common.end());

  auto broadcast_place = [](const Tensor &tensor, const std::vector<int64_t> &at) {
    std::vector<int64_t> index;
    size_t skipped = at.size() - tensor.shape.size();
    for (size_t i = 0; i < tensor.shape.size(); ++i)
      index.push_back(tensor.shape[i] == 1 ? 0 : at[i + skipped]);
    return flat_place(index, tensor.shape);
  };
  bool accumulates = call.node.get_or<bool>("accumulate", false);
  for_each_index(shape, [&](const std::vector<int64_t> &at) {
    std::vector<int64_t> inner(at.begin() + static_cast<std::ptrdiff_t>(common_at),
                               at.begin() + static_cast<std::ptrdiff_t>(common_at + common.size()));
    std::vector<int64_t> outer = at;
    outer.erase(outer.begin() + static_cast<std::ptrdiff_t>(common_at),
                outer.begin() + static_cast<std::ptrdiff_t>(common_at + common.size()));
    std::vector<int64_t> to(result.shape.size());
    for (size_t i = 0; i < free_axes.size(); ++i)
      to[free_axes[i]] = outer[i];
    for (size_t axis = 0; axis < indices.size(); ++axis)
      if (indices[axis])
        to[axis] =
            wrapped(integer_at(*indices[axis], broadcast_place(*indices[axis], inner)), result.shape[axis], call);
    int64_t place = flat_place(to, result.shape);
    Scalar value = convert(element_at(values, broadcast_place(values, at)), values.dtype, result.dtype);
    set_element(result, place, combine(accumulates ? "add" : "set", element_at(result, place), value, result.dtype));
  });
}

/// Calls `f` with the flat places of each line along `axis`.
void for_each_line(const std::vector<int64_t> &shape, size_t axis,
                   const std::function<void(const std::vector<int64_t> &)> &f) {
  if (shape.empty()) { // eager takes a tensor of rank 0 as one of rank 1
    f({0});
    return;
  }
  std::vector<int64_t> outer = shape;
  outer[axis] = std::min<int64_t>(shape[axis], 1);
  for_each_index(outer, [&](const std::vector<int64_t> &at) {
    std::vector<int64_t> index = at, places;
    for (index[axis] = 0; index[axis] < shape[axis]; ++index[axis])
      places.push_back(flat_place(index, shape));
    f(places);
  });
}

double log_add_exp(double a, double b) {
  double most = std::max(a, b), least = std::min(a, b);
  return std::isnan(a) || std::isnan(b)      ? a + b
         : std::isinf(most) && most == least ? most
                                             : most + std::log1p(std::exp(least - most));
}

void set_integer(Tensor &tensor, int64_t place, int64_t integer) {
  Scalar value{};
  value.i = integer;
  set_element(tensor, place, value);
}

} // namespace

std::vector<Tensor> reference_scatter(const Call &call) {
  Tensor result = *call.operands[0];
  std::string_view name = call.node.op->name;
  if (name == "scatter")
    scatter(call, result);
  else if (name == "index_put")
    index_put(call, result);
  else
    throw UnsupportedError("the interpreter does not run " + std::string(name));
  return {result};
}

std::vector<Tensor> reference_scan(const Call &call) {
  const Tensor &x = *call.operands[0];
  std::vector<Tensor> results;
  for (size_t i = 0; i < call.dtypes.size(); ++i)
    results.push_back(make_tensor(call.dtypes[i], call.shapes[i]));
  std::string mode = call.node.get_or<std::string>("mode", "sum");
  DType type = call.node.get_or<DType>("accumulator", opmath_of(results[0].dtype));
  Arithmetic arithmetic(type);
  for_each_line(x.shape, static_cast<size_t>(call.integer("axis", 0)), [&](const std::vector<int64_t> &places) {
    Scalar running{};
    int64_t best = 0;
    for (size_t i = 0; i < places.size(); ++i) {
      Scalar value = convert(element_at(x, places[i]), x.dtype, type);
      if (i == 0) {
        running = value;
      } else if (mode == "sum") {
        running = arithmetic.add(running, value);
      } else if (mode == "prod") {
        running = arithmetic.multiply(running, value);
      } else if (mode == "logsumexp") {
        running = real_scalar(log_add_exp(real_value(running, type), real_value(value, type)), type);
      } else {
        // The later of equal elements wins, and NaN stays.
        bool is_max = mode == "max";
        bool is_better = arithmetic.is_nan(value) ||
                         (!arithmetic.is_nan(running) &&
                          !(is_max ? arithmetic.is_less(value, running) : arithmetic.is_less(running, value)));
        best = is_better ? static_cast<int64_t>(i) : best;
        running = is_better ? value : running;
      }
      set_element(results[0], places[i], convert(running, type, results[0].dtype));
      if (results.size() > 1)
        set_integer(results[1], places[i], best);
    }
  });
  return results;
}

std::vector<Tensor> reference_sort(const Call &call) {
  const Tensor &x = *call.operands[0];
  std::vector<Tensor> results;
  for (size_t i = 0; i < call.dtypes.size(); ++i)
    results.push_back(make_tensor(call.dtypes[i], call.shapes[i]));
  bool is_descending = call.node.get_or<bool>("descending", false);
  Arithmetic arithmetic(x.dtype);
  // NaN is the greatest.
  auto is_less = [&](Scalar a, Scalar b) {
    return !arithmetic.is_nan(a) && (arithmetic.is_nan(b) || arithmetic.is_less(a, b));
  };
  for_each_line(x.shape, static_cast<size_t>(call.integer("axis", 0)), [&](const std::vector<int64_t> &places) {
    std::vector<size_t> order(places.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      Scalar left = element_at(x, places[a]), right = element_at(x, places[b]);
      return is_descending ? is_less(right, left) : is_less(left, right);
    });
    for (size_t i = 0; i < places.size(); ++i) {
      set_element(results[0], places[i], element_at(x, places[order[i]]));
      if (results.size() > 1)
        set_integer(results[1], places[i], static_cast<int64_t>(order[i]));
    }
  });
  return results;
}

} // namespace oxyfuel::graph
