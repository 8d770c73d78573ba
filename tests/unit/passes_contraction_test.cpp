// Contraction groups: the lowered kernels, run by the Loop IR interpreter, against the Graph IR interpreter.
#include "passes/lower/contraction.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "ops/interpret.h"
#include "ops/op.h"
#include "ops/reference.h"
#include "passes/graph/fuse.h"
#include "support/error.h"

namespace oxyfuel {
namespace {

using graph::Tensor;

Machine avx512() {
  Machine machine;
  machine.vector_bytes = 64;
  machine.vector_registers = 32;
  machine.has_masks = true;
  machine.has_bfloat16_dot = true;
  return machine;
}

/// Memory of a value: its elements at the places that the layout gives, in a buffer with room for them.
struct Memory {
  std::vector<std::byte> bytes;
  std::vector<int64_t> strides;
  int64_t offset = 0;
};

class Runner {
public:
  Runner(const std::string &text, std::vector<int64_t> symbols) : text_(text), symbols_(std::move(symbols)) {
    graph_ = graph::parse(text);
    for (const auto &input : graph_->inputs())
      inputs_.push_back(random_tensor(*input));
  }

  /// Runs both ways and compares.
  void check(const Machine &machine) {
    SCOPED_TRACE(text_);
    std::vector<Tensor> wanted = interpret(*graph_, inputs_, symbols_);
    auto fused = graph::parse(text_);
    PassContext context;
    graph::fuse(*fused, context);
    const graph::Node *group = nullptr;
    for (const auto &node : fused->nodes())
      if (node->op->name == "group") {
        ASSERT_EQ(group, nullptr) << "two groups: " << print(*fused);
        group = node.get();
      }
    ASSERT_NE(group, nullptr);
    ASSERT_EQ(group->get<std::string>("kind"), "contraction") << print(*fused);
    LoweredGroup lowered = lower_contraction(*group, machine);
    schedule = lowered.schedule;
    SCOPED_TRACE(lowered.schedule);
    calls = static_cast<int>(lowered.calls.size());
    std::vector<Memory> operands, results, temporaries;
    for (const graph::Value *operand : group->operands) {
      operands.push_back(allocate(*operand));
      fill(operands.back(), inputs_.at(static_cast<size_t>(operand->index)));
    }
    for (const auto &result : group->results)
      results.push_back(allocate(*result));
    for (const Temporary &temporary : lowered.temporaries)
      temporaries.push_back(
          {std::vector<std::byte>(static_cast<size_t>(number(temporary.elements)) * size_of(temporary.dtype) + 64,
                                  std::byte{0xAB}),
           {},
           0});
    for (const KernelCall &call : lowered.calls) {
      const loop::Kernel &kernel = *lowered.kernels[static_cast<size_t>(call.kernel)];
      verify(kernel);
      std::vector<void *> buffers;
      for (const BufferReference &reference : call.buffers) {
        auto &list = reference.kind == BufferReference::Kind::kOperand  ? operands
                     : reference.kind == BufferReference::Kind::kResult ? results
                                                                        : temporaries;
        buffers.push_back(list.at(static_cast<size_t>(reference.index)).bytes.data());
      }
      std::vector<int64_t> sizes;
      for (Expr size : call.sizes)
        sizes.push_back(number(size));
      ASSERT_EQ(interpret(kernel, buffers, sizes), 0);
    }
    for (size_t i = 0; i < wanted.size(); ++i) {
      const graph::Value *output = fused->outputs[i];
      ASSERT_EQ(output->producer, group);
      compare(results.at(static_cast<size_t>(output->index)), wanted[i]);
    }
  }

  std::string schedule;
  int calls = 0;

private:
  int64_t number(Expr e) {
    return evaluate(e, [&](const Var *v) {
      for (const auto *graph : {graph_.get()})
        for (size_t i = 0; i < graph->symbols.size(); ++i)
          if (graph->symbols[i]->name == v->name)
            return symbols_.at(i);
      throw InternalError("no value for " + v->name);
    });
  }

  Tensor random_tensor(const graph::Value &value) {
    std::vector<int64_t> shape;
    for (Expr extent : value.type.shape)
      shape.push_back(number(extent));
    Tensor tensor = graph::make_tensor(value.type.dtype, shape);
    DType part = real_of(tensor.dtype);
    auto count = static_cast<int64_t>(tensor.data.size() / size_of(part));
    Tensor parts = tensor;
    parts.dtype = part, parts.shape = {count};
    for (int64_t i = 0; i < count; ++i)
      set_number(parts, i,
                 is_float(part) ? std::uniform_int_distribution<int>(-8, 8)(random_) / 8.0
                                : std::uniform_int_distribution<int>(0, is_bool(part) ? 1 : 5)(random_));
    tensor.data = parts.data;
    return tensor;
  }

