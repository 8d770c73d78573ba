// Tasks of a kernel over axes that do not depend on one another, with lanes along one of them: what scatters, scans,
// sorts and copies share.
#pragma once

#include <functional>
#include <vector>

#include "ir/graph/op_info.h"
#include "passes/lower/evaluate.h"

namespace oxyfuel {

/// The anchor of a group: the one node of its region that is computed as a whole.
struct Anchor {
  const graph::Node *node = nullptr;
  /// Result of the group that is result i of the anchor; -1 when nobody asks for it.
  int result(int i) const { return results.at(i); }
  std::vector<int> results;
};
/// InternalError unless the region has exactly one node of that kind.
Anchor anchor_of(const graph::Node &group, OpKind kind);

/// Independent axes, in the program's context.
struct TaskAxes {
  std::vector<Var *> vars;   ///< loop variables of the axes, outermost first
  std::vector<Expr> extents; ///< one an axis
  int lane_axis = -1;        ///< -1: no lanes
  int width = 1;             ///< lanes
  int vectors = 1;           ///< side by side in a task

  /// Adds an axis of that extent and returns its place as an expression; axes of extent 1 are left out.
  Expr add(ExprContext &context, Expr extent);
  /// Runs lanes along the axis whose step `strides` (one an axis) is 1, if there is one worth it; `bytes`: of the
  /// widest element.
  void choose_lanes(std::span<const Expr> strides, int64_t bytes, const Machine &machine);
  /// Elements of the lane axis that a task covers.
  int64_t block() const { return static_cast<int64_t>(width) * vectors; }
};

/// The lanes of a task: `vectors` vectors from element `base` of the lane axis.
struct LaneBlock {
  Expr base;
  int vectors = 1;
  Expr valid; ///< elements of the axis from `base` on, when they may be fewer than the lanes; empty: all are there
};

/// Opens the kernel's task loop; `body` is called with the variables of all axes but the lane axis set. It may be
/// called twice, for whole blocks and for the last one.
void run_tasks(KernelFrame &frame, const TaskAxes &axes,
               const std::function<void(const KernelFrame::VarMap &, const LaneBlock &)> &body);

/// Vector loops over the lanes of a block (or once without lanes): `f(vars with the lane axis set, element of the
/// block)`.
void each_lane(KernelFrame &frame, const TaskAxes &axes, const KernelFrame::VarMap &vars, const LaneBlock &block,
               const std::function<void(const KernelFrame::VarMap &, Expr)> &f);

/// Least number of tasks worth a claim when one takes about `cost` vector operations.
int64_t grain_of(int64_t cost);

/// Strides of a value in memory, row-major where they are not set.
std::vector<Expr> strides_of(ExprContext &context, const graph::Type &type, const graph::Layout &layout);

} // namespace oxyfuel
