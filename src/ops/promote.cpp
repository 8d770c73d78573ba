#include "ops/promote.h"

#include "support/error.h"

namespace oxyfuel {

namespace {

DType complex_of(DType t) { return t == DType::kF64 || t == DType::kC128 ? DType::kC128 : DType::kC64; }

bool is_wide_unsigned(DType t) { return t == DType::kU16 || t == DType::kU32 || t == DType::kU64; }

/// Floats in order of promotion; the two half types meet in float32.
DType promote_floats(DType a, DType b) {
  if (a == b)
    return a;
  if (a == DType::kF64 || b == DType::kF64)
    return DType::kF64;
  return DType::kF32;
}

DType promote_integers(DType a, DType b) {
  if (is_wide_unsigned(a) || is_wide_unsigned(b))
    throw UnsupportedError("promotion of " + std::string(name_of(a)) + " with " + std::string(name_of(b)));
  if (a == DType::kU8 || b == DType::kU8) {
    DType other = a == DType::kU8 ? b : a;
    return other == DType::kI8 ? DType::kI16 : other;
  }
  return size_of(a) > size_of(b) ? a : b;
}

} // namespace

DType promote(DType a, DType b) {
  if (a == b || is_bool(b))
    return a;
  if (is_bool(a))
    return b;
  if (is_complex(a) || is_complex(b)) {
    bool is_double = a == DType::kC128 || b == DType::kC128 || a == DType::kF64 || b == DType::kF64;
    return is_double ? DType::kC128 : DType::kC64;
  }
  if (is_float(a) && is_float(b))
    return promote_floats(a, b);
  if (is_float(a))
    return a;
  if (is_float(b))
    return b;
  return promote_integers(a, b);
}

void Promotion::merge(Rank &rank, DType dtype) {
  rank.dtype = rank.is_set ? promote(rank.dtype, dtype) : dtype;
  rank.is_set = true;
}

Promotion::Rank Promotion::combine(const Rank &higher, const Rank &lower) {
  if (!lower.is_set)
    return higher;
  if (!higher.is_set)
    return lower;
  if (is_complex(higher.dtype))
    return higher;
  if (is_float(higher.dtype))
    return is_complex(lower.dtype) ? Rank{true, complex_of(higher.dtype)} : higher;
  if (is_bool(higher.dtype) || is_float(lower.dtype) || is_complex(lower.dtype))
    return {true, promote(higher.dtype, lower.dtype)};
  return higher;
}

DType Promotion::result() const {
  Rank rank = combine(axes_, combine(no_axes_, number_));
  OXYFUEL_CHECK(rank.is_set, "promotion of nothing");
  return rank.dtype;
}

DType promote(std::span<graph::Value *const> operands) {
  Promotion promotion;
  for (const graph::Value *value : operands)
    if (value)
      promotion.add_tensor(value->type);
  return promotion.result();
}

} // namespace oxyfuel