  Memory allocate(const graph::Value &value) {
    Memory memory;
    std::vector<Expr> strides = value.layout.strides;
    ExprContext &context = value.type.shape.empty() ? graph_->context() : value.type.shape[0].context();
    if (strides.empty())
      strides = graph::contiguous_strides(context, value.type.shape);
    int64_t last = memory.offset = value.layout.offset ? number(value.layout.offset) : 0;
    for (size_t i = 0; i < strides.size(); ++i) {
      memory.strides.push_back(number(strides[i]));
      last += std::max<int64_t>(0, number(value.type.shape[i]) - 1) * memory.strides.back();
    }
    memory.bytes.resize(static_cast<size_t>(last + 1) * size_of(value.type.dtype));
    return memory;
  }
  template <class F> void each_place(const Memory &memory, const Tensor &tensor, const F &f) {
    int64_t flat = 0;
    graph::for_each_index(tensor.shape, [&](const std::vector<int64_t> &index) {
      int64_t place = memory.offset;
      for (size_t i = 0; i < index.size(); ++i)
        place += index[i] * memory.strides[i];
      f(static_cast<size_t>(place), flat++);
    });
  }
  void fill(Memory &memory, const Tensor &tensor) {
    size_t size = size_of(tensor.dtype);
    each_place(memory, tensor, [&](size_t place, int64_t flat) {
      std::memcpy(memory.bytes.data() + place * size, tensor.data.data() + static_cast<size_t>(flat) * size, size);
    });
  }
  void compare(const Memory &memory, const Tensor &wanted) {
    Tensor found = graph::make_tensor(wanted.dtype, wanted.shape);
    size_t size = size_of(wanted.dtype);
    each_place(memory, wanted, [&](size_t place, int64_t flat) {
      std::memcpy(found.data.data() + static_cast<size_t>(flat) * size, memory.bytes.data() + place * size, size);
    });
    DType part = real_of(wanted.dtype);
    Tensor a = found, b = wanted;
    a.dtype = b.dtype = part;
    a.shape = b.shape = {static_cast<int64_t>(wanted.data.size() / size_of(part))};
    // Products of eighths are exact in float32, so sums are equal in any order; the halves round once.
    for (size_t i = 0; i < wanted.data.size() / size_of(part); ++i)
      ASSERT_EQ(number_at(a, static_cast<int64_t>(i)), number_at(b, static_cast<int64_t>(i))) << "element " << i;
  }

