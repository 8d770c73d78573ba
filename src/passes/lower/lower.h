// From a fused group of Graph IR to kernels in Loop IR: the only place that sees both.
//
// A group node holds a region (attribute "region") whose inputs correspond to its operands; the kind of group is the
// attribute "kind": "loops", "contraction", "attention", "scatter", "scan", "sort". Operands and results of the group
// node are materialised: their `layout` says where elements lie. Everything inside the region is computed on the fly.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/graph/graph.h"
#include "ir/loop/loop.h"
#include "schedule/machine.h"

namespace oxyfuel {

/// A buffer that a kernel call gets.
struct BufferReference {
  enum class Kind : uint8_t { kOperand, kResult, kTemporary };
  Kind kind = Kind::kOperand;
  int index = 0;
};

/// One run of a kernel.
struct KernelCall {
  int kernel = 0;                       ///< into LoweredGroup::kernels
  std::vector<BufferReference> buffers; ///< one a kernel parameter
  std::vector<Expr> sizes;              ///< one a size parameter of the kernel, over the program's symbols
  bool is_bind = false; ///< reads static operands only and writes bound temporaries only: runs when weights are bound
  /// Copies operand to result, element by element in the same order, and does nothing else; later calls of the group do
  /// not read that operand. A plan that gives the result the operand's memory (nobody reads the operand later) leaves
  /// the call out.
  bool is_base_copy = false;
};

/// Memory that only the group's own kernels use.
struct Temporary {
  DType dtype = DType::kF32;
  Expr elements;         ///< over the program's symbols
  bool is_bound = false; ///< written by bind calls; lives as long as the weights are bound
};

/// What a group became.
struct LoweredGroup {
  std::vector<std::unique_ptr<loop::Kernel>> kernels;
  std::vector<KernelCall> calls; ///< in order
  std::vector<Temporary> temporaries;
  std::string schedule; ///< what was chosen, as text, for `explain`
};

/// Lowers one group node. Throws UnsupportedError when the group has no lowering (the driver then makes it extern).
LoweredGroup lower_group(const graph::Node &group, const Machine &machine);

// One function a kind, in the file of that name; `lower_group` chooses.
LoweredGroup lower_loops(const graph::Node &group, const Machine &machine);
LoweredGroup lower_contraction(const graph::Node &group, const Machine &machine);
LoweredGroup lower_attention(const graph::Node &group, const Machine &machine);
LoweredGroup lower_scatter(const graph::Node &group, const Machine &machine);
LoweredGroup lower_scan(const graph::Node &group, const Machine &machine);
LoweredGroup lower_sort(const graph::Node &group, const Machine &machine);

} // namespace oxyfuel
