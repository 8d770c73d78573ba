// Attention groups against the Graph IR interpreter: masks, causal, shared key heads, odd sizes, both forms.
#include "tests/unit/passes_lower_support.h"

namespace oxyfuel::testing {
namespace {

struct Case {
  int64_t batches = 2, heads = 2, key_heads = 2, queries = 5, keys = 7, size = 8, value_size = 8;
  std::string mask; ///< type and shape, such as "f32[5, 7]"; empty: none
  std::vector<int64_t> mask_shape;
  bool is_causal = false, is_symbolic = false, is_permuted = false;
  std::string dtype = "f32";
};

std::string list(std::initializer_list<std::string> parts) {
  std::string text;
  for (const std::string &part : parts)
    text += (text.empty() ? "[" : ", ") + part;
  return text + "]";
}

void check(const Case &c) {
  auto n = [](int64_t value) { return std::to_string(value); };
  std::string queries = c.is_symbolic ? "s0" : n(c.queries), keys = c.is_symbolic ? "s1" : n(c.keys);
  std::string key_layout = c.is_permuted ? " strides(" + keys + " * " + n(c.key_heads * c.size) + ", " + n(c.size) +
                                               ", " + n(c.key_heads * c.size) + ", 1)"
                                         : "";
  std::string out_layout = c.is_permuted ? " strides(" + queries + " * " + n(c.heads * c.value_size) + ", " +
                                               n(c.value_size) + ", " + n(c.heads * c.value_size) + ", 1)"
                                         : "";
  std::string out = c.dtype + list({n(c.batches), n(c.heads), queries, n(c.value_size)}) + out_layout;
  std::string accumulator = c.dtype == "f64" ? "f64" : "f32";
  std::string text = "graph @main(%q: " + c.dtype + list({n(c.batches), n(c.heads), queries, n(c.size)}) +
                     ", %k: " + c.dtype + list({n(c.batches), n(c.key_heads), keys, n(c.size)}) + key_layout +
                     ", %v: " + c.dtype + list({n(c.batches), n(c.key_heads), keys, n(c.value_size)}) +
                     (c.mask.empty() ? "" : ", %m: " + c.mask) + ")";
  if (c.is_symbolic)
    text += " symbols(s0 in [1, inf) hint 64, s1 in [1, inf) hint 64)";
  text += " {\n  %0: " + out + ", %1: " + accumulator + list({n(c.batches), n(c.heads), queries}) +
          " = attention(%q, %k, %v, " + (c.mask.empty() ? "null" : "%m") +
          ") {scale = 0.3, causal = " + (c.is_causal ? "true" : "false") + "}\n  return %1, %0\n}";
  DType type, mask_type;
  ASSERT_TRUE(parse_dtype(c.dtype, type));
  std::vector<Tensor> inputs{random_tensor(type, {c.batches, c.heads, c.queries, c.size}, 1),
                             random_tensor(type, {c.batches, c.key_heads, c.keys, c.size}, 2),
                             random_tensor(type, {c.batches, c.key_heads, c.keys, c.value_size}, 3)};
  if (!c.mask.empty()) {
    ASSERT_TRUE(parse_dtype(c.mask.substr(0, c.mask.find('[')), mask_type));
    inputs.push_back(random_tensor(mask_type, c.mask_shape, 4));
    for (int64_t i = 0; is_float(mask_type) && i < graph::element_count(inputs[3]); i += 3)
      graph::set_number(inputs[3], i, -INFINITY);
  }
  std::vector<int64_t> symbols;
  if (c.is_symbolic)
    symbols = {c.queries, c.keys};
  check_group(text, "attention", inputs, symbols, c.dtype == "bf16" ? 0.01 : c.dtype == "f64" ? 1e-13 : 4e-6);
}

TEST(LowerAttention, Lengths) {
  for (int64_t queries : {1, 3, 5, 16, 17, 64, 70})
    for (int64_t keys : {1, 7, 33, 197, 520}) {
      Case c;
      c.batches = 1, c.queries = queries, c.keys = keys;
      check(c);
      c.is_symbolic = c.is_permuted = true;
      check(c);
    }
}

TEST(LowerAttention, HeadSizes) {
  for (int64_t size : {1, 5, 16, 20, 40})
    for (int64_t value_size : {3, 16, 24, 80}) {
      Case c;
      c.batches = 1, c.queries = 9, c.size = size, c.value_size = value_size, c.is_permuted = true;
      check(c);
      c.queries = 2;
      check(c);
    }
}

TEST(LowerAttention, Causal) {
  for (auto [queries, keys] : {std::pair<int64_t, int64_t>{1, 3}, {4, 4}, {70, 70}, {70, 9}, {20, 300}, {130, 600}})
    for (bool is_symbolic : {false, true}) {
      Case c;
      c.batches = 1, c.queries = queries, c.keys = keys, c.is_causal = true, c.is_symbolic = is_symbolic;
      check(c);
    }
}

TEST(LowerAttention, Masks) {
  for (int64_t queries : {2, 21})
    for (const char *dtype : {"f32", "bool"}) {
      std::string t = dtype, q = std::to_string(queries);
      Case c;
      c.queries = queries, c.keys = 37;
      c.mask = t + "[2, 1, 1, 37]", c.mask_shape = {2, 1, 1, 37};
      check(c);
      c.mask = t + "[2, 2, " + q + ", 37]", c.mask_shape = {2, 2, queries, 37};
      check(c);
      c.mask = t + "[" + q + ", 37]", c.mask_shape = {queries, 37};
      check(c);
      c.is_symbolic = true;
      c.mask = t + "[s0, s1]";
      check(c);
    }
}

TEST(LowerAttention, SharedKeyHeads) {
  for (int64_t queries : {1, 2, 9})
    for (int64_t keys : {19, 600}) {
      Case c;
      c.heads = 6, c.key_heads = 2, c.queries = queries, c.keys = keys;
      check(c);
      c.is_symbolic = c.is_permuted = true;
      check(c);
    }
}

TEST(LowerAttention, Types) {
  for (const char *dtype : {"bf16", "f16", "f64"})
    for (int64_t queries : {1, 20}) {
      Case c;
      c.dtype = dtype, c.queries = queries, c.keys = 50, c.size = 20;
      if (c.dtype == "f16")
        continue;
      check(c);
      c.keys = 600;
      check(c);
    }
}

TEST(LowerAttention, QueriesWithoutKeysAreZero) {
  for (int64_t queries : {2, 20})
    for (int64_t keys : {30, 600}) {
      std::string q = std::to_string(queries), k = std::to_string(keys);
      Group group("graph @main(%q: f32[1, 1, " + q + ", 8], %k: f32[1, 1, " + k + ", 8], %v: f32[1, 1, " + k +
                      ", 8], %m: bool[" + q + ", 1]) {\n  %0: f32[1, 1, " + q + ", 8], %1: f32[1, 1, " + q +
                      "] = attention(%q, %k, %v, %m) {scale = 0.3, causal = false}\n  return %0, %1\n}",
                  "attention");
      Tensor mask = random_tensor(DType::kBool, {queries, 1}, 4);
      GroupRun run =
          run_group(group,
                    {random_tensor(DType::kF32, {1, 1, queries, 8}, 1), random_tensor(DType::kF32, {1, 1, keys, 8}, 2),
                     random_tensor(DType::kF32, {1, 1, keys, 8}, 3), mask},
                    {}, test_machines()[1]);
      for (int64_t i = 0; i < queries; ++i) {
        bool is_empty = graph::element_at(mask, i).i == 0;
        EXPECT_EQ(graph::number_at(run.results[0], i * 8 + 3) == 0, is_empty);
        EXPECT_EQ(graph::number_at(run.results[1], i) == 0, is_empty);
      }
    }
}

} // namespace
} // namespace oxyfuel::testing