  std::string text_;
  std::vector<int64_t> symbols_;
  std::unique_ptr<graph::Graph> graph_;
  std::vector<Tensor> inputs_;
  std::mt19937 random_{7};
};

std::string check(const std::string &text, const std::vector<int64_t> &symbols = {},
                  const Machine &machine = avx512()) {
  Runner runner(text, symbols);
  runner.check(machine);
  return runner.schedule;
}

std::string shape(std::initializer_list<int64_t> sizes) {
  std::string text = "[";
  for (int64_t size : sizes)
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

/// x [m, k] times w [n, k] transposed, plus a bias, relu.
std::string linear(const char *dtype, int64_t m, int64_t n, int64_t k, bool is_static) {
  std::string type = dtype;
  return "graph @main(%x: " + type + shape({m, k}) + ", %w: " + type + shape({n, k}) + (is_static ? " static" : "") +
         ", %b: " + type + shape({n}) + ") {\n  %t: " + type + shape({k, n}) +
         " = permute(%w) {dims = [1, 0]}\n  %0: " + type + shape({m, n}) + " = matmul(%x, %t)\n  %1: " + type +
         shape({m, n}) + " = add(%0, %b)\n  %2: " + type + shape({m, n}) + " = relu(%1)\n  return %2\n}";
}

std::string product(const char *dtype, int64_t m, int64_t n, int64_t k) {
  std::string type = dtype;
  return "graph @main(%x: " + type + shape({m, k}) + ", %y: " + type + shape({k, n}) + ") {\n  %0: " + type +
         shape({m, n}) + " = matmul(%x, %y)\n  return %0\n}";
}

TEST(Contraction, LinearLayersOfManySizes) {
  for (const char *dtype : {"f32", "bf16"})
    for (int64_t m : {1, 3, 8, 29, 128})
      for (int64_t n : {1, 31, 64, 100})
        for (int64_t k : {0, 1, 33, 64})
          for (bool is_static : {false, true})
            if (m * n * k < 200000)
              check(linear(dtype, m, n, k, is_static));
}

TEST(Contraction, ProductsOfAllTypes) {
  for (const char *dtype : {"f32", "f64", "f16", "bf16", "i64", "i32", "i8", "u8", "c64", "c128"})
    for (int64_t m : {1, 17, 100})
      for (int64_t n : {5, 64})
        for (int64_t k : {0, 7, 40})
          check(product(dtype, m, n, k));
}

TEST(Contraction, OtherMachines) {
  Machine avx2, scalar;
  scalar.vector_bytes = 4;
  for (const Machine &machine : {avx2, scalar}) {
    check(linear("f32", 29, 31, 33, true), {}, machine);
    check(linear("f32", 3, 31, 33, false), {}, machine);
    check(product("f64", 13, 17, 9), {}, machine);
    check(product("c64", 13, 17, 9), {}, machine);
  }
}

TEST(Contraction, Batches) {
  // Heads are strides of one activation; keys are read transposed.
  for (int64_t rows : {1, 5, 33})
    check("graph @main(%q: f32" + shape({2, rows, 3, 16}) + ", %k: f32" + shape({2, 9, 3, 16}) + R"() {
      %0: f32)" +
          shape({2, 3, rows, 16}) + R"( = permute(%q) {dims = [0, 2, 1, 3]}
      %1: f32[2, 3, 16, 9] = permute(%k) {dims = [0, 2, 3, 1]}
      %2: f32)" +
          shape({2, 3, rows, 9}) + R"( = matmul(%0, %1)
      %3: f32[] = constant() {value = 0.25, dtype = f32}
      %4: f32)" +
          shape({2, 3, rows, 9}) + R"( = mul(%2, %3)
      return %4
    })");
  // One B for all batches.
  check(R"(graph @main(%x: f32[3, 20, 8], %w: f32[8, 40] static) {
    %0: f32[1, 8, 40] = reshape(%w) {shape = [1, 8, 40]}
    %1: f32[3, 8, 40] = expand(%0) {shape = [3, 8, 40]}
    %2: f32[3, 20, 40] = matmul(%x, %1)
    return %2
  })");
}

TEST(Contraction, SymbolicSizes) {
  for (int64_t s : {1, 2, 13, 14, 15, 40})
    for (const char *kind : {"", " static"}) {
      std::string text = std::string("graph @main(%x: f32[s0, 24], %w: f32[40, 24]") + kind +
                         R"(, %r: f32[s0, 40]) symbols(s0 in [1, 1000) hint 64) {
        %0: f32[24, 40] = permute(%w) {dims = [1, 0]}
        %1: f32[s0, 40] = matmul(%x, %0)
        %2: f32[s0, 40] = add(%1, %r)
        return %2
      })";
      check(text, {s});
    }
  for (int64_t s : {1, 16, 17, 33})
    for (int64_t k : {1, 20})
      check(R"(graph @main(%x: f32[s0, s1], %y: f32[s1, s0]) symbols(s0 in [1, 1000) hint 64, s1 in [1, 1000) hint 64) {
        %0: f32[s0, s0] = matmul(%x, %y)
        return %0
      })",
            {s, k});
}

