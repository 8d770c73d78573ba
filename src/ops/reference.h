// Reference loops of operators that are no function of single elements: contractions, attention, scatters, scans,
// sorts. Used by the interpreter; slow and simple.
#pragma once

#include <functional>
#include <vector>

#include "ir/scalar.h"
#include "ops/interpret.h"
#include "ops/op.h"

namespace oxyfuel::graph {

int64_t element_count(const Tensor &tensor);
/// Zeros.
Tensor make_tensor(DType dtype, std::vector<int64_t> shape);
/// Element at a flat place; InternalError outside.
Scalar element_at(const Tensor &tensor, int64_t place);
void set_element(Tensor &tensor, int64_t place, Scalar value);
/// The same as numbers; of real types.
double number_at(const Tensor &tensor, int64_t place);
void set_number(Tensor &tensor, int64_t place, double value);
int64_t integer_at(const Tensor &tensor, int64_t place);

int64_t flat_place(const std::vector<int64_t> &index, const std::vector<int64_t> &shape);
/// Calls `f` with each index of a shape in row-major order.
void for_each_index(const std::vector<int64_t> &shape, const std::function<void(const std::vector<int64_t> &)> &f);

/// Arithmetic on scalars of one type, complex ones too.
class Arithmetic {
public:
  explicit Arithmetic(DType dtype) : dtype_(dtype) {}
  Scalar zero() const { return {}; }
  Scalar one() const;
  Scalar add(Scalar a, Scalar b) const;
  Scalar multiply(Scalar a, Scalar b) const;
  /// a * b + c, rounded once on real floating types.
  Scalar multiply_add(Scalar a, Scalar b, Scalar c) const;
  /// NaN wins, as in eager.
  Scalar maximum(Scalar a, Scalar b) const { return is_less(a, b) || is_nan(b) ? b : a; }
  Scalar minimum(Scalar a, Scalar b) const { return is_less(b, a) || is_nan(b) ? b : a; }
  bool is_less(Scalar a, Scalar b) const; ///< real types; false on NaN
  bool is_nan(Scalar a) const;

private:
  DType dtype_;
};

/// What a reference loop sees of a node: operand values (null where absent) and the result's types with sizes put in.
struct Call {
  const Node &node;
  std::vector<const Tensor *> operands;
  std::vector<DType> dtypes;
  std::vector<std::vector<int64_t>> shapes;
  /// Values of size attributes.
  std::function<int64_t(Expr)> size;

  /// An attribute that is an integer or a size.
  int64_t integer(std::string_view name, int64_t otherwise) const;
  /// A list of integers or sizes.
  std::vector<int64_t> integers(std::string_view name, size_t count, int64_t otherwise) const;
};

std::vector<Tensor> reference_matmul(const Call &call);
std::vector<Tensor> reference_convolution(const Call &call);
std::vector<Tensor> reference_attention(const Call &call);
std::vector<Tensor> reference_scatter(const Call &call);
std::vector<Tensor> reference_scan(const Call &call);
std::vector<Tensor> reference_sort(const Call &call);

} // namespace oxyfuel::graph
