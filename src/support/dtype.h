// Element types. Shared by both IRs, plans and artifacts; the numeric values are part of the artifact format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace oxyfuel {

enum class DType : uint8_t {
  kBool = 0, // one byte, 0 or 1
  kU8 = 1,
  kI8 = 2,
  kI16 = 3,
  kI32 = 4,
  kI64 = 5,
  kF16 = 6,
  kBF16 = 7,
  kF32 = 8,
  kF64 = 9,
  kC64 = 10,  // two f32
  kC128 = 11, // two f64
  kU16 = 12,
  kU32 = 13,
  kU64 = 14,
};
inline constexpr int kDTypeCount = 15;

/// Size of one element in bytes.
constexpr size_t size_of(DType dtype) {
  constexpr size_t sizes[kDTypeCount] = {1, 1, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16, 2, 4, 8};
  return sizes[static_cast<int>(dtype)];
}

/// The name in IR text: "f32", "bf16", "i64", "bool", "c64", …
constexpr std::string_view name_of(DType dtype) {
  constexpr std::string_view names[kDTypeCount] = {"bool", "u8",  "i8",  "i16",  "i32", "i64", "f16", "bf16",
                                                   "f32",  "f64", "c64", "c128", "u16", "u32", "u64"};
  return names[static_cast<int>(dtype)];
}

/// Finds the type of a name in IR text; false when there is none.
constexpr bool parse_dtype(std::string_view name, DType &dtype) {
  for (int i = 0; i < kDTypeCount; ++i)
    if (name_of(static_cast<DType>(i)) == name) {
      dtype = static_cast<DType>(i);
      return true;
    }
  return false;
}

constexpr bool is_float(DType t) {
  return t == DType::kF16 || t == DType::kBF16 || t == DType::kF32 || t == DType::kF64;
}
constexpr bool is_complex(DType t) { return t == DType::kC64 || t == DType::kC128; }
constexpr bool is_bool(DType t) { return t == DType::kBool; }
/// Integers proper: bool is not one.
constexpr bool is_integer(DType t) { return !is_float(t) && !is_complex(t) && !is_bool(t); }
constexpr bool is_signed_integer(DType t) {
  return t == DType::kI8 || t == DType::kI16 || t == DType::kI32 || t == DType::kI64;
}
/// The type in which eager computes an operator on elements of type `t`: float32 for the half types, else `t`.
constexpr DType opmath_of(DType t) { return t == DType::kF16 || t == DType::kBF16 ? DType::kF32 : t; }
/// Element type of the real and the imaginary part of a complex type; `t` itself otherwise.
constexpr DType real_of(DType t) { return t == DType::kC64 ? DType::kF32 : t == DType::kC128 ? DType::kF64 : t; }

} // namespace oxyfuel
