// Loop IR: one kernel as loops over buffers of scalars. The meaning is that of the loops run in order, one iteration
// after the other; `vector`, `unroll` and task loops promise that order does not matter and say how code is made. So a
// scheduled kernel is interpreted, printed and compared like an unscheduled one.
//
//   kernel @softmax(%x: f32 in, %y: f32 out; %n, %m) grid (%n) scratch 4096 {
//     task %i in [0, %n) {
//       local %acc: f32[16]
//       for %v in [0, 16) vector 16 { %acc[%v] = -inf:f32 }
//       for %j in [0, %m) step 16 {
//         for %v in [0, min(16, %m - %j)) vector 16 { … }
//       …
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "ir/expr.h"

namespace oxyfuel {

/// Memory of a kernel, addressed by a flat element index.
struct Buffer {
  enum class Kind : uint8_t {
    kInput,
    kOutput,
    kInOut,    // parameters, in the order of the signature
    kRegister, // local; small constant size; meant to live in registers (constant or lane indices after unrolling)
    kScratch,  // local; in the worker's scratch memory, 64-byte aligned at `scratch_offset`
  };
  std::string name;
  DType dtype = DType::kF32;
  Kind kind = Kind::kInput;
  int64_t size = 0;           ///< elements, of locals
  int64_t scratch_offset = 0; ///< bytes, kScratch; assigned by `assign_scratch`
  /// Inputs: overlaps no buffer that the kernel writes. Outputs: overlaps no other parameter (arena and fresh outputs).
  bool is_unaliased = false;
  int64_t alignment = 0; ///< known alignment of the base in bytes; 0: the element's
};

} // namespace oxyfuel

namespace oxyfuel::loop {

struct Statement;
using Block = std::vector<std::unique_ptr<Statement>>;

/// for var in [begin, begin + extent) step `step`. var takes begin, begin + step, …
struct For {
  enum class Kind : uint8_t {
    kTask, // outermost only: the grid, cut up by the runtime
    kSerial,
    kUnroll, // extent constant; the body is copied
    kVector, // begin 0, step 1, extent <= width (an Expr: lanes past it are masked off); `width` lanes at once. Nothing
             // but Store, Let, Check inside (no loops); register buffers are indexed by constants + lane
  };
  Kind kind = Kind::kSerial;
  Var *var = nullptr;
  Expr begin, extent;
  int64_t step = 1;
  int width = 1;
  Block body;
};

struct Store {
  const Buffer *buffer = nullptr;
  Expr index, value;
  Expr mask; ///< optional bool
};

/// Names a scalar (a vector inside a vector loop).
struct Let {
  Var *var = nullptr;
  Expr value;
};

struct If {
  Expr condition; ///< uniform: does not depend on a lane
  Block then_body, else_body;
};

/// Declares a register or scratch buffer. Contents are undefined until written.
struct Local {
  Buffer *buffer = nullptr;
};

/// The kernel returns `status` (runtime/abi.h) unless `condition` holds. In a vector loop: for all active lanes.
struct Check {
  Expr condition;
  int status = 0;
};

/// acc[row * cols + col] += sum over k < extent of A[a_index(row, k)] * B[b_index(k, col)], products and sums in acc's
/// type with fma, k ascending (lanes == kColumns) or `width` interleaved partial sums combined as a tree (lanes ==
/// kDepth). The one step that target lowering expands by itself (decision 5): FMA, dot products, AMX, or the portable
/// loop.
struct TileContract {
  enum class Lanes : uint8_t {
    kColumns, // vectors along col: b_index has stride 1 in col
    kDepth,   // vectors along k: a_index and b_index have stride 1 in k. acc then has rows * cols * width elements
              // (partial sums per lane), to be summed by the statements that follow
  };
  Lanes lanes = Lanes::kColumns;
  const Buffer *acc = nullptr; ///< kRegister
  int rows = 0, cols = 0, width = 16;
  int unroll = 1; ///< of the k loop
  Var *row = nullptr, *col = nullptr, *k = nullptr;
  Expr extent;        ///< of k
  int depth_pack = 1; ///< 1, or 2 / 4: B holds that many consecutive k of one column side by side (bfloat16 dot2, int8
                      ///< dot4): b_index then is that of the group k / depth_pack, in units of groups
  const Buffer *a = nullptr, *b = nullptr;
  Expr a_index, b_index;
  Expr b_col_limit; ///< optional: columns at or past it (relative to the tile) are not read and count as zero
  /// Elements ahead in B to prefetch per k step; 0: none.
  int64_t prefetch_distance = 0;
};

struct Statement {
  std::variant<For, Store, Let, If, Local, Check, TileContract> data;
};

/// One kernel: signature, grid and body. Owns its expressions.
struct Kernel {
  std::string name;
  std::unique_ptr<ExprContext> context = std::make_unique<ExprContext>();
  std::vector<Buffer *> buffers; ///< parameters
  std::vector<Var *> sizes;      ///< size parameters (i64)
  Expr grid;                     ///< tasks, in terms of sizes
  int64_t scratch_bytes = 0;
  int64_t grain = 1; ///< least number of tasks worth a claim
  Block body;        ///< statements before the one task loop may only be Local; the task loop is last
};

/// Builds statements; keeps an insertion point.
class Builder {
public:
  explicit Builder(Kernel &kernel) : kernel_(kernel), block_(&kernel.body) {}
  ExprContext &context() { return *kernel_.context; }
  Kernel &kernel() { return kernel_; }