TEST(Contraction, Epilogues) {
  // A reshape between the product and its readers, two results, a value of the row alone, one of the column alone.
  check(R"(graph @main(%x: f32[30, 24], %w: f32[24, 40] static, %b: f32[40], %s: f32[2, 15, 1], %r: f32[2, 15, 40]) {
    %0: f32[30, 40] = matmul(%x, %w)
    %1: f32[2, 15, 40] = reshape(%0) {shape = [2, 15, 40]}
    %2: f32[2, 15, 40] = add(%1, %b)
    %3: f32[2, 15, 40] = relu(%2)
    %4: f32[2, 15, 40] = mul(%3, %s)
    %5: f32[2, 15, 40] = add(%4, %r)
    return %3, %5
  })");
  // The same with sizes that are not known, and bfloat16 rounding at each operator.
  check(R"(graph @main(%x: bf16[s0 * 15, 24], %w: bf16[24, 40] static, %b: bf16[40], %r: bf16[s0, 15, 40])
      symbols(s0 in [1, 100) hint 4) {
    %0: bf16[s0 * 15, 40] = matmul(%x, %w)
    %1: bf16[s0, 15, 40] = reshape(%0) {shape = sizes(s0, 15, 40)}
    %2: bf16[s0, 15, 40] = add(%1, %b)
    %5: bf16[s0, 15, 40] = add(%2, %r)
    return %5
  })",
        {3});
  // Long: runs from memory.
  std::string text =
      "graph @main(%x: f32[30, 24], %w: f32[24, 40] static, %y0: f32[30, 40]) {\n  %0: f32[30, 40] = matmul(%x, %w)\n";
  for (int i = 0; i < 30; ++i) {
    std::string from = i == 0 ? "%0" : "%z" + std::to_string(i);
    text += "  %z" + std::to_string(i + 1) +
            ": f32[30, 40] = " + (i % 2 ? "abs(" + from + ")" : "sub(" + from + ", %y0)") + "\n";
  }
  check(text + "  return %z30\n}");
}

struct Convolution {
  std::vector<int64_t> x, w; // [n, c, spatial…], [o, c / groups, kernel…]
  std::vector<int64_t> stride, padding, dilation;
  int64_t groups = 1;
  bool is_transposed = false;
  std::vector<int64_t> output_padding = {};
};

std::string list(const std::vector<int64_t> &numbers, const char *open = "[") {
  std::string text = open;
  for (size_t i = 0; i < numbers.size(); ++i)
    text += (i ? ", " : "") + std::to_string(numbers[i]);
  return text + (*open == '[' ? "]" : ")");
}

/// Strides of [n, c, spatial…] with channels innermost.
std::string channels_last(const std::vector<int64_t> &shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t step = strides[1] = 1;
  step *= shape[1];
  for (size_t i = shape.size(); i-- > 2; step *= shape[i])
    strides[i] = step;
  strides[0] = step;
  return " strides" + list(strides, "(");
}

std::string convolve(const Convolution &c, bool is_last, const char *dtype = "f32") {
  std::vector<int64_t> out = c.x;
  out[1] = c.is_transposed ? c.w[1] * c.groups : c.w[0];
  for (size_t i = 0; i < c.stride.size(); ++i) {
    int64_t reach = (c.w[i + 2] - 1) * c.dilation[i];
    out[i + 2] = c.is_transposed ? (c.x[i + 2] - 1) * c.stride[i] - 2 * c.padding[i] + reach + 1 + c.output_padding[i]
                                 : (c.x[i + 2] + 2 * c.padding[i] - reach - 1) / c.stride[i] + 1;
  }
  std::string type = dtype, result = type + list(out) + (is_last ? channels_last(out) : ""),
              bias = std::to_string(out[1]), ones;
  for (size_t i = 0; i < c.stride.size(); ++i)
    ones += ", 1";
  std::string attributes = "stride = " + list(c.stride) + ", padding = " + list(c.padding) +
                           ", dilation = " + list(c.dilation) + ", groups = " + std::to_string(c.groups);
  if (c.is_transposed)
    attributes += ", transposed = true, output_padding = " + list(c.output_padding);
  return "graph @main(%x: " + type + list(c.x) + (is_last ? channels_last(c.x) : "") + ", %w: " + type + list(c.w) +
         " static, %b: " + type + "[" + bias + ones + "]) {\n  %0: " + result + " = convolution(%x, %w) {" +
         attributes + "}\n  %1: " + result + " = add(%0, %b)\n  %2: " + result + " = relu(%1)\n  return %2\n}";
}

