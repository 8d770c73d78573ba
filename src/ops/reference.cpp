#include "ops/reference.h"

#include <cmath>
#include <complex>

#include "support/error.h"

namespace oxyfuel::graph {

int64_t element_count(const Tensor &tensor) {
  int64_t count = 1;
  for (int64_t size : tensor.shape)
    count *= size;
  return count;
}

Tensor make_tensor(DType dtype, std::vector<int64_t> shape) {
  Tensor tensor{dtype, std::move(shape), {}};
  tensor.data.resize(static_cast<size_t>(element_count(tensor)) * size_of(dtype));
  return tensor;
}

Scalar element_at(const Tensor &tensor, int64_t place) {
  OXYFUEL_CHECK(place >= 0 && place < element_count(tensor), "element outside of a tensor is read");
  return load_scalar(tensor.data.data(), place, tensor.dtype);
}

void set_element(Tensor &tensor, int64_t place, Scalar value) {
  OXYFUEL_CHECK(place >= 0 && place < element_count(tensor), "element outside of a tensor is written");
  store_scalar(tensor.data.data(), place, tensor.dtype, value);
}

double number_at(const Tensor &tensor, int64_t place) {
  Scalar value = element_at(tensor, place);
  return is_float(tensor.dtype) ? real_value(value, tensor.dtype) : static_cast<double>(value.i);
}

void set_number(Tensor &tensor, int64_t place, double value) {
  set_element(tensor, place, real_scalar(round_to(value, tensor.dtype), tensor.dtype));
}

int64_t integer_at(const Tensor &tensor, int64_t place) { return element_at(tensor, place).i; }

int64_t flat_place(const std::vector<int64_t> &index, const std::vector<int64_t> &shape) {
  int64_t place = 0;
  for (size_t i = 0; i < shape.size(); ++i)
    place = place * shape[i] + index[i];
  return place;
}

void for_each_index(const std::vector<int64_t> &shape, const std::function<void(const std::vector<int64_t> &)> &f) {
  for (int64_t size : shape)
    if (size == 0)
      return;
  std::vector<int64_t> index(shape.size(), 0);
  for (;;) {
    f(index);
    size_t axis = shape.size();
    while (axis > 0 && ++index[axis - 1] == shape[axis - 1])
      index[--axis] = 0;
    if (axis == 0)
      return;
  }
}

namespace {

std::complex<double> to_complex(Scalar value, DType dtype) {
  return dtype == DType::kC64 ? std::complex<double>(value.c[0], value.c[1])
                              : std::complex<double>(value.z[0], value.z[1]);
}

Scalar from_complex(std::complex<double> value, DType dtype) {
  Scalar scalar{};
  if (dtype == DType::kC64) {
    scalar.c[0] = static_cast<float>(value.real());
    scalar.c[1] = static_cast<float>(value.imag());
  } else {
    scalar.z[0] = value.real();
    scalar.z[1] = value.imag();
  }
  return scalar;
}

Scalar apply2(ExprKind kind, DType result, DType dtype, Scalar a, Scalar b) {
  const Scalar values[3] = {a, b, {}};
  return apply(kind, result, dtype, values, 2);
}

} // namespace

Scalar Arithmetic::one() const {
  if (is_complex(dtype_))
    return from_complex(1, dtype_);
  Scalar scalar{};
  scalar.i = 1;
  return is_float(dtype_) ? real_scalar(1, dtype_) : scalar;
}

Scalar Arithmetic::add(Scalar a, Scalar b) const {
  if (is_complex(dtype_))
    return from_complex(to_complex(a, dtype_) + to_complex(b, dtype_), dtype_);
  return apply2(is_bool(dtype_) ? ExprKind::kOr : ExprKind::kAdd, dtype_, dtype_, a, b);
}

Scalar Arithmetic::multiply(Scalar a, Scalar b) const {
  if (is_complex(dtype_))
    return from_complex(to_complex(a, dtype_) * to_complex(b, dtype_), dtype_);
  return apply2(is_bool(dtype_) ? ExprKind::kAnd : ExprKind::kMul, dtype_, dtype_, a, b);
}

Scalar Arithmetic::multiply_add(Scalar a, Scalar b, Scalar c) const {
  if (!is_float(dtype_))
    return add(multiply(a, b), c);
  const Scalar values[3] = {a, b, c};
  return apply(ExprKind::kFma, dtype_, dtype_, values, 3);
}

bool Arithmetic::is_less(Scalar a, Scalar b) const { return apply2(ExprKind::kLt, DType::kBool, dtype_, a, b).i != 0; }

bool Arithmetic::is_nan(Scalar a) const { return is_float(dtype_) && std::isnan(real_value(a, dtype_)); }

int64_t Call::integer(std::string_view name, int64_t otherwise) const {
  auto at = node.attributes.find(name);
  if (at == node.attributes.end())
    return otherwise;
  if (auto e = std::get_if<Expr>(&at->second))
    return size(*e);
  return node.get<int64_t>(name);
}

std::vector<int64_t> Call::integers(std::string_view name, size_t count, int64_t otherwise) const {
  auto at = node.attributes.find(name);
  if (at == node.attributes.end())
    return std::vector<int64_t>(count, otherwise);
  auto sizes = std::get_if<std::vector<Expr>>(&at->second);
  if (!sizes)
    return node.get<std::vector<int64_t>>(name);
  std::vector<int64_t> values;
  for (Expr e : *sizes)
    values.push_back(size(e));
  return values;
}

} // namespace oxyfuel::graph
