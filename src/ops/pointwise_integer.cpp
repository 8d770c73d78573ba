// Bitwise operators, shifts and integer powers.
#include "ops/pointwise.h"

namespace oxyfuel {

namespace {

struct BitwiseAnd : Pointwise<2> {
  static constexpr std::string_view
      name = "bitwise_and",
      doc = "a & b; bool: and",
      aten = "aten.bitwise_and.Tensor aten.bitwise_and.Scalar aten.bitwise_and.Scalar_Tensor "
             "aten.__and__.Tensor aten.__and__.Scalar prims.bitwise_and.default";
  static auto body(auto a, auto b) { return a & b; }
};

struct BitwiseOr : Pointwise<2> {
  static constexpr std::string_view name = "bitwise_or", doc = "a | b; bool: or",
                                    aten =
                                        "aten.bitwise_or.Tensor aten.bitwise_or.Scalar aten.bitwise_or.Scalar_Tensor "
                                        "aten.__or__.Tensor aten.__or__.Scalar prims.bitwise_or.default";
  static auto body(auto a, auto b) { return a | b; }
};

struct BitwiseXor : Pointwise<2> {
  static constexpr std::string_view
      name = "bitwise_xor",
      doc = "a ^ b; bool: xor",
      aten = "aten.bitwise_xor.Tensor aten.bitwise_xor.Scalar aten.bitwise_xor.Scalar_Tensor "
             "aten.__xor__.Tensor aten.__xor__.Scalar prims.bitwise_xor.default";
  static auto body(auto a, auto b) { return a ^ b; }
};

struct BitwiseNot : Pointwise<1> {
  static constexpr std::string_view name = "bitwise_not", aten = "aten.bitwise_not.default prims.bitwise_not.default",
                                    doc = "~x; bool: not";
  static auto body(auto x) { return is_bool(x.dtype()) ? !x : x ^ x.like(0).context().integer(-1, x.dtype()); }
};

int bits_of(DType t) { return static_cast<int>(size_of(t)) * 8; }

/// False where a shift amount is negative or reaches the width: eager then gives what all bits shifted out leave.
auto shifts_some(auto a, auto b) {
  auto fits = b < b.like(bits_of(a.dtype()));
  return is_signed_integer(b.dtype()) ? fits && b >= b.like(0) : fits;
}

struct Shl : Pointwise<2> {
  static constexpr std::string_view name = "shl", doc = "a << b; 0 when b is negative or not below the width",
                                    aten = "aten.bitwise_left_shift.Tensor aten.bitwise_left_shift.Tensor_Scalar "
                                           "aten.bitwise_left_shift.Scalar_Tensor aten.__lshift__.Tensor "
                                           "aten.__lshift__.Scalar prims.shift_left.default";
  static auto body(auto a, auto b) {
    auto fits = shifts_some(a, b);
    return select(fits, shl(a, select(fits, b, b.like(0))), a.like(0));
  }
};

struct Shr : Pointwise<2> {
  static constexpr std::string_view name = "shr", doc = "a >> b; the sign when b is negative or not below the width",
                                    aten = "aten.bitwise_right_shift.Tensor aten.bitwise_right_shift.Tensor_Scalar "
                                           "aten.bitwise_right_shift.Scalar_Tensor aten.__rshift__.Tensor "
                                           "aten.__rshift__.Scalar prims.shift_right_arithmetic.default";
  static auto body(auto a, auto b) {
    auto fits = shifts_some(a, b);
    auto sign = is_signed_integer(a.dtype()) ? shr(a, a.like(bits_of(a.dtype()) - 1)) : a.like(0);
    return select(fits, shr(a, select(fits, b, b.like(0))), sign);
  }
};

struct IntegerPow : Pointwise<1> {
  static constexpr std::string_view name = "integer_pow", doc = "x to the constant `exponent` >= 0 by squaring; wraps";
  static auto body(auto x, const graph::Node &node) {
    int64_t exponent = node.get<int64_t>("exponent");
    auto result = x.like(1);
    if (is_bool(x.dtype()))
      return exponent == 0 ? result : x;
    for (auto power = x; exponent > 0; exponent >>= 1) {
      if (exponent & 1)
        result = result * power;
      if (exponent > 1)
        power = power * power;
    }
    return result;
  }
};

using Table = PointwiseTable<BitwiseAnd, BitwiseOr, BitwiseXor, BitwiseNot, Shl, Shr, IntegerPow>;

} // namespace

OpTable pointwise_integer() { return Table::table(); }

} // namespace oxyfuel
