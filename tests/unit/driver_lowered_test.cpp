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

TEST(DriverLowered, Attention) {
  auto check = [](const std::string &shapes, const std::string &attributes, std::vector<Tensor> inputs, bool has_mask,
                  const std::string &results) {
    check_group("graph @main(" + shapes + ") symbols(s0 in [1, inf) hint 64) {\n  " + results +
                    " = attention(%q, %k, %v, " + (has_mask ? "%m" : "null") +
                    ") {scale = 0.3, causal = " + attributes + "}\n  return %0, %1\n}",
                "attention", inputs, {inputs[1].shape[2]}, 4e-6, run_compiled);
  };
  for (int64_t queries : {1, 3, 30, 70}) {
    std::string n = std::to_string(queries), results = "%0: f32[2, 4, " + n + ", 40], %1: f32[2, 4, " + n + "]";
    for (int64_t keys : {1, 19, 300}) {
      std::string shapes = "%q: f32[2, 4, " + n + ", 24], %k: f32[2, 2, s0, 24], %v: f32[2, 2, s0, 40]";
      std::vector<Tensor> inputs{random_tensor(DType::kF32, {2, 4, queries, 24}, 1),
                                 random_tensor(DType::kF32, {2, 2, keys, 24}, 2),
                                 random_tensor(DType::kF32, {2, 2, keys, 40}, 3)};
      check(shapes, "false", inputs, false, results);
      check(shapes, "true", inputs, false, results);
      inputs.push_back(random_tensor(DType::kF32, {2, 1, queries, keys}, 4));
      check(shapes + ", %m: f32[2, 1, " + n + ", s0]", "false", inputs, true, results);
      inputs[3] = random_tensor(DType::kBool, {2, 1, 1, keys}, 4);
      check(shapes + ", %m: bool[2, 1, 1, s0]", "false", inputs, true, results);
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
