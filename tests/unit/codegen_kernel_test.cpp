// Loops, vectors, masks and memory shapes against the Loop IR interpreter.
#include "codegen_support.h"

namespace oxyfuel::codegen {
namespace {

using loop::Builder;
using loop::Kernel;

constexpr DType kAllTypes[] = {DType::kBool, DType::kU8,   DType::kI8,   DType::kI16, DType::kI32,
                               DType::kI64,  DType::kF16,  DType::kBF16, DType::kF32, DType::kF64,
                               DType::kC64,  DType::kC128, DType::kU16,  DType::kU32, DType::kU64};

/// for j in [0, n) step width { vector v in [0, min(width, n - j)) { body(j + v) } }
void strip(Builder &b, Expr n, int width, const std::function<void(Expr)> &body) {
  b.task("t", b.context().integer(1), [&](Expr) {
    b.serial("j", b.context().integer(0), n, width, [&](Expr j) {
      b.vector("v", min(b.context().integer(width), n - j), width, [&](Expr v) { body(j + v); });
    });
  });
}

struct Options {
  const char *name;
  CompileOptions compile;
};

std::vector<Options> targets() {
  std::vector<Options> list{{"host", {}}};
  for (const char *name : {"x86-64-v2", "x86-64-v3"}) {
    CompileOptions options;
    options.target = Target::parse(name);
    list.push_back({name, options});
  }
  list.push_back({"O0", {}});
  list.back().compile.opt_level = 0;
  return list;
}

TEST(CodegenKernel, CopiesEachType) {
  for (const Options &options : targets())
    for (DType dtype : kAllTypes)
      for (int64_t n : {0, 1, 15, 16, 37}) {
        SCOPED_TRACE(std::string(options.name) + " " + std::string(name_of(dtype)) + " " + std::to_string(n));
        Kernel kernel;
        Builder b(kernel);
        Buffer *x = b.parameter("x", dtype, Buffer::Kind::kInput), *y = b.parameter("y", dtype, Buffer::Kind::kOutput);
        Expr size = b.context().var(b.size("n"));
        kernel.grid = b.context().integer(1);
        strip(b, size, 16, [&](Expr i) { b.store(y, i, b.context().load(x, i)); });
        size_t count = static_cast<size_t>(n);
        expect_same(kernel, {count, count}, {n}, 1, options.compile);
      }
}

TEST(CodegenKernel, CastsBetweenAllTypes) {
  for (const Options &options : targets())
    for (DType from : kAllTypes)
      for (DType to : kAllTypes) {
        if (is_complex(from) && !is_complex(to) && !is_bool(to))
          continue;
        SCOPED_TRACE(std::string(options.name) + " " + std::string(name_of(from)) + " to " + std::string(name_of(to)));
        Kernel kernel;
        Builder b(kernel);
        Buffer *x = b.parameter("x", from, Buffer::Kind::kInput), *y = b.parameter("y", to, Buffer::Kind::kOutput);
        kernel.grid = b.context().integer(1);
        strip(b, b.context().integer(203), 16, [&](Expr i) { b.store(y, i, cast(b.context().load(x, i), to)); });
        expect_same(kernel, {203, 203}, {}, 1, options.compile);
      }
}

/// z[i] = f(x[i], y[i]) for each type that `accepts` and each target. `fused` leaves out targets without fused
/// multiply-add in double precision.
void binary(const std::function<bool(DType)> &accepts, const std::function<Expr(Expr, Expr)> &f, bool fused = false) {
  for (const Options &options : targets())
    for (DType dtype : kAllTypes) {
      if (!accepts(dtype) || (fused && dtype == DType::kF64 && !options.compile.target.has_fma))
        continue;
      SCOPED_TRACE(std::string(options.name) + " " + std::string(name_of(dtype)));
      Kernel kernel;
      Builder b(kernel);
      Buffer *x = b.parameter("x", dtype, Buffer::Kind::kInput), *y = b.parameter("y", dtype, Buffer::Kind::kInput);
      Expr some = f(b.context().load(x, b.context().integer(0)), b.context().load(y, b.context().integer(0)));
      Buffer *z = b.parameter("z", some.dtype(), Buffer::Kind::kOutput);
      kernel.grid = b.context().integer(1);
      strip(b, b.context().integer(203), 16,
            [&](Expr i) { b.store(z, i, f(b.context().load(x, i), b.context().load(y, i))); });
      expect_same(kernel, {203, 203, 203}, {}, 1, options.compile);
    }
}

bool is_number(DType t) { return !is_bool(t) && !is_complex(t); }
bool is_wide_float(DType t) { return t == DType::kF32 || t == DType::kF64; }

TEST(CodegenKernel, Arithmetic) {
  auto numbers = [](DType t) { return !is_bool(t); };
  binary(numbers, [](Expr a, Expr b) { return a + b; });
  binary(numbers, [](Expr a, Expr b) { return a - b; });
  binary(numbers, [](Expr a, Expr b) { return a * b; });
  binary(is_number, [](Expr a, Expr b) { return a / b; });
  binary(is_number, [](Expr a, Expr b) { return rem(a, b); });
  binary(is_integer, [](Expr a, Expr b) { return floor_div(a, b); });
  binary(is_integer, [](Expr a, Expr b) { return floor_mod(a, b); });
  binary(is_integer, [](Expr a, Expr b) { return min(a, b) ^ max(a, b); });
  binary(numbers, [](Expr a, Expr b) { return -a + b; });
  binary(is_number, [](Expr a, Expr b) { return abs(a) + b; });
}

TEST(CodegenKernel, FloatFunctions) {
  binary(is_float, [](Expr a, Expr) { return sqrt(a); });
  binary(is_float, [](Expr a, Expr) { return floor(a); });
  binary(is_float, [](Expr a, Expr) { return ceil(a); });
  binary(is_float, [](Expr a, Expr) { return trunc(a); });
  binary(is_float, [](Expr a, Expr) { return rint(a); });
  binary(is_wide_float, [](Expr a, Expr b) { return fma(a, b, a); }, true);
  binary(is_float, [](Expr a, Expr b) { return select(a < b, a, b); });
}

TEST(CodegenKernel, ComparisonsAndLogic) {
  auto any = [](DType) { return true; };
  binary(any, [](Expr a, Expr b) { return eq(a, b); });
  binary(any, [](Expr a, Expr b) { return ne(a, b); });
  binary(is_number, [](Expr a, Expr b) { return a < b; });
  binary(is_number, [](Expr a, Expr b) { return a <= b; });
  binary(any, [](Expr a, Expr b) { return select(eq(a, b), b, a); });
  auto bits = [](DType t) { return is_integer(t) || is_bool(t); };
  binary(bits, [](Expr a, Expr b) { return a & b; });
  binary(bits, [](Expr a, Expr b) { return a | b; });
  binary(is_integer, [](Expr a, Expr b) { return shl(a, b & b.like(7)); });
  binary(is_integer, [](Expr a, Expr b) { return shr(a, b & b.like(7)); });
}

TEST(CodegenKernel, HostCalls) {
  for (int width : {1, 8}) {
    Kernel kernel;
    Builder b(kernel);
    ExprContext &c = b.context();
    Buffer *x = b.parameter("x", DType::kF64, Buffer::Kind::kInput),
           *y = b.parameter("y", DType::kF64, Buffer::Kind::kOutput);
    kernel.grid = c.integer(1);
    strip(b, c.integer(21), width, [&](Expr i) {
      Expr v = c.load(x, i);
      Expr e[] = {v}, p[] = {v, v};
      b.store(y, i,
              c.make(ExprKind::kHostCall, DType::kF64, e, kHostExp) +
                  c.make(ExprKind::kHostCall, DType::kF64, p, kHostPow));
    });
    expect_same(kernel, {21, 21}, {}, 1);
  }
}

/// y[i] = x[index(i)], with masks where `mask` gives one.
void gather(DType dtype, const std::function<Expr(Expr)> &index, const std::function<Expr(Expr)> &mask = {}) {
  for (const Options &options : targets())
    for (int64_t n : {16, 37}) {
      SCOPED_TRACE(std::string(options.name) + " " + std::string(name_of(dtype)));
      Kernel kernel;
      Builder b(kernel);
      ExprContext &c = b.context();
      Buffer *x = b.parameter("x", dtype, Buffer::Kind::kInput), *y = b.parameter("y", dtype, Buffer::Kind::kOutput);
      Expr size = c.var(b.size("n"));
      kernel.grid = c.integer(1);
      strip(b, size, 16, [&](Expr i) { b.store(y, i, c.load(x, index(i), mask ? mask(i) : Expr())); });
      size_t count = static_cast<size_t>(n);
      expect_same(kernel, {count * 8, count}, {n}, 1, options.compile);
    }
}

TEST(CodegenKernel, LoadShapes) {
  for (DType dtype : {DType::kBool, DType::kU8, DType::kBF16, DType::kF32, DType::kF64, DType::kC64, DType::kI64}) {
    gather(dtype, [](Expr i) { return i * 2; });
    gather(dtype, [](Expr i) { return i * 2 + 1; });
    gather(dtype, [](Expr i) { return i * 3; });
    gather(dtype, [](Expr i) { return i * -1 + 40; });
    gather(dtype, [](Expr i) { return floor_div(i, 4); });
    gather(dtype, [](Expr i) { return floor_mod(i * 7, 29); });
    gather(dtype, [](Expr i) { return i * 0 + 3; });
    gather(dtype, [](Expr i) { return i - 5; }, [](Expr i) { return i >= i.like(5); });
    gather(dtype, [](Expr i) { return i * 3 - 6; }, [](Expr i) { return i >= i.like(2); });
    gather(dtype, [](Expr i) { return i * 0 + 3; }, [](Expr i) { return i < i.like(9); });
  }
}

TEST(CodegenKernel, DividesIndicesOfSizesKnownAtRunTime) {
  for (const Options &options : targets())
    for (int64_t m : {1, 2, 3, 7, 16, 33, 1000}) {
      SCOPED_TRACE(std::string(options.name) + " " + std::to_string(m));
      Kernel kernel;
      Builder b(kernel);
      ExprContext &c = b.context();
      Buffer *y = b.parameter("y", DType::kI64, Buffer::Kind::kOutput),
             *z = b.parameter("z", DType::kI64, Buffer::Kind::kOutput);
      Expr n = c.var(b.size("n"));
      Var *size = b.size("m");
      size->lower = 1;
      Expr by = c.var(size);
      kernel.grid = c.integer(1);
      strip(b, n, 16, [&](Expr i) {
        b.store(y, i, floor_div(i, by) * 1000 + floor_mod(i, by) + floor_div(i - 20, by) * 7 + floor_mod(-i * 3, by));
        b.store(z, i, floor_div(i * 5, 7) * 1000 + floor_mod(i * 5, 7) + floor_mod(i * 3 - 50, 11));
      });
      expect_same(kernel, {101, 101}, {101, m}, 1, options.compile);
    }
}

TEST(CodegenKernel, IndirectLoad) {
  for (const Options &options : targets()) {
    Kernel kernel;
    Builder b(kernel);
    ExprContext &c = b.context();
    Buffer *x = b.parameter("x", DType::kF32, Buffer::Kind::kInput),
           *at = b.parameter("at", DType::kI64, Buffer::Kind::kInput);
    Buffer *y = b.parameter("y", DType::kF32, Buffer::Kind::kOutput);
    kernel.grid = c.integer(1);
    strip(b, c.integer(37), 16, [&](Expr i) {
      Expr index = b.let("index", c.load(at, i) & c.integer(63));
      b.check(index < c.integer(64), kOxyfuelIndexOutOfRange);
      b.store(y, i, c.load(x, index));
    });
    EXPECT_EQ(0, expect_same(kernel, {64, 37, 37}, {}, 1, options.compile));
  }
}

TEST(CodegenKernel, ChecksActiveLanesOnly) {
  for (int64_t n : {20, 35}) {
    Kernel kernel;
    Builder b(kernel);
    ExprContext &c = b.context();
    Buffer *y = b.parameter("y", DType::kI64, Buffer::Kind::kOutput);
    Expr size = c.var(b.size("n"));
    kernel.grid = c.integer(1);
    strip(b, size, 16, [&](Expr i) {
      b.check(i < c.integer(20), kOxyfuelIndexOutOfRange);
      b.store(y, i, i);
    });
    EXPECT_EQ(n == 20 ? 0 : kOxyfuelIndexOutOfRange, expect_same(kernel, {64}, {n}, 1));
  }
}

TEST(CodegenKernel, StoreShapes) {
  for (const Options &options : targets())
    for (DType dtype : {DType::kBool, DType::kU8, DType::kBF16, DType::kF32, DType::kF64, DType::kC64})
      for (int64_t stride : {-1, 2, 3}) {
        SCOPED_TRACE(std::string(options.name) + " " + std::string(name_of(dtype)));
        Kernel kernel;
        Builder b(kernel);
        ExprContext &c = b.context();
        Buffer *x = b.parameter("x", dtype, Buffer::Kind::kInput), *y = b.parameter("y", dtype, Buffer::Kind::kOutput);
        kernel.grid = c.integer(1);
        strip(b, c.integer(37), 16, [&](Expr i) {
          b.store(y, i * stride + (stride < 0 ? 36 : 0), c.load(x, i), ne(floor_mod(i, 5), c.integer(0)));
        });
        expect_same(kernel, {37, 111}, {}, 1, options.compile);
      }
}

TEST(CodegenKernel, ReducesInRegisters) {
  for (const Options &options : targets())
    for (DType dtype : {DType::kF32, DType::kF64, DType::kI32, DType::kC64})
      for (int64_t m : {0, 1, 16, 21, 64}) {
        SCOPED_TRACE(std::string(options.name) + " " + std::string(name_of(dtype)));
        Kernel kernel;
        Builder b(kernel);
        ExprContext &c = b.context();
        Buffer *x = b.parameter("x", dtype, Buffer::Kind::kInput), *y = b.parameter("y", dtype, Buffer::Kind::kOutput);
        Expr rows = c.var(b.size("n")), cols = c.var(b.size("m"));
        kernel.grid = rows;
        b.task("i", rows, [&](Expr i) {
          Buffer *acc = b.registers("acc", dtype, 16);
          b.vector("v", c.integer(16), 16, [&](Expr v) { b.store(acc, v, c.constant(0, dtype)); });
          b.serial("j", c.integer(0), cols, 16, [&](Expr j) {
            b.vector("v", min(c.integer(16), cols - j), 16,
                     [&](Expr v) { b.store(acc, v, c.load(acc, v) + c.load(x, i * cols + j + v)); });
          });
          for (int half = 8; half > 0; half /= 2)
            b.vector("v", c.integer(half), half,
                     [&](Expr v) { b.store(acc, v, c.load(acc, v) + c.load(acc, v + half)); });
          b.store(y, i, c.load(acc, c.integer(0)));
        });
        expect_same(kernel, {static_cast<size_t>(m * 3), 3}, {3, m}, 3, options.compile);
      }
}

TEST(CodegenKernel, ScratchUnrollBranchAndOverlap) {
  Kernel kernel;
  Builder b(kernel);
  ExprContext &c = b.context();
  Buffer *x = b.parameter("x", DType::kF32, Buffer::Kind::kInput),
         *y = b.parameter("y", DType::kF32, Buffer::Kind::kInOut);
  Expr n = c.var(b.size("n"));
  kernel.grid = n;
  b.task("i", n, [&](Expr i) {
    Buffer *row = b.scratch("row", DType::kF32, 40);
    b.serial("j", c.integer(0), c.integer(40), 8, [&](Expr j) {
      b.vector("v", c.integer(8), 8,
               [&](Expr v) { b.store(row, j + v, c.load(x, i * 40 + j + v) * c.real(2, DType::kF32)); });
    });
    b.unroll("u", 5, [&](Expr u) {
      b.branch(
          eq(floor_mod(i + u, 2), c.integer(0)),
          [&] {
            b.vector("v", c.integer(8), 8, [&](Expr v) { b.store(y, i * 40 + u * 8 + v, c.load(row, u * 8 + v)); });
          },
          [&] {
            b.vector("v", c.integer(8), 8,
                     [&](Expr v) { b.store(y, i * 40 + u * 8 + v, -c.load(row, u * -8 + 39 - v)); });
          });
    });
  });
  expect_same(kernel, {120, 120}, {3}, 3);
}

} // namespace
} // namespace oxyfuel::codegen
