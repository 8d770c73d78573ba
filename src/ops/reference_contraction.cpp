// Matrix multiplication, convolution and attention, by their definitions.
#include <cmath>
#include <limits>

#include "ops/reference.h"
#include "support/error.h"

namespace oxyfuel::graph {

namespace {

Scalar read_as(const Tensor &tensor, int64_t place, DType dtype) {
  return convert(element_at(tensor, place), tensor.dtype, dtype);
}

/// The accumulator's type: that of the attribute, else the op-math type of the result.
DType accumulator_type(const Call &call) { return call.node.get_or<DType>("accumulator", opmath_of(call.dtypes[0])); }

} // namespace

std::vector<Tensor> reference_matmul(const Call &call) {
  const Tensor &a = *call.operands[0], &b = *call.operands[1];
  Tensor result = make_tensor(call.dtypes[0], call.shapes[0]);
  DType type = accumulator_type(call);
  Arithmetic arithmetic(type);
  size_t rank = result.shape.size();
  int64_t rows = result.shape[rank - 2], columns = result.shape[rank - 1], depth = a.shape[rank - 1];
  int64_t tile = rows * columns, batches = tile > 0 ? element_count(result) / tile : 0;
  for (int64_t batch = 0; batch < batches; ++batch)
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < columns; ++column) {
        Scalar sum = arithmetic.zero();
        for (int64_t k = 0; k < depth; ++k)
          sum = arithmetic.multiply_add(read_as(a, (batch * rows + row) * depth + k, type),
                                        read_as(b, (batch * depth + k) * columns + column, type), sum);
        set_element(result, (batch * rows + row) * columns + column, convert(sum, type, result.dtype));
      }
  return {result};
}

std::vector<Tensor> reference_convolution(const Call &call) {
  const Tensor &x = *call.operands[0], &w = *call.operands[1];
  Tensor result = make_tensor(call.dtypes[0], call.shapes[0]);
  DType type = accumulator_type(call);
  Arithmetic arithmetic(type);
  size_t axes = x.shape.size() - 2;
  auto stride = call.integers("stride", axes, 1), padding = call.integers("padding", axes, 0),
       dilation = call.integers("dilation", axes, 1);
  int64_t groups = call.integer("groups", 1);
  bool is_transposed = call.node.get_or<bool>("transposed", false);
  int64_t group_inputs = x.shape[1] / groups, group_outputs = result.shape[1] / groups;
  std::vector<int64_t> kernel(w.shape.begin() + 2, w.shape.end());

  for_each_index(result.shape, [&](const std::vector<int64_t> &at) {
    int64_t group = at[1] / group_outputs;
    Scalar sum = arithmetic.zero();
    for (int64_t c = 0; c < group_inputs; ++c)
      for_each_index(kernel, [&](const std::vector<int64_t> &tap) {
        std::vector<int64_t> from = {at[0], group * group_inputs + c};
        std::vector<int64_t> weight =
            is_transposed ? std::vector<int64_t>{from[1], at[1] % group_outputs} : std::vector<int64_t>{at[1], c};
        for (size_t i = 0; i < axes; ++i) {
          int64_t place;
          if (is_transposed) {
            place = at[i + 2] + padding[i] - tap[i] * dilation[i];
            if (place % stride[i] != 0)
              return;
            place /= stride[i];
          } else {
            place = at[i + 2] * stride[i] - padding[i] + tap[i] * dilation[i];
          }
          if (place < 0 || place >= x.shape[i + 2])
            return;
          from.push_back(place);
          weight.push_back(tap[i]);
        }
        sum = arithmetic.multiply_add(read_as(x, flat_place(from, x.shape), type),
                                      read_as(w, flat_place(weight, w.shape), type), sum);
      });
    set_element(result, flat_place(at, result.shape), convert(sum, type, result.dtype));
  });
  return {result};
}

// softmax(q kᵀ * scale + mask) v, in double; logsumexp of the scores beside it. A row with nothing to attend to is
// zero, and its logsumexp.
std::vector<Tensor> reference_attention(const Call &call) {
  const Tensor &q = *call.operands[0], &k = *call.operands[1], &v = *call.operands[2];
  const Tensor *mask = call.operands.size() > 3 ? call.operands[3] : nullptr;
  std::vector<Tensor> results;
  for (size_t i = 0; i < call.dtypes.size(); ++i)
    results.push_back(make_tensor(call.dtypes[i], call.shapes[i]));
  int64_t heads = q.shape[1], rows = q.shape[2], depth = q.shape[3], columns = k.shape[2], width = v.shape[3];
  int64_t heads_per_key = heads / k.shape[1];
  bool is_causal = call.node.get_or<bool>("causal", false);
  double scale = call.node.get_or<double>("scale", 1 / std::sqrt(static_cast<double>(depth)));
  constexpr double kNever = -std::numeric_limits<double>::infinity();

  for_each_index({q.shape[0], heads, rows}, [&](const std::vector<int64_t> &at) {
    int64_t key_head = at[0] * k.shape[1] + at[1] / heads_per_key;
    int64_t row = flat_place(at, {q.shape[0], heads, rows});
    std::vector<double> scores(static_cast<size_t>(columns), kNever);
    double most = kNever;
    for (int64_t column = 0; column < columns; ++column) {
      if (is_causal && column > at[2])
        continue;
      double score = 0;
      for (int64_t e = 0; e < depth; ++e)
        score += number_at(q, row * depth + e) * number_at(k, (key_head * columns + column) * depth + e);
      score *= scale;
      if (mask) {
        std::vector<int64_t> full = {at[0], at[1], at[2], column}, index;
        size_t skipped = full.size() - mask->shape.size();
        for (size_t i = 0; i < mask->shape.size(); ++i)
          index.push_back(mask->shape[i] == 1 ? 0 : full[i + skipped]);
        double value = number_at(*mask, flat_place(index, mask->shape));
        score = is_bool(mask->dtype) ? (value != 0 ? score : kNever) : score + value;
      }
      scores[static_cast<size_t>(column)] = score;
      most = std::isnan(score) ? score : std::max(most, score);
    }
    double sum = 0;
    for (double &score : scores) {
      score = most == kNever ? 0 : std::exp(score - most);
      sum += score;
    }
    for (int64_t e = 0; e < width; ++e) {
      double value = 0;
      for (int64_t column = 0; column < columns; ++column)
        value += scores[static_cast<size_t>(column)] * number_at(v, (key_head * columns + column) * width + e);
      set_number(results[0], row * width + e, sum == 0 ? 0 : value / sum);
    }
    if (results.size() > 1)
      set_number(results[1], row, sum == 0 ? 0 : most + std::log(sum)); // as eager
  });
  return results;
}

} // namespace oxyfuel::graph
