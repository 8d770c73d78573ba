// Contraction tiles against the Loop IR interpreter: types, tails of k, column limits, packing, addresses that are not
// linear.
#include "codegen_support.h"

namespace oxyfuel::codegen {
namespace {

using loop::Builder;
using loop::Kernel;
using loop::TileContract;

struct Case {
  DType a, b, acc;
  int rows, cols, width, unroll = 1, pack = 1;
  bool in_depth = false, limited = false, indirect_rows = false, symbolic_strides = false, indirect_k = false;
};

/// out[i] = acc[i] after one tile over `depth`, where depth, strides and the column limit may be sizes.
void check(const Case &tile, int64_t depth, const std::string &target = "host", bool use_dot_products = false) {
  SCOPED_TRACE(std::string(name_of(tile.a)) + " " + std::string(name_of(tile.acc)) + " " + std::to_string(tile.rows) +
               "x" + std::to_string(tile.cols) + " depth " + std::to_string(depth) + " on " + target);
  Kernel kernel;
  Builder b(kernel);
  ExprContext &c = b.context();
  Buffer *x = b.parameter("x", tile.a, Buffer::Kind::kInput), *y = b.parameter("y", tile.b, Buffer::Kind::kInput);
  Buffer *out = b.parameter("out", tile.acc, Buffer::Kind::kOutput);
  Expr k_extent = c.var(b.size("depth")), stride = c.var(b.size("stride")), limit = c.var(b.size("limit"));
  if (!tile.symbolic_strides) {
    k_extent = c.integer(depth);
    stride = c.integer(depth + 3);
  }
  kernel.grid = c.integer(1);
  int64_t accumulators = tile.rows * tile.cols * (tile.in_depth ? tile.width : 1);
  b.task("t", c.integer(1), [&](Expr) {
    Buffer *acc = b.registers("acc", tile.acc, accumulators);
    b.unroll("u", accumulators, [&](Expr u) { b.store(acc, u, cast(u, tile.acc)); });
    TileContract contract;
    contract.lanes = tile.in_depth ? TileContract::Lanes::kDepth : TileContract::Lanes::kColumns;
    contract.acc = acc;
    contract.rows = tile.rows;
    contract.cols = tile.cols;
    contract.width = tile.width;
    contract.unroll = tile.unroll;
    contract.depth_pack = tile.pack;
    contract.row = c.new_var("row", DType::kI64, 0, tile.rows);
    contract.col = c.new_var("col", DType::kI64, 0, tile.cols);
    contract.k = c.new_var("k", DType::kI64, 0);
    contract.extent = k_extent;
    contract.a = x;
    contract.b = y;
    Expr row = c.var(contract.row), col = c.var(contract.col), k = c.var(contract.k);
    Expr place = tile.indirect_rows ? floor_div(row, 2) * (stride * 3) + floor_mod(row, 2) * stride : row * stride;
    contract.a_index = place + (tile.indirect_k ? floor_mod(k, 4) * 5 + floor_div(k, 4) : k);
    contract.b_index = tile.in_depth           ? col * stride + k
                       : tile.symbolic_strides ? k * stride + col
                                               : k * tile.cols + col;
    if (tile.limited)
      contract.b_col_limit = limit;
    contract.prefetch_distance = tile.rows == 3 ? 64 : 0;
    b.contract(contract);
    b.unroll("w", accumulators, [&](Expr u) { b.store(out, u, c.load(acc, u)); });
  });
  loop::assign_scratch(kernel);
  size_t size = static_cast<size_t>(tile.rows * 3 + tile.cols + 8) * static_cast<size_t>(depth + 64);
  CompileOptions options;
  options.target = Target::parse(target);
  options.use_dot_products = use_dot_products;
  bool whole_numbers = use_dot_products || !options.target.has_fma;
  std::vector<Data> data;
  for (const Buffer *buffer : kernel.buffers) {
    Data one(buffer->dtype, size, 5);
    // Small whole numbers where dot products or separate multiplications and additions round otherwise than fma; no
    // special values.
    std::mt19937 random(static_cast<uint32_t>(data.size()));
    for (size_t i = 0; i < size; ++i) {
      float value = whole_numbers ? static_cast<float>(static_cast<int>(random() % 9) - 4)
                                  : std::uniform_real_distribution<float>(-1, 1)(random);
      auto write = [&](auto element) {
        std::memcpy(static_cast<uint8_t *>(one.data()) + i * sizeof(element), &element, sizeof(element));
      };
      switch (buffer->dtype) {
      case DType::kF32: write(value); break;
      case DType::kF64: write(static_cast<double>(value) * (whole_numbers ? 1 : 1.000000001)); break;
      case DType::kF16: write(f16_from_float(value)); break;
      case DType::kBF16: write(bf16_from_float(value)); break;
      default: break;
      }
    }
    data.push_back(std::move(one));
  }
  int64_t row_stride = tile.symbolic_strides && !tile.in_depth ? std::max<int64_t>(depth + 3, tile.cols) : depth + 3;
  expect_same(kernel, {size, size, static_cast<size_t>(accumulators)}, {depth, row_stride, tile.cols - 3}, 1, options,
              &data);
}

TEST(CodegenContract, Columns) {
  for (const char *target : {"host", "x86-64-v2", "x86-64-v3"})
    for (int64_t depth : {0, 1, 7, 32}) {
      check({DType::kF32, DType::kF32, DType::kF32, 14, 32, 16, 2}, depth, target);
      check({DType::kF32, DType::kF32, DType::kF32, 3, 24, 16, 4}, depth, target);
      check({DType::kF64, DType::kF64, DType::kF64, 5, 16, 8, 3}, depth, target);
      check({DType::kBF16, DType::kBF16, DType::kF32, 4, 32, 16, 2}, depth, target);
      check({DType::kF16, DType::kF16, DType::kF32, 4, 32, 16, 2}, depth, target);
      check({DType::kI8, DType::kI8, DType::kI32, 4, 32, 16, 2}, depth, target);
      check({DType::kI64, DType::kI64, DType::kI64, 2, 16, 8}, depth, target);
    }
}

TEST(CodegenContract, SizesKnownAtRunTime) {
  for (const char *target : {"host", "x86-64-v3"})
    for (int64_t depth : {0, 1, 7, 32}) {
      Case tile{DType::kF32, DType::kF32, DType::kF32, 6, 32, 16, 2};
      tile.symbolic_strides = true;
      check(tile, depth, target);
      tile.limited = true;
      check(tile, depth, target);
      tile.indirect_rows = true;
      check(tile, depth, target);
      tile.in_depth = true;
      tile.cols = 4;
      check(tile, depth, target);
    }
}

TEST(CodegenContract, AddressesThatAreNotLinear) {
  Case tile{DType::kF32, DType::kF32, DType::kF32, 5, 32, 16, 2};
  tile.indirect_rows = true;
  check(tile, 19);
  tile.indirect_k = true;
  check(tile, 19);
}

TEST(CodegenContract, VectorsOfOneLane) {
  for (const char *target : {"host", "x86-64-v3"})
    for (int width : {1, 16})
      for (int pack : {1, 2})
        for (int64_t depth : {0, 1, 7, 32}) {
          DType type = pack == 1 ? DType::kF32 : DType::kBF16;
          Case tile{type, type, DType::kF32, 3, width == 1 ? 5 : 17, width, 2, pack};
          check(tile, depth, target);
          tile.limited = true;
          check(tile, depth, target);
        }
}

TEST(CodegenContract, Depth) {
  for (const char *target : {"host", "x86-64-v3"})
    for (int64_t depth : {0, 1, 16, 37, 64}) {
      Case tile{DType::kF32, DType::kF32, DType::kF32, 3, 4, 16, 2};
      tile.in_depth = true;
      check(tile, depth, target);
      tile.a = tile.b = DType::kBF16;
      check(tile, depth, target);
      tile.a = tile.b = tile.acc = DType::kF64;
      tile.width = 8;
      tile.limited = true;
      check(tile, depth, target);
    }
}

TEST(CodegenContract, PackedDepth) {
  for (int64_t depth : {0, 1, 2, 7, 32}) {
    Case tile{DType::kBF16, DType::kBF16, DType::kF32, 4, 32, 16, 2, 2};
    check(tile, depth);
    tile.symbolic_strides = tile.limited = true;
    check(tile, depth, "x86-64-v3");
    Case bytes{DType::kI8, DType::kI8, DType::kI32, 4, 32, 16, 1, 4};
    check(bytes, depth);
    bytes.limited = true;
    check(bytes, depth, "x86-64-v3");
    check({DType::kU8, DType::kI8, DType::kI32, 4, 32, 16, 1, 4}, depth);
  }
}

TEST(CodegenContract, DotProductsOfWholeNumbers) {
  for (int64_t depth : {1, 2, 7, 32}) {
    Case tile{DType::kBF16, DType::kBF16, DType::kF32, 4, 32, 16, 2, 2};
    check(tile, depth, "host", true);
    tile.limited = true;
    check(tile, depth, "host", true);
  }
}

} // namespace
} // namespace oxyfuel::codegen
