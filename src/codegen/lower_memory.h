// Loads and stores of buffers: parameters, scratch memory and register buffers, as scalars and as vectors.
// Includes LLVM: only for .cpp files of codegen.
#pragma once

#include "codegen/lower_values.h"
#include "ir/loop/loop.h"

#include <llvm/IR/Function.h>
#include <llvm/IR/Metadata.h>

#include <unordered_map>
#include <vector>

namespace oxyfuel::codegen {

/// Where the lanes of a vector access lie.
struct Access {
  enum class Shape : uint8_t {
    kContiguous, // lane l at base + l
    kReversed,   // at base - l
    kStrided,    // at base + l * stride, a constant
    kIndexed,    // at indices[l]
  };
  Shape shape = Shape::kContiguous;
  llvm::Value *base = nullptr; ///< i64 element index of lane 0; not for kIndexed
  int64_t stride = 1;
  llvm::Value *indices = nullptr; ///< vector of i32 or i64 element indices
  int lanes = 1;
  llvm::Value *mask = nullptr; ///< <lanes x i1>; null: all lanes
};

/// The memory of one kernel. Parameters are told apart for LLVM by alias scopes, as far as `Buffer::is_unaliased` says.
class MemoryBuilder {
public:
  /// `function` has the signature OxyfuelKernel and an entry block, at whose end `values` inserts.
  MemoryBuilder(ValueBuilder &values, const loop::Kernel &kernel, llvm::Function *function);

  /// Makes room for a register buffer, or finds the scratch buffer's place.
  void declare(const Buffer *buffer);

  /// Address of one element; `index` is i64 or i32.
  llvm::Value *address(const Buffer *buffer, llvm::Value *index);
  /// Marks a load or store of `buffer` for alias analysis.
  llvm::Instruction *annotate(llvm::Instruction *access, const Buffer *buffer);

  /// `mask` null: always; else false gives zero without a branch and without touching the buffer.
  Value load_scalar(const Buffer *buffer, llvm::Value *index, llvm::Value *mask);
  void store_scalar(const Buffer *buffer, llvm::Value *index, Value value, llvm::Value *mask);
  /// Lanes that are masked off give zero.
  Value load_vector(const Buffer *buffer, const Access &access);
  void store_vector(const Buffer *buffer, const Access &access, Value value);

  /// A stack slot of the function's entry block.
  llvm::Value *stack_slot(llvm::Type *type, int64_t count, const char *name);

private:
  llvm::IRBuilder<> &ir() { return values_.ir(); }
  void make_alias_scopes();
  llvm::Value *safe_address(llvm::Value *mask, llvm::Value *address);
  Value from_memory(llvm::Value *re, llvm::Value *im, DType dtype);
  llvm::Value *to_memory(llvm::Value *value, DType dtype);
  llvm::Value *load_part(const Buffer *buffer, llvm::Type *element, llvm::Value *address, int lanes, llvm::Value *mask);
  void store_part(const Buffer *buffer, llvm::Value *value, llvm::Value *address, llvm::Value *mask);
  llvm::Value *gather(const Buffer *buffer, llvm::Type *element, llvm::Value *addresses, llvm::Value *mask);
  void scatter(const Buffer *buffer, llvm::Value *value, llvm::Value *addresses, llvm::Value *mask);
  llvm::Value *load_strided(const Buffer *buffer, llvm::Type *element, const Access &access);
  llvm::Value *lane_addresses(const Buffer *buffer, const Access &access, int part);

  ValueBuilder &values_;
  const loop::Kernel &kernel_;
  llvm::Function *function_;
  std::unordered_map<const Buffer *, llvm::Value *> bases_;
  struct Scopes {
    llvm::MDNode *own = nullptr, *others = nullptr;
  };
  std::unordered_map<const Buffer *, Scopes> scopes_;
  llvm::Value *zeros_ = nullptr;
};

} // namespace oxyfuel::codegen
