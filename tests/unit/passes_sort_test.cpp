// Sort groups against the Graph IR interpreter: stable, NaN last, any axis.
#include "tests/unit/passes_lower_support.h"

namespace oxyfuel::testing {
namespace {

Tensor many_equals(DType type, std::vector<int64_t> shape) {
  Tensor x = random_tensor(type, std::move(shape), 5, is_signed_integer(type) || is_float(type) ? -9 : 0, 9);
  if (!is_float(type))
    return x;
  for (int64_t i = 0; i < graph::element_count(x); ++i) {
    constexpr double specials[] = {NAN, -0.0, 0.0, INFINITY, -INFINITY};
    graph::set_number(x, i, i % 7 == 0 ? specials[i / 7 % 5] : std::floor(graph::number_at(x, i)));
  }
  return x;
}

void check_sort(const std::string &dtype, const std::string &shape, const std::string &clause,
                std::vector<int64_t> sizes, int axis, bool is_descending) {
  DType type;
  ASSERT_TRUE(parse_dtype(dtype, type));
  std::vector<int64_t> symbols;
  if (!clause.empty())
    symbols.push_back(sizes[1]);
  check_group("graph @main(%x: " + dtype + shape + ")" + clause + " {\n  %0: " + dtype + shape + ", %1: i64" + shape +
                  " = sort(%x) {axis = " + std::to_string(axis) +
                  ", descending = " + (is_descending ? "true" : "false") + ", stable = true}\n  return %1, %0\n}",
              "sort", {many_equals(type, sizes)}, symbols);
}

TEST(LowerSort, Types) {
  for (const char *dtype : {"f32", "f64", "bf16", "f16", "i8", "u8", "i32", "u32", "i64", "u64", "bool"})
    for (bool is_descending : {false, true})
      check_sort(dtype, "[2, 150]", "", {2, 150}, 1, is_descending);
}

TEST(LowerSort, LengthsAndAxes) {
  for (int64_t length : {1, 2, 15, 16, 17, 33, 64, 65, 200, 1000}) {
    check_sort("f32", "[3, " + std::to_string(length) + "]", "", {3, length}, 1, true);
    check_sort("f64", "[3, s0, 2]", " symbols(s0 in [1, inf) hint 8)", {3, length, 2}, 1, false);
    check_sort("f32", "[3, s0, 2]", " symbols(s0 in [1, inf) hint 8)", {3, length, 2}, 1, false);
  }
  check_sort("f32", "[5, 7]", "", {5, 7}, 0, false);
  check_sort("i64", "[20000]", "", {20000}, 0, false);
  check_sort("i32", "[20000]", "", {20000}, 0, false);
}

TEST(LowerSort, OfAView) {
  check_group(
      "graph @main(%x: f32[100, 3]) {\n  %0: f32[3, 100] = permute(%x) {dims = [1, 0]}\n"
      "  %1: f32[3, 100], %2: i64[3, 100] = sort(%0) {axis = 1, descending = true, stable = true}\n  return %1, %2\n}",
      "sort", {many_equals(DType::kF32, {100, 3})});
}

} // namespace
} // namespace oxyfuel::testing
