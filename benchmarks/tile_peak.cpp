// How near one register tile of a contraction comes to the processor's fused multiply-add peak: tiles whose operands
// stay in the first two caches, on one thread. Usage: tile_peak [target] [dump folder]
#include "peak.h"

#include "codegen/compile.h"
#include "runtime/abi.h"
#include "support/memory.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

using namespace oxyfuel;
using namespace oxyfuel::benchmark;

namespace {

struct Tile {
  DType in, acc;
  int rows, cols, width, unroll, pack = 1;
  bool in_depth = false;
  bool limited = false; ///< with a column limit that is only known at run time
};

template <typename T> void append(loop::Block &block, T statement) {
  block.push_back(std::make_unique<loop::Statement>(loop::Statement{std::move(statement)}));
}

/// One task is one tile: accumulators cleared, contracted over k, stored. `stride` is A's row stride.
loop::Kernel make_kernel(const Tile &tile, int64_t depth, int64_t stride) {
  loop::Kernel kernel;
  kernel.name = "tile";
  ExprContext &c = *kernel.context;
  auto parameter = [&](const char *name, DType dtype, Buffer::Kind kind) {
    Buffer *buffer = c.new_buffer(name, dtype);
    buffer->kind = kind;
    buffer->is_unaliased = true;
    kernel.buffers.push_back(buffer);
    return buffer;
  };
  Buffer *a = parameter("a", tile.in, Buffer::Kind::kInput), *b = parameter("b", tile.in, Buffer::Kind::kInput);
  Buffer *out = parameter("out", tile.acc, Buffer::Kind::kOutput);
  kernel.sizes.push_back(c.new_var("limit"));
  Buffer *acc = c.new_buffer("acc", tile.acc);
  acc->kind = Buffer::Kind::kRegister;
  acc->size = tile.rows * tile.cols * (tile.in_depth ? tile.width : 1);
  loop::For task;
  task.kind = loop::For::Kind::kTask;
  task.var = c.new_var("t", DType::kI64, 0);
  task.begin = c.integer(0);
  task.extent = kernel.grid = c.integer(1 << 20);
  append(task.body, loop::Local{acc});
  auto each_vector = [&](const char *name, auto store) {
    loop::For copies;
    copies.kind = loop::For::Kind::kUnroll;
    copies.var = c.new_var(std::string("u") + name, DType::kI64, 0, acc->size / tile.width);
    copies.begin = c.integer(0);
    copies.extent = c.integer(acc->size / tile.width);
    loop::For lanes;
    lanes.kind = loop::For::Kind::kVector;
    lanes.var = c.new_var(std::string("v") + name, DType::kI64, 0, tile.width);
    lanes.begin = c.integer(0);
    lanes.extent = c.integer(tile.width);
    lanes.width = tile.width;
    append(lanes.body, store(c.var(copies.var) * tile.width + c.var(lanes.var)));
    append(copies.body, std::move(lanes));
    append(task.body, std::move(copies));
  };
  each_vector("zero", [&](Expr i) { return loop::Store{acc, i, c.constant(0, tile.acc), {}}; });
  loop::TileContract contract;
  contract.lanes = tile.in_depth ? loop::TileContract::Lanes::kDepth : loop::TileContract::Lanes::kColumns;
  contract.acc = acc;
  contract.rows = tile.rows;
  contract.cols = tile.cols;
  contract.width = tile.width;
  contract.unroll = tile.unroll;
  contract.depth_pack = tile.pack;
  contract.row = c.new_var("row", DType::kI64, 0, tile.rows);
  contract.col = c.new_var("col", DType::kI64, 0, tile.cols);
  contract.k = c.new_var("k", DType::kI64, 0, depth);
  contract.extent = c.integer(depth);
  contract.a = a;
  contract.b = b;
  contract.a_index = c.var(contract.row) * stride + c.var(contract.k);
  contract.b_index = tile.in_depth ? c.var(contract.col) * stride + c.var(contract.k)
                                   : c.var(contract.k) * tile.cols + c.var(contract.col);
  if (tile.limited)
    contract.b_col_limit = c.var(kernel.sizes[0]);
  append(task.body, std::move(contract));
  each_vector("out", [&](Expr i) { return loop::Store{out, i, c.load(acc, i), {}}; });
  append(kernel.body, std::move(task));
  return kernel;
}

void measure(const Tile &tile, codegen::CompileOptions options, int64_t depth, int64_t stride, double peak) {
  loop::Kernel kernel = make_kernel(tile, depth, stride);
  char name[64];
  std::snprintf(name, sizeof(name), "tile_%s_%dx%d%s%s%s", std::string(name_of(tile.in)).c_str(), tile.rows, tile.cols,
                tile.in_depth ? "_depth" : "", tile.pack > 1 ? "_packed" : "", tile.limited ? "_limited" : "");
  options.dump_name = name;
  const loop::Kernel *kernels[] = {&kernel};
  double start = seconds();
  codegen::CompiledKernels compiled = compile_kernels(kernels, options);
  double compile_ms = (seconds() - start) * 1e3;
  ExecutableMemory code;
  AlignedMemory data;
  size_t operand = static_cast<size_t>(std::max<int64_t>(tile.rows, tile.cols) * (stride + depth)) * 8 + 4096;
  if (!code.allocate(compiled.image.bytes.size()) || !data.reserve(3 * operand))
    return;
  std::memcpy(code.data(), compiled.image.bytes.data(), compiled.image.bytes.size());
  code.seal();
  std::memset(data.data(), 0, 3 * operand);
  void *buffers[] = {data.data(), data.data() + operand, data.data() + 2 * operand};
  int64_t sizes[] = {tile.cols - 1};
  auto entry = reinterpret_cast<OxyfuelKernel>(code.data() + compiled.entries[0]);
  double flops = 2.0 * tile.rows * tile.cols * static_cast<double>(depth), best = 0;
  auto tasks = static_cast<int64_t>(5e8 / flops) + 1;
  for (int i = 0; i < 8; ++i) {
    start = seconds();
    entry(buffers, sizes, 0, tasks, nullptr, nullptr);
    best = std::max(best, flops * static_cast<double>(tasks) / (seconds() - start) * 1e-9);
  }
  std::printf("%-26s k %4ld stride %4ld  %7.1f GF/s  %5.1f %%  compiled in %.1f ms\n", name, static_cast<long>(depth),
              static_cast<long>(stride), best, 100 * best / peak, compile_ms);
}

} // namespace

