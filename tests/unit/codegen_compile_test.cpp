// compile_kernels: several kernels in one image, equal bytes for equal input, several threads, dumps, errors.
#include "codegen_support.h"

#include <filesystem>
#include <thread>

#include "support/error.h"

namespace oxyfuel::codegen {
namespace {

using loop::Builder;
using loop::Kernel;

/// y[i] = x[i] * factor, one task an element.
std::unique_ptr<Kernel> scale(float factor) {
  auto kernel = std::make_unique<Kernel>();
  kernel->name = "scale";
  Builder b(*kernel);
  ExprContext &c = b.context();
  Buffer *x = b.parameter("x", DType::kF32, Buffer::Kind::kInput),
         *y = b.parameter("y", DType::kF32, Buffer::Kind::kOutput);
  kernel->grid = c.var(b.size("n"));
  b.task("i", kernel->grid, [&](Expr i) { b.store(y, i, c.load(x, i) * c.real(factor, DType::kF32)); });
  return kernel;
}

TEST(CodegenCompile, SeveralKernelsShareAnImageAndRunTaskRanges) {
  auto two = scale(2), three = scale(3);
  const Kernel *kernels[] = {two.get(), three.get()};
  CompiledKernels compiled = compile_kernels(kernels);
  ASSERT_EQ(compiled.entries.size(), 2u);
  ExecutableMemory memory;
  ASSERT_TRUE(memory.allocate(compiled.image.bytes.size()));
  std::memcpy(memory.data(), compiled.image.bytes.data(), compiled.image.bytes.size());
  ASSERT_TRUE(memory.seal());
  float x[4] = {1, 2, 3, 4}, y[4] = {};
  void *buffers[] = {x, y};
  int64_t sizes[] = {4};
  auto run = [&](size_t kernel, int64_t begin, int64_t end) {
    auto entry = reinterpret_cast<OxyfuelKernel>(memory.data() + compiled.entries[kernel]);
    EXPECT_EQ(0, entry(buffers, sizes, begin, end, nullptr, &test_host_table()));
  };
  run(0, 0, 2);
  run(1, 2, 3);
  EXPECT_EQ(y[0], 2);
  EXPECT_EQ(y[1], 4);
  EXPECT_EQ(y[2], 9);
  EXPECT_EQ(y[3], 0);
}

TEST(CodegenCompile, EqualInputGivesEqualBytesOnEveryThread) {
  std::vector<std::byte> bytes[4];
  std::vector<std::thread> threads;
  for (auto &result : bytes)
    threads.emplace_back([&result] {
      for (int i = 0; i < 5; ++i) {
        auto kernel = scale(1.5f);
        const Kernel *kernels[] = {kernel.get()};
        result = compile_kernels(kernels).image.bytes;
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  for (auto &result : bytes)
    EXPECT_EQ(result, bytes[0]);
}

TEST(CodegenCompile, DumpsTextOfEachStage) {
  auto kernel = scale(2);
  const Kernel *kernels[] = {kernel.get()};
  CompileOptions options;
  options.dump_dir = (std::filesystem::path(testing::TempDir()) / "oxyfuel_codegen_dump").string();
  options.dump_name = "kernel_7";
  compile_kernels(kernels, options);
  for (const char *name : {"kernel_7.oxir", "kernel_7.ll", "kernel_7.s"})
    EXPECT_GT(std::filesystem::file_size(std::filesystem::path(options.dump_dir) / name), 0u) << name;
  std::filesystem::remove_all(options.dump_dir);
}

TEST(CodegenCompile, FunctionsThatAreNotExpandedAreErrors) {
  Kernel kernel;
  Builder b(kernel);
  ExprContext &c = b.context();
  Buffer *y = b.parameter("y", DType::kF32, Buffer::Kind::kInOut);
  kernel.grid = c.integer(1);
  b.task("i", kernel.grid, [&](Expr i) { b.store(y, i, exp(c.load(y, i))); });
  const Kernel *kernels[] = {&kernel};
  EXPECT_THROW(compile_kernels(kernels), InternalError);
}

} // namespace
} // namespace oxyfuel::codegen