  /// Opens a loop; `body(var as Expr)` fills it.
  void loop(For::Kind kind, const std::string &name, Expr begin, Expr extent, int64_t step, int width,
            const std::function<void(Expr)> &body);
  void task(const std::string &name, Expr extent, const std::function<void(Expr)> &body);
  void serial(const std::string &name, Expr begin, Expr extent, int64_t step, const std::function<void(Expr)> &body);
  void unroll(const std::string &name, int64_t extent, const std::function<void(Expr)> &body);
  void vector(const std::string &name, Expr extent, int width, const std::function<void(Expr)> &body);
  void store(const Buffer *buffer, Expr index, Expr value, Expr mask = {});
  Expr let(const std::string &name, Expr value);
  void branch(Expr condition, const std::function<void()> &then_body, const std::function<void()> &else_body = {});
  Buffer *registers(const std::string &name, DType dtype, int64_t size);
  Buffer *scratch(const std::string &name, DType dtype, int64_t size);
  void check(Expr condition, int status);
  /// The caller makes row, col and k by `contract_vars` and builds the index expressions of them.
  void contract(TileContract contract);
  /// Sets the variables of a contraction whose rows, cols and extent are set.
  void contract_vars(TileContract &contract);
  Buffer *parameter(const std::string &name, DType dtype, Buffer::Kind kind);
  Var *size(const std::string &name);

private:
  Kernel &kernel_;
  Block *block_;
  int next_name_ = 0;
};

/// Gives a loop variable the range of [begin, begin + extent), which simplification builds on. Before its first use.
void set_loop_range(Var &var, Expr begin, Expr extent);

/// Offsets of scratch buffers and Kernel::scratch_bytes: buffers of blocks that do not enclose one another share
/// memory.
void assign_scratch(Kernel &kernel);

/// Text form. Variables and buffers are renamed in order of appearance when `canonical`, so that equal kernels have
/// equal texts.
std::string print(const Kernel &kernel, bool canonical = false);
/// Parses one kernel. Throws CompileError with line and column.
std::unique_ptr<Kernel> parse(const std::string &text);
/// Throws InternalError that names the first broken rule.
void verify(const Kernel &kernel);

/// Runs the loops on real memory, one element after the other: the reference for codegen. Returns the status.
int32_t interpret(const Kernel &kernel, const std::vector<void *> &buffers, const std::vector<int64_t> &sizes);

} // namespace oxyfuel::loop
