// Lowering of contraction groups: one matmul or convolution, with pointwise work on its result.
//
// Both operators are brought into one form: a sum of products of two operands whose places in memory are affine in axes
// of four roles,
//
//   result[batch, row, col] = sum over depth of A[batch, row, depth] * B[batch, depth, col]
//
// A convolution's rows are output pixels, its depth is channels and kernel taps, its batch is the groups; padding and
// zeros between elements (transposed convolution) are written into a copy of the input first. So a convolution is a
// matrix product whose A overlaps itself, and no patch matrix is made.
//
// Kernels of a group, in order: copies of A where its elements do not lie affinely, packing of B into panels, the
// product with its epilogue. Packing of a weight runs when the weight is bound.
#pragma once

#include <optional>
#include <vector>

#include "passes/lower/evaluate.h"
#include "schedule/contraction_schedule.h"

namespace oxyfuel {

/// All expressions here are of the program's context.
struct ContractionAxis {
  Expr extent;
  Var *var = nullptr;
  Expr place() const { return extent.context().var(var); }
};

/// One operand of the product.
struct ContractionOperand {
  const graph::Value *value = nullptr; ///< in the region
  std::vector<Expr> index;             ///< of `value` at the axes; unused once it was copied
  DType dtype = DType::kF32;
  BufferReference source;
  Expr flat; ///< element of the source at the axes; empty: the elements lie nowhere affinely
  bool is_static = false;
};

/// A temporary filled element by element before the product.
struct ContractionCopy {
  std::vector<ContractionAxis> axes; ///< outermost first in the temporary, which is dense
  Expr element;                      ///< at the axes
  int temporary = 0;
  DType dtype = DType::kF32;
  bool is_static = false;
  std::string name;
};

/// One spatial axis of a convolution: output place y and tap t read input place (y * stride + t * dilation - lower) /
/// spread, if that is a place of the input.
struct ContractionWindow {
  ContractionAxis out, tap;
  Expr size; ///< of the input
  int64_t stride = 1, dilation = 1, spread = 1, lower = 0;
};

/// A group in the common form, from analysis to emission.
struct ContractionPlan {
  const graph::Node *node = nullptr;               ///< in the region
  std::vector<ContractionAxis> batch, rows, depth; ///< innermost last
  ContractionAxis col;
  std::vector<Expr> index; ///< of the contraction's result at the axes
  ContractionOperand a, b;
  DType accumulator = DType::kF32;
  std::vector<ContractionCopy> copies;
  /// Set for convolutions of one channel a group whose A is read in place, so that taps outside of it must be left out.
  /// The group is then batch[0], rows are n and the windows' outputs, depth the windows' taps.
  std::vector<ContractionWindow> windows;

  struct Root {
    int result; ///< of the group
    Expr element, store_index;
  };
  std::vector<Root> roots;
  std::vector<Evaluator::Check> checks;
  Var *value = nullptr; ///< stands for the contraction's element in `roots` and `checks`

  /// The tile step of Loop IR has the types; complex numbers and bool are left to scalar loops.
  bool is_plain() const;
};

/// What the group computes; declares the temporaries of copies.
ContractionPlan analyse_contraction(const graph::Node &group, Evaluator &evaluator, LoweredGroup &lowered);
/// Makes one axis out of neighbours that are one in memory, for operand A and the results. `for_packed`: B's places do
/// not matter.
void merge_row_axes(ContractionPlan &plan);
void merge_depth_axes(ContractionPlan &plan, bool for_packed);
/// Lowers with a given schedule (a tuned one, a user's, a test's); empty: the heuristic's.
LoweredGroup lower_contraction_as(const graph::Node &group, const Machine &machine,
                                  const std::optional<ContractionSchedule> &wanted);

/// Kernels, appended with their calls to `lowered`.
void emit_copy(const graph::Node &group, const Evaluator &evaluator, const ContractionCopy &copy,
               const Machine &machine, LoweredGroup &lowered);
/// Packs B and makes the panels its source; `flat` is then that of the place (batch, panel, depth) in groups of
/// depth_pack * cols.
void emit_pack(const graph::Node &group, Evaluator &evaluator, ContractionPlan &plan,
               const ContractionSchedule &schedule, const Machine &machine, LoweredGroup &lowered);
/// The product for convolutions of one channel a group (Kind::kChannels).
void emit_channels(const graph::Node &group, const Evaluator &evaluator, const ContractionPlan &plan,
                   const ContractionSchedule &schedule, LoweredGroup &lowered);
/// The product with its epilogue, for all other kinds of schedule.
void emit_contraction(const graph::Node &group, const Evaluator &evaluator, const ContractionPlan &plan,
                      const ContractionSchedule &schedule, LoweredGroup &lowered);

} // namespace oxyfuel
