// Scan groups against the Graph IR interpreter, with the accumulators that eager has.
#include "tests/unit/passes_lower_support.h"

namespace oxyfuel::testing {
namespace {

void check_scan(const std::string &dtype, const std::string &mode, int axis) {
  DType type;
  ASSERT_TRUE(parse_dtype(dtype, type));
  std::string node = "scan(%x) {axis = " + std::to_string(axis) + ", mode = \"" + mode + "\"";
  if (dtype == "f32" && mode != "max" && mode != "min")
    node += ", accumulator = f64";
  std::string shape = "[3, s0, 37]", value = dtype + shape;
  Tensor x = random_tensor(type, {3, 11, 37}, 7);
  if (is_float(type) && mode != "logsumexp")
    graph::set_number(x, 200, NAN);
  check_group("graph @main(%x: " + value + ") symbols(s0 in [1, inf) hint 8) {\n  %0: " + value + " = " + node +
                  "}\n  return %0\n}",
              "scan", {x}, {11}, mode == "logsumexp" ? 1e-6 : 0);
}

TEST(LowerScan, SumsAndProducts) {
  for (const char *dtype : {"f32", "f64", "i64", "bf16"})
    for (const char *mode : {"sum", "prod"})
      for (int axis : {0, 1, 2})
        check_scan(dtype, mode, axis);
}

TEST(LowerScan, Extremes) {
  for (const char *dtype : {"f32", "i32", "bool"})
    for (const char *mode : {"max", "min"})
      for (int axis : {0, 1, 2})
        check_scan(dtype, mode, axis);
}

TEST(LowerScan, LogSumExp) {
  check_scan("f32", "logsumexp", 1);
  check_scan("f32", "logsumexp", 2);
}

TEST(LowerScan, OfAView) {
  check_group("graph @main(%x: f32[6, 40]) {\n  %0: f32[40, 6] = permute(%x) {dims = [1, 0]}\n"
              "  %1: f32[40, 6] = scan(%0) {axis = 1, mode = \"sum\", accumulator = f64}\n  return %1\n}",
              "scan", {random_tensor(DType::kF32, {6, 40}, 1)});
}

} // namespace
} // namespace oxyfuel::testing
