// Random vector loops against the Loop IR interpreter: expressions over several types, indices of all shapes, masks,
// lets, partial vectors, on several targets.
#include "codegen_support.h"

namespace oxyfuel::codegen {
namespace {

using loop::Builder;
using loop::Kernel;

class Random {
public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  int64_t below(int64_t n) { return static_cast<int64_t>(engine_() % static_cast<uint64_t>(n)); }

private:
  std::mt19937 engine_;
};

constexpr int64_t kCount = 256; // elements of each input

class Generator {
public:
  Generator(Random &random, Builder &builder) : random_(random), b_(builder), c_(builder.context()) {
    for (DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16, DType::kI32, DType::kI64, DType::kI8,
                        DType::kU8, DType::kBool, DType::kC64})
      inputs_.push_back(b_.parameter("in" + std::to_string(inputs_.size()), dtype, Buffer::Kind::kInput));
  }
  const std::vector<Buffer *> &inputs() const { return inputs_; }

  /// In [0, kCount); `i` lies in [0, 64).
  Expr index(Expr i) {
    switch (random_.below(10)) {
    case 0: return i * 2;
    case 1: return i * 3 + 7;
    case 2: return i * -1 + 63;
    case 3: return floor_div(i, 3);
    case 4: return floor_mod(i * 5, 37);
    case 5: return c_.integer(random_.below(kCount));
    case 6: return c_.load(inputs_[5], i) & c_.integer(kCount - 1);
    case 7: return min(i, c_.integer(20));
    case 8: return let(i + random_.below(9));
    default: return i;
    }
  }
  Expr let(Expr e) { return b_.let("let", e); }

  Expr load(Expr i, const Buffer *buffer) {
    if (random_.below(4) != 0)
      return c_.load(buffer, index(i));
    Expr offset = i - random_.below(12) + random_.below(3) * 100;
    return c_.load(buffer, offset, offset >= c_.integer(0) && offset < c_.integer(kCount));
  }

  Expr number(Expr i, DType dtype, int depth) {
    if (depth == 0 || random_.below(8) == 0) {
      for (Buffer *input : inputs_)
        if (input->dtype == dtype && random_.below(4) != 0)
          return load(i, input);
      return random_.below(2) ? cast(i, dtype) : c_.constant(static_cast<double>(random_.below(9)) - 4, dtype);
    }
    auto again = [&] { return number(i, dtype, depth - 1); };
    switch (random_.below(9)) {
    case 0: return again() + again();
    case 1: return again() - again();
    case 2: return again() * again();
    case 3: return again() / again();
    case 4: return select(condition(i, depth - 1), again(), again());
    case 5: return is_integer(dtype) ? (again() ^ again()) : abs(again());
    case 6: return is_integer(dtype) ? floor_mod(again(), again()) : sqrt(again());
    case 7: return let(again());
    default: {
      DType from = inputs_[static_cast<size_t>(random_.below(8))]->dtype;
      return cast(number(i, from, depth - 1), dtype);
    }
    }
  }
  Expr condition(Expr i, int depth) {
    if (depth <= 0)
      return load(i, inputs_[8]);
    DType dtype = inputs_[static_cast<size_t>(random_.below(8))]->dtype;
    switch (random_.below(4)) {
    case 0: return number(i, dtype, depth - 1) < number(i, dtype, depth - 1);
    case 1: return eq(number(i, dtype, depth - 1), number(i, dtype, depth - 1));
    case 2: return condition(i, depth - 1) && condition(i, depth - 1);
    default: return !condition(i, depth - 1);
    }
  }
  Expr value(Expr i) {
    if (random_.below(8) == 0)
      return c_.load(inputs_[9], index(i)) * complex(number(i, DType::kF32, 2), number(i, DType::kF32, 1));
    return number(i, inputs_[static_cast<size_t>(random_.below(8))]->dtype, 4);
  }

private:
  Random &random_;
  Builder &b_;
  ExprContext &c_;
  std::vector<Buffer *> inputs_;
};

TEST(CodegenRandom, VectorLoops) {
  const char *targets[] = {"host", "x86-64-v3", "host", "x86-64-v2"};
  for (uint32_t seed = 0; seed < 160; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    Kernel kernel;
    Builder b(kernel);
    ExprContext &c = b.context();
    Generator generator(random, b);
    std::vector<size_t> counts(generator.inputs().size(), kCount);
    Expr n = c.var(b.size("n"));
    kernel.grid = c.integer(1);
    int widths[] = {16, 8, 4, 16, 1};
    int width = widths[random.below(5)];
    b.task("t", c.integer(1), [&](Expr) {
      b.serial("j", c.integer(0), n, width, [&](Expr j) {
        b.vector("v", min(c.integer(width), n - j), width, [&](Expr v) {
          for (int store = 0; store < 2; ++store) {
            Expr value = generator.value(j + v);
            Buffer *out = b.parameter("out" + std::to_string(store), value.dtype(), Buffer::Kind::kOutput);
            Expr mask = random.below(3) ? Expr() : generator.condition(j + v, 2);
            counts.push_back(kCount);
            int64_t stride = random.below(4) ? 1 : 3;
            b.store(out, (j + v) * stride, value, mask);
          }
        });
      });
    });
    CompileOptions options;
    options.target = Target::parse(targets[seed % 4]);
    expect_same(kernel, counts, {random.below(2) ? 64 : random.below(64)}, 1, options, nullptr, seed / 4 % 2);
    if (HasFailure())
      break;
  }
}

} // namespace
} // namespace oxyfuel::codegen
