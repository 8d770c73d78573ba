// The state of lowering one kernel, shared by lower_expr.cpp (expressions), lower_kernel.cpp (statements) and
// lower_contract.cpp (tiles). Includes LLVM: only for .cpp files of codegen.
//
// Expressions are emitted where they are used and remembered: those without loads until the end of the innermost open
// block (a `Scope`), those with loads until the end of the statement. LLVM's EarlyCSE and LICM find what that misses.
#pragma once

#include "codegen/lower_kernel.h"
#include "codegen/lower_memory.h"
#include "codegen/lower_values.h"

#include <optional>
#include <unordered_map>
#include <vector>

namespace oxyfuel::codegen {

class KernelLowering {
public:
  KernelLowering(const loop::Kernel &kernel, llvm::Function *function, const Target &target,
                 const LowerOptions &options);
  void run();

private:
  friend class ContractLowering;

  /// What a variable stands for.
  struct Binding {
    Value value;
    Value at_zero;                 ///< in lane 0, when `value` is a vector (made on demand)
    std::optional<int64_t> stride; ///< from lane to lane, when constant
  };
  /// The vector loop around the insertion point.
  struct VectorLoop {
    const Var *lane = nullptr;
    int width = 1;
    llvm::Value *mask = nullptr; ///< active lanes; null: all
  };
  struct Remembered {
    Value value;
    bool has_load = false;
  };
  struct Memo {
    std::unordered_map<const ExprNode *, Remembered> values;
    std::vector<const ExprNode *> scoped, loaded; ///< keys, in the order of their making
  };
  /// Forgets on leaving what was remembered and bound inside: it does not dominate what follows.
  class Scope {
  public:
    explicit Scope(KernelLowering &lowering);
    ~Scope();
    Scope(const Scope &) = delete;

  private:
    KernelLowering &lowering_;
    size_t scoped_[2], facts_, bound_;
  };
  /// expression >= lower, known at the insertion point.
  struct Fact {
    Expr expression;
    int64_t lower;
  };

  llvm::IRBuilder<> &ir() { return builder_; }
  llvm::BasicBlock *new_block(const char *name);
  void bind(const Var *var, Binding binding);

  // lower_expr.cpp
  Value evaluate(Expr e);
  Value evaluate_new(Expr e);
  Value divide_lanes(Expr e);
  /// The value in lane 0; outside vector loops the value.
  Value evaluate_at_zero(Expr e);
  /// An i64 scalar.
  llvm::Value *scalar(Expr e) { return evaluate_at_zero(e).re; }
  std::optional<int64_t> lane_stride(Expr e);
  std::optional<int64_t> lane_stride_new(Expr e);
  bool has_vector_var(Expr e);
  Value load(Expr e);
  /// Calls the function for each lane; f64 operands and result.
  llvm::Value *host_call(int64_t number_of_function, std::span<const Value> operands);
  llvm::Value *host_function(int64_t number, int arity);
  /// Fills shape, base and indices; false when all lanes are at one place.
  bool access_of(Expr index, Access &access);
  llvm::Value *combine_masks(llvm::Value *a, llvm::Value *b);
  void forget_loads();

  // lower_kernel.cpp
  void block(const loop::Block &statements);
  void statement(const loop::Statement &statement);
  void task_loop(const loop::For &loop);
  void serial_loop(const loop::For &loop);
  void counted_loop(const loop::For &loop, llvm::Value *begin, llvm::Value *end);
  void unroll_loop(const loop::For &loop);
  void vector_loop(const loop::For &loop);
  void vector_body(const loop::For &loop, llvm::Value *mask);
  void store(const loop::Store &store);
  void let(const loop::Let &let);
  void branch(const loop::If &branch);
  void check(const loop::Check &check);
  /// Always at least `bound` here.
  bool proves_at_least(Expr e, int64_t bound);
  bool gains_from_full_steps(const loop::Block &statements);

  // lower_contract.cpp
  void contract(const loop::TileContract &contract);

  const loop::Kernel &kernel_;
  llvm::Function *function_;
  llvm::IRBuilder<> builder_;
  ValueBuilder values_;
  MemoryBuilder memory_;
  LowerOptions options_;
  std::unordered_map<const Var *, Binding> bindings_;
  std::vector<const Var *> bound_;
  Memo memos_[2]; ///< [1]: in lane 0
  bool at_zero_ = false;
  bool saw_load_ = false; ///< since `evaluate` of the node under way began
  VectorLoop vector_;
  std::unordered_map<const ExprNode *, std::optional<int64_t>> strides_;
  std::vector<Fact> facts_;
  Substitution constants_; ///< variables of open unroll loops
  bool splitting_ = true;  ///< not inside the last, partial step of a split loop
};

} // namespace oxyfuel::codegen