TEST(Contraction, Convolutions) {
  const Convolution cases[] = {
      {{2, 8, 9, 11}, {20, 8, 3, 3}, {1, 1}, {1, 1}, {1, 1}},     // padded
      {{1, 16, 7, 30}, {33, 16, 3, 3}, {1, 1}, {0, 0}, {1, 1}},   // read in place
      {{2, 8, 6, 5}, {40, 8, 1, 1}, {1, 1}, {0, 0}, {1, 1}},      // a matrix product
      {{1, 8, 9, 9}, {16, 8, 1, 1}, {2, 2}, {0, 0}, {1, 1}},      // every second pixel
      {{1, 3, 17, 17}, {16, 3, 7, 7}, {2, 2}, {3, 3}, {1, 1}},    // few channels
      {{1, 8, 12, 12}, {8, 8, 3, 3}, {1, 2}, {2, 1}, {2, 3}},     // dilated
      {{2, 12, 7, 8}, {18, 4, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 3},  // groups
      {{2, 20, 7, 8}, {20, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 20}, // one channel a group
      {{1, 20, 7, 8}, {40, 1, 3, 3}, {2, 2}, {1, 1}, {1, 1}, 20}, // one in, two out
      {{1, 40, 13, 30}, {40, 1, 5, 5}, {1, 1}, {2, 2}, {1, 1}, 40},
      {{1, 16, 9, 21}, {16, 1, 3, 3}, {2, 2}, {1, 1}, {2, 3}, 16},
      {{1, 16, 2, 2}, {16, 1, 7, 7}, {1, 1}, {3, 3}, {1, 1}, 16},
      {{2, 16, 9}, {16, 1, 3}, {1}, {1}, {1}, 16},
      {{1, 6, 3, 4, 5}, {6, 1, 3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 6},
      {{2, 5, 30}, {7, 5, 4}, {2}, {1}, {1}},                              // one axis
      {{1, 3, 4, 5, 6}, {4, 3, 2, 2, 2}, {1, 1, 1}, {1, 0, 1}, {1, 1, 1}}, // three
      {{1, 6, 5, 4}, {6, 4, 3, 3}, {2, 2}, {1, 1}, {1, 1}, 1, true, {1, 1}},
      {{2, 6, 5, 4}, {6, 2, 4, 4}, {2, 1}, {1, 0}, {1, 1}, 3, true, {0, 0}},
      {{1, 4, 6, 6}, {4, 4, 3, 3}, {1, 1}, {3, 3}, {1, 1}, 1, true, {0, 0}}, // crops
  };
  for (const Convolution &c : cases)
    for (bool is_last : {false, true}) {
      check(convolve(c, is_last));
      check(convolve(c, is_last, "bf16"));
      Machine avx2;
      check(convolve(c, is_last, "f64"), {}, avx2);
    }
}

TEST(Contraction, ConvolutionsPaddedAtOneEnd) {
  for (const char *layout : {"", " strides(512, 1, 64, 8)"})
    for (const char *weights : {"[16, 8, 3, 3]", "[8, 1, 3, 3]"}) {
      bool is_depthwise = weights[1] == '8';
      std::string out = is_depthwise ? "[1, 8, 4, 4]" : "[1, 16, 4, 4]";
      check("graph @main(%x: f32[1, 8, 8, 8]" + std::string(layout) + ", %w: f32" + weights + " static) {\n  %0: f32" +
            out +
            " = convolution(%x, %w) {stride = [2, 2], padding = [0, 0], padding_end = [1, 1], dilation = [1, 1], "
            "groups = " +
            (is_depthwise ? "8" : "1") + "}\n  return %0\n}");
    }
}

TEST(Contraction, TilesTakeTurnsAtLongPanels) {
  Machine machine;
  auto takes_turns = [&](const std::string &text, const std::vector<int64_t> &symbols) {
    EXPECT_NE(check(text, symbols, machine).find("depth_outer = 1"), std::string::npos);
  };
  takes_turns(linear("f32", 40, 40, 1400, true), {});
  for (int64_t s : {1, 13, 40})
    takes_turns(R"(graph @main(%x: f32[s0, 1400], %w: f32[1400, 40] static) symbols(s0 in [1, 1000) hint 64) {
      %0: f32[s0, 40] = matmul(%x, %w)
      %1: f32[s0, 40] = relu(%0)
      return %1
    })",
                {s});
  takes_turns(convolve({{1, 160, 7, 7}, {20, 160, 3, 3}, {1, 1}, {1, 1}, {1, 1}}, true), {});
}

TEST(Contraction, ConvolutionOfSymbolicSize) {
  for (int64_t s : {3, 8, 33})
    check(R"(graph @main(%x: f32[s0, 4, s1, s1], %w: f32[8, 4, 3, 3] static)
        symbols(s0 in [1, 100) hint 4, s1 in [3, 1000) hint 32) {
      %0: f32[s0, 8, s1, s1] = convolution(%x, %w) {stride = [1, 1], padding = [1, 1], dilation = [1, 1], groups = 1}
      %1: f32[s0, 8, s1, s1] = relu(%0)
      return %1
    })",
          {2, s});
}

} // namespace
} // namespace oxyfuel
