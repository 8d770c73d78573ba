// The plan of a program: what runs, in which order, over which memory. Plain data with a binary form (plan_io.cpp),
// made by driver/, executed by runtime/program.cpp. It holds no expressions: every number that depends on sizes is a
// slot of one int64 array that the program's sizes kernel computes from the symbols, so dynamic shapes need no IR at
// run time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "support/dtype.h"

namespace oxyfuel::runtime {

/// Index into the slot array. Slots [0, Plan::symbol_count) are the symbols themselves.
using Slot = int32_t;
inline constexpr Slot kNoSlot = -1;

/// One argument of the program, in call order.
struct Argument {
  enum class Kind : uint8_t { kTensor, kInteger }; // an integer argument is a symbol by itself
  Kind kind = Kind::kTensor;
  DType dtype = DType::kF32;
  std::vector<Slot> shape, strides; ///< expected; strides in elements
  bool is_static = false;           ///< a weight or buffer of the model: same storage from call to call, mostly
  bool is_mutated = false;          ///< written by a step
  std::string name;                 ///< for messages
};

/// Where a symbol's value comes from at the start of a call.
struct SymbolSource {
  enum class Kind : uint8_t { kInteger, kSize, kStride, kStep }; // kStep: bound later by an extern or loop step
  Kind kind = Kind::kInteger;
  int32_t argument = 0, axis = 0;
};

/// A piece of memory that steps read and write.
struct Buffer {
  enum class Kind : uint8_t {
    kArgument, ///< index: argument
    kOutput,   ///< index: output; allocated by the caller's allocator before the first step that writes it
    kArena,    ///< planned at load or at the first call with new sizes, from liveness, by greedy offsets
    kBound,    ///< made by bind steps from static arguments; lives as long as the binding
    kConstant, ///< index: offset into Plan::constants
    kExtern,   ///< provided by an extern step's results
    kDynamic,  ///< its size depends on a kStep symbol: allocated before the first step that writes it
  };
  Kind kind = Kind::kArena;
  DType dtype = DType::kF32;
  int32_t index = 0;
  Slot bytes = kNoSlot;
  int32_t first_step = 0, last_step = 0; ///< liveness in steps, inclusive (a loop step counts as one)
};

/// An output of the program, in order.
struct Output {
  enum class Kind : uint8_t {
    kBuffer,   ///< its own memory: buffer of kind kOutput
    kArgument, ///< the argument itself, handed back as it is
    kView,     ///< a strided view of an argument or of another output's memory
    kExtern,   ///< the tensor that an extern step made (step `source`, result `result`)
    kInteger,  ///< the value of slot `offset`
    kNone,
  };
  Kind kind = Kind::kBuffer;
  DType dtype = DType::kF32;
  int32_t source = 0; ///< kBuffer: buffer; kArgument: argument; kView: argument if >= 0, else output ~source
  int32_t result = 0;
  std::vector<Slot> shape, strides;
  Slot offset = kNoSlot; ///< kView: storage offset in elements relative to the source's first element
};

struct Step {
  enum class Kind : uint8_t {
    kKernel, ///< run `index` (kernel) over [0, grid)
    kExtern, ///< call the host's extern handler with id `index`
    kSizes,  ///< recompute the slots (after an extern step has bound symbols)
    kLoop,   ///< run steps [this+1, this+1+body) `grid` times, symbol `symbol` counting (backwards when `reverse`)
    kBranch, ///< if the first element of buffers[0] is non-zero run the next `body` steps, else the `other` after them
    kWhile,  ///< run the next `body` steps (condition; its result in buffers[0]), then `other` steps, while true
    kCopy,   ///< copy `bytes` (slot in grid) from buffers[0] to buffers[1]
  };
  Kind kind = Kind::kKernel;
  int32_t index = 0;
  std::vector<int32_t> buffers;
  std::vector<Slot> sizes;
  Slot grid = kNoSlot;
  int64_t scratch_bytes = 0; ///< per worker
  int64_t grain = 1;         ///< least number of tasks worth a claim
  int32_t body = 0, other = 0;
  int32_t symbol = -1; ///< kLoop: which symbol counts
  bool reverse = false;
  std::string name;     ///< for profiles: what was fused
  std::string location; ///< the same: "model.py:41 in forward", the first place in the user's program; may be empty
};

struct Kernel {
  std::string name;
  int32_t image = 0;   ///< which image of the program
  uint64_t offset = 0; ///< entry point within its code
};

struct Plan {
  int32_t symbol_count = 0;
  int32_t slot_count = 0;
  std::vector<SymbolSource> symbols;
  int32_t sizes_kernel = -1; ///< buffers: {slots}; sizes: {symbols}; grid 1
  std::vector<Argument> arguments;
  std::vector<Output> outputs;
  std::vector<Buffer> buffers;
  std::vector<Kernel> kernels;
  std::vector<Step> bind_steps; ///< run when static arguments are bound or have changed; write kBound buffers only
  std::vector<Step> steps;
  std::vector<uint8_t> constants; ///< 64-byte aligned pieces
};

/// Binary form, little endian, versioned. `read_plan` checks all indices and lengths; false with a message when
/// hostile.
std::vector<uint8_t> write_plan(const Plan &plan);
bool read_plan(const uint8_t *data, size_t size, Plan &plan, std::string &message);
/// The check by itself, for plans that were not read: all indices lie in range, control steps nest, bind steps write
/// kBound buffers only.
bool check_plan(const Plan &plan, std::string &message);

} // namespace oxyfuel::runtime