int main(int argc, char **argv) {
  codegen::CompileOptions options;
  if (argc > 1)
    options.target = codegen::Target::parse(argv[1]);
  if (argc > 2)
    options.dump_dir = argv[2];
  options.verify = true;
  double peak = measure_peak(options.target.vector_bits);
  std::printf("%s: %u bits, FMA peak %.1f GF/s (float32)\n", options.target.cpu.c_str(), options.target.vector_bits,
              peak);
  if (options.target.vector_bits == 512) {
    for (auto [rows, cols] : {std::pair{14, 32}, {12, 32}, {9, 48}, {6, 64}, {8, 48}, {1, 64}})
      measure({DType::kF32, DType::kF32, rows, cols, 16, 2}, options, 256, 272, peak);
    measure({DType::kF32, DType::kF32, 14, 32, 16, 4}, options, 256, 272, peak);
    measure({DType::kF32, DType::kF32, 14, 32, 16, 1}, options, 256, 272, peak);
    measure({DType::kF32, DType::kF32, 9, 48, 16, 2, 1, false, true}, options, 256, 272, peak);
    measure({DType::kF32, DType::kF32, 4, 4, 16, 1, 1, true}, options, 256, 272, peak);
    measure({DType::kF64, DType::kF64, 12, 16, 8, 2}, options, 256, 272, peak / 2);
    measure({DType::kBF16, DType::kF32, 12, 32, 16, 2}, options, 256, 272, peak);
    measure({DType::kBF16, DType::kF32, 12, 32, 16, 1, 2}, options, 256, 272, peak * 2);
    options.use_dot_products = false;
    measure({DType::kBF16, DType::kF32, 12, 32, 16, 1, 2}, options, 256, 272, peak);
    measure({DType::kI8, DType::kI32, 12, 32, 16, 1}, options, 256, 272, peak);
  } else {
    for (auto [rows, cols] : {std::pair{6, 16}, {4, 24}, {4, 16}})
      measure({DType::kF32, DType::kF32, rows, cols, 8, 2}, options, 256, 272, peak);
    measure({DType::kF32, DType::kF32, 6, 16, 8, 2, 1, false, true}, options, 256, 272, peak);
  }
}
