// What code costs by a processor's model, and what debuggers need to leave it.
#include "codegen_support.h"

#include "codegen/estimate.h"
#include "support/error.h"

namespace oxyfuel::codegen {
namespace {

using loop::Builder;
using loop::Kernel;

/// y[i] = x[i] / 3 / 3 …, `divisions` times, one task an element: a loop of one chain.
CompiledKernels chain(int divisions, const Target &target, bool unwind_tables = true) {
  Kernel kernel;
  kernel.name = "chain";
  Builder b(kernel);
  ExprContext &c = b.context();
  Buffer *x = b.parameter("x", DType::kF32, Buffer::Kind::kInput),
         *y = b.parameter("y", DType::kF32, Buffer::Kind::kOutput);
  kernel.grid = c.var(b.size("n"));
  b.task("i", kernel.grid, [&](Expr i) {
    Expr value = c.load(x, i);
    for (int n = 0; n < divisions; ++n)
      value = value / c.real(3, DType::kF32);
    b.store(y, i, value);
  });
  const Kernel *kernels[] = {&kernel};
  return compile_kernels(kernels, {.target = target, .unwind_tables = unwind_tables, .debug_info = unwind_tables});
}

TEST(CodegenEstimate, CountsInstructionsAndCyclesOfAnInnermostLoop) {
  for (const char *name : {"x86-64-v3", "x86-64-v4"}) {
    Target target = Target::parse(name);
    CodeEstimate one = estimate_code(chain(1, target).image.debug, target);
    CodeEstimate three = estimate_code(chain(3, target).image.debug, target);
    ASSERT_EQ(one.loops.size(), 1u) << name;
    ASSERT_EQ(three.loops.size(), 1u) << name;
    EXPECT_GT(one.instructions, one.loops[0].instructions);
    EXPECT_GE(three.loops[0].instructions, one.loops[0].instructions + 2);
    // One divider, which is busy for at least three cycles a scalar division.
    EXPECT_GE(three.loops[0].cycles, one.loops[0].cycles + 6);
    EXPECT_EQ(one.loops[0].cycles, estimate_code(chain(1, target).image.debug, target).loops[0].cycles);
  }
}

TEST(CodegenEstimate, RefusesWhatIsNoCode) {
  Target target = Target::parse("x86-64-v3");
  CompiledKernels compiled = chain(1, target);
  EXPECT_EQ(estimate_code({}, target).instructions, 0);
  // Most of an object is no code, but .text is found by name.
  std::vector<std::byte> &object = compiled.image.debug;
  object.resize(object.size() / 2);
  EXPECT_EQ(estimate_code(object, target).instructions, 0);
}

TEST(CodegenEstimate, UnwindTablesChangeNoCode) {
  Target target = Target::parse("x86-64-v3");
  CompiledKernels with = chain(3, target, true), without = chain(3, target, false);
  EXPECT_FALSE(with.image.unwind.empty());
  EXPECT_TRUE(without.image.unwind.empty());
  EXPECT_EQ(with.image.bytes, without.image.bytes);
}

} // namespace
} // namespace oxyfuel::codegen
