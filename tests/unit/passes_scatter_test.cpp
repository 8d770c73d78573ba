// Scatter groups against the Graph IR interpreter.
#include "runtime/abi.h"
#include "tests/unit/passes_lower_support.h"

namespace oxyfuel::testing {
namespace {

TEST(LowerScatter, AlongEachAxis) {
  for (const char *mode : {"set", "add", "mul", "max", "min"})
    for (const char *dtype : {"f32", "i64", "bf16"})
      for (int axis : {0, 1, 2}) {
        DType type;
        ASSERT_TRUE(parse_dtype(dtype, type));
        std::string t = dtype;
        check_group("graph @main(%x: " + t + "[5, 6, 19], %i: i64[4, 3, 18], %u: " + t + "[4, 5, 18]) {\n" +
                        "  %0: " + t + "[5, 6, 19] = scatter(%x, %i, %u) {axis = " + std::to_string(axis) +
                        ", mode = \"" + mode + "\"}\n  return %0\n}",
                    "scatter",
                    {random_tensor(type, {5, 6, 19}, 1), random_tensor(DType::kI64, {4, 3, 18}, 2, 0, 5),
                     random_tensor(type, {4, 5, 18}, 3)});
      }
}

TEST(LowerScatter, RowsOfATable) { // the gradient of an embedding
  check_group("graph @main(%x: f32[], %i: i64[2, s0], %u: f32[2, s0, 70]) symbols(s0 in [1, inf) hint 8) {\n"
              "  %0: f32[9, 70] = expand(%x) {shape = sizes(9, 70)}\n"
              "  %1: f32[9, 70] = index_put(%0, %u, %i) {accumulate = true}\n  return %1\n}",
              "scatter",
              {random_tensor(DType::kF32, {}, 1), random_tensor(DType::kI64, {2, 7}, 2, -9, 9),
               random_tensor(DType::kF32, {2, 7, 70}, 3)},
              {7});
}

TEST(LowerScatter, PlacesOfSeveralAxes) {
  const std::string head = "graph @main(%x: f32[5, 6, 7, 3], %i: i64[4, 1], %j: i64[3], %u: f32[";
  auto inputs = [](std::vector<int64_t> shape) {
    return std::vector<Tensor>{random_tensor(DType::kF32, {5, 6, 7, 3}, 1),
                               random_tensor(DType::kI64, {4, 1}, 2, -5, 5), random_tensor(DType::kI64, {3}, 3, -5, 5),
                               random_tensor(DType::kF32, shape, 4)};
  };
  for (const char *accumulate : {"true", "false"}) {
    std::string tail = std::string(") {accumulate = ") + accumulate + "}\n  return %0\n}";
    check_group(head + "5, 4, 3, 3]) {\n  %0: f32[5, 6, 7, 3] = index_put(%x, %u, null, %i, %j" + tail, "scatter",
                inputs({5, 4, 3, 3}));
    check_group(head + "4, 3, 6, 3]) {\n  %0: f32[5, 6, 7, 3] = index_put(%x, %u, %i, null, %j" + tail, "scatter",
                inputs({4, 3, 6, 3}));
    check_group(head + "1, 3]) {\n  %0: f32[5, 6, 7, 3] = index_put(%x, %u, %i, null, %j" + tail, "scatter",
                inputs({1, 3}));
  }
}

TEST(LowerScatter, Slices) {
  check_group(
      "graph @main(%x: f32[2, s0, 40] strides(40 * s0, 40, 1), %u: f32[2, 3, 40]) symbols(s0 in [1, inf) hint 9) {\n"
      "  %0: f32[2, s0, 40] = slice_scatter(%x, %u) {axis = 1, start = 2, step = 3}\n  return %0\n}",
      "scatter", {random_tensor(DType::kF32, {2, 9, 40}, 1), random_tensor(DType::kF32, {2, 3, 40}, 2)}, {9});
}

TEST(LowerScatter, TheCopyOfTheBaseMayBeDropped) {
  auto is_copy = [](const std::string &text) {
    Group group(text, "scatter");
    return lower_group(*group.node, Machine()).calls[0].is_base_copy;
  };
  EXPECT_TRUE(is_copy("graph @main(%x: f32[8, 4], %u: f32[2, 4]) {\n"
                      "  %0: f32[8, 4] = slice_scatter(%x, %u) {axis = 0, start = 1, step = 1}\n  return %0\n}"));
  EXPECT_FALSE(
      is_copy("graph @main(%x: f32[8, 4]) {\n  %0: f32[2, 4] = slice(%x) {axis = 0, start = 3, step = 1, length = 2}\n"
              "  %1: f32[8, 4] = slice_scatter(%x, %0) {axis = 0, start = 1, step = 1}\n  return %1\n}"));
  EXPECT_FALSE(is_copy("graph @main(%x: f32[4, 8], %u: f32[2, 4]) {\n  %0: f32[8, 4] = permute(%x) {dims = [1, 0]}\n"
                       "  %1: f32[8, 4] = slice_scatter(%0, %u) {axis = 0, start = 1, step = 1}\n  return %1\n}"));
}

TEST(LowerScatter, PlacesOutOfRangeAreFound) {
  Group group("graph @main(%x: f32[8], %i: i64[3], %u: f32[3]) {\n"
              "  %0: f32[8] = scatter(%x, %i, %u) {axis = 0, mode = \"set\"}\n  return %0\n}",
              "scatter");
  Tensor places = random_tensor(DType::kI64, {3}, 2, 0, 8);
  Scalar bad{};
  for (int64_t place : {8, -1}) {
    bad.i = place;
    graph::set_element(places, 1, bad);
    EXPECT_EQ(run_group(group, {random_tensor(DType::kF32, {8}, 1), places, random_tensor(DType::kF32, {3}, 3)}, {},
                        Machine())
                  .status,
              kOxyfuelIndexOutOfRange);
  }
}

} // namespace
} // namespace oxyfuel::testing
