#include "ir/scalar.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "ir/expr_internal.h"
#include "ir/host_math.h"
#include "support/half.h"

namespace oxyfuel {

int64_t wrap(int64_t value, DType dtype) {
  switch (dtype) {
  case DType::kBool: return value != 0;
  case DType::kU8: return static_cast<uint8_t>(value);
  case DType::kI8: return static_cast<int8_t>(value);
  case DType::kI16: return static_cast<int16_t>(value);
  case DType::kU16: return static_cast<uint16_t>(value);
  case DType::kI32: return static_cast<int32_t>(value);
  case DType::kU32: return static_cast<uint32_t>(value);
  default: return value;
  }
}

double round_to(double value, DType dtype) {
  switch (dtype) {
  case DType::kF16: return float_from_f16(f16_from_float(static_cast<float>(value)));
  case DType::kBF16: return float_from_bf16(bf16_from_float(static_cast<float>(value)));
  case DType::kF32: return static_cast<float>(value);
  default: return value;
  }
}

double real_value(Scalar value, DType dtype) { return dtype == DType::kF64 ? value.d : static_cast<double>(value.f); }

Scalar real_scalar(double value, DType dtype) {
  Scalar result{};
  if (dtype == DType::kF64)
    result.d = value;
  else
    result.f = static_cast<float>(round_to(value, dtype));
  return result;
}

Scalar scalar_of(Expr constant) {
  if (is_float(constant.dtype()))
    return real_scalar(constant->real, constant.dtype());
  return Scalar{.i = constant->integer};
}

namespace {

/// As eager on x86: values that do not fit give the least integer of the intermediate type; for u32 and u64 the upper
/// half of the range is converted less its lower bound, so values above it give zero.
int64_t integer_from_real(double value, DType to) {
  if (to == DType::kU64 && value >= 0x1p63)
    return value < 0x1p64 ? static_cast<int64_t>(static_cast<uint64_t>(value)) : 0;
  if (to == DType::kU32 && value >= 0x1p31)
    return value < 0x1p32 ? static_cast<int64_t>(value) : 0;
  if (to == DType::kI64 || to == DType::kU64)
    return value >= -0x1p63 && value < 0x1p63 ? static_cast<int64_t>(value) : INT64_MIN;
  const bool fits = value > -0x1p31 - 1 && value < 0x1p31;
  return wrap(fits ? static_cast<int32_t>(value) : INT32_MIN, to);
}

Scalar scalar_from_integer(int64_t value, DType from, DType to) {
  Scalar result{};
  if (to == DType::kF64)
    result.d = from == DType::kU64 ? static_cast<double>(static_cast<uint64_t>(value)) : static_cast<double>(value);
  else if (is_float(to))
    result.f = static_cast<float>(round_to(
        from == DType::kU64 ? static_cast<float>(static_cast<uint64_t>(value)) : static_cast<float>(value), to));
  else
    result.i = wrap(value, to);
  return result;
}

Scalar bitcast_scalar(Scalar value, DType from, DType to) {
  unsigned char bytes[16] = {};
  store_scalar(bytes, 0, from, value);
  return load_scalar(bytes, 0, to);
}

int64_t compare_integers(ExprKind kind, DType dtype, int64_t a, int64_t b) {
  const auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  switch (kind) {
  case ExprKind::kEq: return a == b;
  case ExprKind::kNe: return a != b;
  case ExprKind::kLt: return dtype == DType::kU64 ? ua < ub : a < b;
  default: return dtype == DType::kU64 ? ua <= ub : a <= b;
  }
}

int64_t divide(ExprKind kind, DType dtype, int64_t a, int64_t b) {
  if (b == 0)
    return 0;
  if (dtype == DType::kU64) {
    const auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
    const bool is_rest = kind == ExprKind::kFloorMod || kind == ExprKind::kRem;
    return static_cast<int64_t>(is_rest ? ua % ub : ua / ub);
  }
  switch (kind) {
  case ExprKind::kDiv: return b == -1 ? wrap_sub(0, a) : a / b;
  case ExprKind::kRem: return b == -1 ? 0 : a % b;
  case ExprKind::kFloorDiv: return floor_div_value(a, b);
  default: return floor_mod_value(a, b);
  }
}

int64_t apply_integer(ExprKind kind, DType dtype, int64_t a, int64_t b, int64_t c) {
  const bool is_u64 = dtype == DType::kU64;
  switch (kind) {
  case ExprKind::kAdd: return wrap_add(a, b);
  case ExprKind::kSub: return wrap_sub(a, b);
  case ExprKind::kMul: return wrap_mul(a, b);
  case ExprKind::kFma: return wrap_add(wrap_mul(a, b), c);
  case ExprKind::kDiv:
  case ExprKind::kRem:
  case ExprKind::kFloorDiv:
  case ExprKind::kFloorMod: return divide(kind, dtype, a, b);
  case ExprKind::kMin: return compare_integers(ExprKind::kLt, dtype, b, a) != 0 ? b : a;
  case ExprKind::kMax: return compare_integers(ExprKind::kLt, dtype, a, b) != 0 ? b : a;
  case ExprKind::kNeg: return wrap_sub(0, a);
  case ExprKind::kAbs: return a < 0 && !is_u64 ? wrap_sub(0, a) : a;
  case ExprKind::kAnd: return a & b;
  case ExprKind::kOr: return a | b;
  case ExprKind::kXor: return a ^ b;
  case ExprKind::kNot: return is_bool(dtype) ? static_cast<int64_t>(a == 0) : ~a;
  case ExprKind::kShl: return static_cast<int64_t>(static_cast<uint64_t>(a) << (b & 63));
  case ExprKind::kShr: return is_u64 ? static_cast<int64_t>(static_cast<uint64_t>(a) >> (b & 63)) : a >> (b & 63);
  case ExprKind::kFloor:
  case ExprKind::kCeil:
  case ExprKind::kTrunc:
  case ExprKind::kRint: return a;
  default:
    throw InternalError("no such operation on integers: expression kind " + std::to_string(static_cast<int>(kind)));
  }
}

/// Arithmetic that is exact in T: float serves f16, bf16 and f32 (the caller rounds), double f64.
template <class T> T apply_real(ExprKind kind, const T a, const T b, const T c) {
  switch (kind) {
  case ExprKind::kAdd: return a + b;
  case ExprKind::kSub: return a - b;
  case ExprKind::kMul: return a * b;
  case ExprKind::kDiv: return a / b;
  case ExprKind::kFma: return std::fma(a, b, c);
  case ExprKind::kRem: return std::fmod(a, b);
  case ExprKind::kNeg: return -a;
  case ExprKind::kAbs: return std::fabs(a);
  case ExprKind::kSqrt: return std::sqrt(a);
  case ExprKind::kFloor: return std::floor(a);
  case ExprKind::kCeil: return std::ceil(a);
  case ExprKind::kTrunc: return std::trunc(a);
  case ExprKind::kRint: return std::nearbyint(a);
  case ExprKind::kNextafter: return std::nextafter(a, b);
  default: return static_cast<T>(math_function(kind, a, b));
  }
}

int64_t compare_reals(ExprKind kind, double a, double b) {
  switch (kind) {
  case ExprKind::kEq: return a == b;
  case ExprKind::kNe: return a != b;
  case ExprKind::kLt: return a < b;
  default: return a <= b;
  }
}

bool is_comparison(ExprKind kind) {
  return kind == ExprKind::kEq || kind == ExprKind::kNe || kind == ExprKind::kLt || kind == ExprKind::kLe;
}

} // namespace

Scalar convert(Scalar value, DType from, DType to) {
  if (from == to)
    return value;
  if (is_complex(from) || is_complex(to)) {
    const DType part = real_of(from);
    Scalar re = value, im{};
    if (is_complex(from)) {
      re = real_scalar(from == DType::kC64 ? value.c[0] : value.z[0], part);
      im = real_scalar(from == DType::kC64 ? value.c[1] : value.z[1], part);
    }
    if (!is_complex(to)) {
      if (is_bool(to))
        return Scalar{.i = real_value(re, part) != 0 || real_value(im, part) != 0};
      return convert(re, part, to);
    }
    const double r = real_value(convert(re, part, DType::kF64), DType::kF64);
    const double i = is_complex(from) ? real_value(im, part) : 0.0;
    Scalar result{};
    if (to == DType::kC64) {
      result.c[0] = static_cast<float>(r);
      result.c[1] = static_cast<float>(i);
    } else {
      result.z[0] = r;
      result.z[1] = i;
    }
    return result;
  }
  if (!is_float(from))
    return scalar_from_integer(value.i, from, to);
  if (is_bool(to))
    return Scalar{.i = real_value(value, from) != 0};
  if (!is_float(to))
    return Scalar{.i = integer_from_real(real_value(value, from), to)};
  return real_scalar(real_value(value, from), to);
}

Scalar apply(ExprKind kind, DType result, DType operand, const Scalar *values, int count, int64_t host) {
  switch (kind) {
  case ExprKind::kSelect: return values[0].i != 0 ? values[1] : values[2];
  case ExprKind::kCast: return convert(values[0], operand, result);
  case ExprKind::kBitcast: return bitcast_scalar(values[0], operand, result);
  case ExprKind::kReal:
  case ExprKind::kImag: {
    const int part = kind == ExprKind::kImag ? 1 : 0;
    return operand == DType::kC64 ? Scalar{.f = values[0].c[part]} : Scalar{.d = values[0].z[part]};
  }
  case ExprKind::kComplex:
    return result == DType::kC64 ? Scalar{.c = {values[0].f, values[1].f}} : Scalar{.z = {values[0].d, values[1].d}};
  case ExprKind::kHostCall: return Scalar{.d = host_function(host, count, values[0].d, values[1].d)};
  default: break;
  }
  if (is_comparison(kind)) {
    if (is_float(operand))
      return Scalar{.i = compare_reals(kind, real_value(values[0], operand), real_value(values[1], operand))};
    return Scalar{.i = compare_integers(kind, operand, values[0].i, values[1].i)};
  }
  if (result == DType::kF64)
    return Scalar{.d = apply_real<double>(kind, values[0].d, values[1].d, values[2].d)};
  if (result == DType::kF32)
    return Scalar{.f = apply_real<float>(kind, values[0].f, values[1].f, values[2].f)};
  if (is_float(result)) {
    if (kind == ExprKind::kNextafter || kind == ExprKind::kFma) // one rounding: the exact product fits in double
      return real_scalar(kind == ExprKind::kFma
                             ? static_cast<double>(values[0].f) * static_cast<double>(values[1].f) + values[2].f
                             : next_half(values[0].f, values[1].f, result),
                         result);
    return real_scalar(apply_real<float>(kind, values[0].f, values[1].f, values[2].f), result);
  }
  return Scalar{.i = wrap(apply_integer(kind, result, values[0].i, values[1].i, values[2].i), result)};
}

Scalar load_scalar(const void *base, int64_t index, DType dtype) {
  const char *address = static_cast<const char *>(base) + index * static_cast<int64_t>(size_of(dtype));
  auto read = [&]<class T>(T value) {
    std::memcpy(&value, address, sizeof(T));
    return value;
  };
  switch (dtype) {
  case DType::kBool: return Scalar{.i = read(uint8_t{}) != 0};
  case DType::kU8: return Scalar{.i = read(uint8_t{})};
  case DType::kI8: return Scalar{.i = read(int8_t{})};
  case DType::kI16: return Scalar{.i = read(int16_t{})};
  case DType::kU16: return Scalar{.i = read(uint16_t{})};
  case DType::kI32: return Scalar{.i = read(int32_t{})};
  case DType::kU32: return Scalar{.i = read(uint32_t{})};
  case DType::kI64:
  case DType::kU64: return Scalar{.i = read(int64_t{})};
  case DType::kF16: return Scalar{.f = float_from_f16(read(uint16_t{}))};
  case DType::kBF16: return Scalar{.f = float_from_bf16(read(uint16_t{}))};
  case DType::kF32: return Scalar{.f = read(float{})};
  case DType::kF64: return Scalar{.d = read(double{})};
  default: break;
  }
  Scalar result{};
  std::memcpy(&result, address, size_of(dtype));
  return result;
}

void store_scalar(void *base, int64_t index, DType dtype, Scalar value) {
  char *address = static_cast<char *>(base) + index * static_cast<int64_t>(size_of(dtype));
  if (dtype == DType::kF16 || dtype == DType::kBF16) {
    const uint16_t bits = dtype == DType::kF16 ? f16_from_float(value.f) : bf16_from_float(value.f);
    std::memcpy(address, &bits, sizeof(bits));
    return;
  }
  static_assert(std::endian::native == std::endian::little); // the low bytes of `i` are the narrow integer
  std::memcpy(address, &value, size_of(dtype));
}

} // namespace oxyfuel
