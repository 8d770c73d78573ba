// Elements of values inside a region as expressions: views compose into index maps, pointwise operators into
// arithmetic, inputs of the region become loads at the places that their layouts give.
//
// All of it is built in the program's expression context, at index variables of that context, once; KernelFrame::emit
// then instantiates an expression in a kernel, as often as unrolling and tails need.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/loop/loop.h"
#include "passes/lower/lower.h"

namespace oxyfuel {

/// One a region; remembers the elements that it has built.
class Evaluator {
public:
  explicit Evaluator(const graph::Graph &region);

  /// Element `index` of `value`. UnsupportedError when that needs a node that is computed as a whole (a reduction, a
  /// contraction) and is not bound at this index.
  Expr element(const graph::Value *value, std::span<const Expr> index, Expr mask = {});

  /// From now on `value` read at `index` (or anywhere, when `index` is null) is `replacement`.
  void bind(const graph::Value *value, const std::vector<Expr> *index, Expr replacement);
  /// `value` is computed again where it is read.
  void unbind(const graph::Value *value);

  /// The stand-in for the memory of region input i.
  const Buffer *input_buffer(int i) const { return input_buffers_[i]; }
  /// A condition that must hold, or else the kernel returns `status`.
  struct Check {
    Expr condition;
    int status;
  };
  /// Conditions met since the last call.
  std::vector<Check> take_checks();

private:
  struct Binding {
    bool anywhere = false;
    std::vector<Expr> index;
    Expr replacement;
  };
  const graph::Graph &region_;
  ExprContext &context_;
  std::vector<const Buffer *> input_buffers_;
  std::unordered_map<const graph::Value *, Binding> bindings_;
  std::map<std::vector<const void *>, Expr> memo_;
  std::vector<Check> checks_;
};

/// Flat element index of `index` in memory laid out as `layout` (row-major when its strides are not set).
Expr flat_index(ExprContext &context, const graph::Type &type, const graph::Layout &layout,
                std::span<const Expr> index);

/// One kernel in the making and its call: parameters for the group's operands, results and temporaries, size parameters
/// for the program's symbols.
class KernelFrame {
public:
  KernelFrame(const graph::Node &group, std::string name);

  loop::Builder &builder() { return builder_; }
  ExprContext &context() { return *kernel_->context; }
  loop::Kernel &kernel() { return *kernel_; }

  using VarMap = std::unordered_map<const Var *, Expr>;
  /// The expression of the program's context in the kernel: variables by `vars`, the rest are symbols and become size
  /// parameters; buffers by `map_buffer`.
  Expr emit(Expr in_program, const VarMap &vars = {});
  /// Names what a buffer of the program's context is in the kernel.
  void map_buffer(const Buffer *in_program, const Buffer *in_kernel) { buffers_[in_program] = in_kernel; }

  /// The parameter for operand or result i of the group, declared at its first use.
  Buffer *operand(int i);
  Buffer *result(int i);
  /// A parameter for temporary i of the group.
  Buffer *temporary(int i, DType dtype, bool is_written);
  /// Maps the evaluator's stand-ins of the region's inputs; parameters appear when an expression uses them.
  void use_inputs(const Evaluator &evaluator);

  /// Closes the kernel and appends kernel and call to `lowered`.
  void finish(LoweredGroup &lowered);

private:
  Buffer *parameter(BufferReference reference, DType dtype, Buffer::Kind kind, const std::string &name);

  const graph::Node &group_;
  std::unique_ptr<loop::Kernel> kernel_;
  loop::Builder builder_;
  KernelCall call_;
  std::unordered_map<const Buffer *, const Buffer *> buffers_;
  std::unordered_map<const Buffer *, int> inputs_;
  std::unordered_map<const Var *, Var *> symbols_;
  std::vector<Expr> call_sizes_;
};

/// The region of a group node.
const graph::Graph &region_of(const graph::Node &group);

} // namespace oxyfuel
