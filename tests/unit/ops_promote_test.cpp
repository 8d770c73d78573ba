// PyTorch's type promotion.
#include <gtest/gtest.h>

#include "ops/promote.h"
#include "support/error.h"

namespace oxyfuel {
namespace {

TEST(Promote, Pairs) {
  EXPECT_EQ(promote(DType::kBool, DType::kI8), DType::kI8);
  EXPECT_EQ(promote(DType::kU8, DType::kI8), DType::kI16);
  EXPECT_EQ(promote(DType::kU8, DType::kI64), DType::kI64);
  EXPECT_EQ(promote(DType::kI64, DType::kF16), DType::kF16);
  EXPECT_EQ(promote(DType::kF16, DType::kBF16), DType::kF32);
  EXPECT_EQ(promote(DType::kF64, DType::kC64), DType::kC128);
  EXPECT_EQ(promote(DType::kBF16, DType::kC64), DType::kC64);
  EXPECT_THROW(promote(DType::kU32, DType::kI32), UnsupportedError);
}

TEST(Promote, RanksOfOperands) {
  ExprContext context;
  graph::Type vector{DType::kF16, {context.integer(3)}}, integers{DType::kI32, {context.integer(3)}},
      scalar{DType::kF64, {}};
  Promotion same_category;
  same_category.add_tensor(vector);
  same_category.add_tensor(scalar);
  EXPECT_EQ(same_category.result(), DType::kF16);
  Promotion higher_category;
  higher_category.add_tensor(integers);
  higher_category.add_tensor(scalar);
  EXPECT_EQ(higher_category.result(), DType::kF64);
  Promotion number;
  number.add_tensor(integers);
  number.add_number(DType::kF32);
  EXPECT_EQ(number.result(), DType::kF32);
}

} // namespace
} // namespace oxyfuel
