// Kernels of lowered groups as machine code, against the Graph IR interpreter.
#include "runtime/abi.h"
#include "tests/unit/codegen_support.h"
#include "tests/unit/passes_lower_support.h"

namespace oxyfuel::testing {
namespace {

int32_t run_compiled(const loop::Kernel &kernel, const std::vector<void *> &buffers, const std::vector<int64_t> &sizes,
                     int64_t tasks) {
  codegen::CompileOptions options;
  options.verify = true;
  codegen::Loaded loaded(kernel, options);
  return loaded.run(buffers, sizes, tasks);
}

TEST(DriverLowered, Scatters) {
  for (const char *mode : {"set", "add", "max"})
    for (const char *dtype : {"f32", "bf16", "i64"}) {
      DType type;
      ASSERT_TRUE(parse_dtype(dtype, type));
      std::string t = dtype;
      for (int axis : {0, 1})
        check_group("graph @main(%x: " + t + "[6, 83], %i: i64[4, 71], %u: " + t + "[4, 71]) {\n  %0: " + t +
                        "[6, 83] = scatter(%x, %i, %u) {axis = " + std::to_string(axis) + ", mode = \"" + mode +
                        "\"}\n  return %0\n}",
                    "scatter",
                    {random_tensor(type, {6, 83}, 1), random_tensor(DType::kI64, {4, 71}, 2, 0, 6),
                     random_tensor(type, {4, 71}, 3)},
                    {}, 0, run_compiled);
    }
  check_group("graph @main(%x: f32[], %i: i64[2, s0], %u: f32[2, s0, 70]) symbols(s0 in [1, inf) hint 8) {\n"
              "  %0: f32[9, 70] = expand(%x) {shape = sizes(9, 70)}\n"
              "  %1: f32[9, 70] = index_put(%0, %u, %i) {accumulate = true}\n  return %1\n}",
              "scatter",
              {random_tensor(DType::kF32, {}, 1), random_tensor(DType::kI64, {2, 7}, 2, -9, 9),
               random_tensor(DType::kF32, {2, 7, 70}, 3)},
              {7}, 0, run_compiled);
}

TEST(DriverLowered, Scans) {
  for (const char *dtype : {"f32", "bf16", "i64"})
    for (const char *mode : {"sum", "prod", "max", "logsumexp"}) {
      if (std::string(mode) == "logsumexp" && std::string(dtype) != "f32")
        continue;
      DType type;
      ASSERT_TRUE(parse_dtype(dtype, type));
      for (int axis : {0, 1}) {
        std::string value = std::string(dtype) + "[s0, 83]";
        check_group("graph @main(%x: " + value + ") symbols(s0 in [1, inf) hint 8) {\n  %0: " + value +
                        " = scan(%x) {axis = " + std::to_string(axis) + ", mode = \"" + mode + "\"" +
                        (std::string(dtype) == "f32" ? ", accumulator = f64" : "") + "}\n  return %0\n}",
                    "scan", {random_tensor(type, {13, 83}, 1)}, {13}, std::string(mode) == "logsumexp" ? 1e-6 : 0,
                    run_compiled);
      }
    }
}

TEST(DriverLowered, Sorts) {
  for (const char *dtype : {"f32", "f64", "bf16", "u8", "i64"})
    for (const char *descending : {"false", "true"}) {
      DType type;
      ASSERT_TRUE(parse_dtype(dtype, type));
      std::string shape = "[2, s0, 3]";
      check_group("graph @main(%x: " + (dtype + shape) + ") symbols(s0 in [1, inf) hint 8) {\n  %0: " + dtype + shape +
                      ", %1: i64" + shape + " = sort(%x) {axis = 1, descending = " + descending +
                      ", stable = true}\n  return %1, %0\n}",
                  "sort", {random_tensor(type, {2, 333, 3}, 1, 0, 40)}, {333}, 0, run_compiled);
    }
}

} // namespace
} // namespace oxyfuel::testing
