// Task loops over independent axes.
#include "passes/lower/tasks.h"

#include <algorithm>

#include "support/error.h"

namespace oxyfuel {

namespace {

/// Vector operations that outweigh the claim of a task.
constexpr int64_t kTaskOperations = 1024;

} // namespace

Anchor anchor_of(const graph::Node &group, OpKind kind) {
  const graph::Graph &region = region_of(group);
  Anchor anchor;
  for (const auto &node : region.nodes())
    if (node->op->kind == kind) {
      OXYFUEL_CHECK(!anchor.node, "a group with two anchors");
      anchor.node = node.get();
    }
  OXYFUEL_CHECK(anchor.node, "a group without an anchor");
  for (const auto &result : anchor.node->results) {
    auto at = std::find(region.outputs.begin(), region.outputs.end(), result.get());
    anchor.results.push_back(at == region.outputs.end() ? -1 : static_cast<int>(at - region.outputs.begin()));
  }
  for (const graph::Value *output : region.outputs)
    if (output->producer != anchor.node)
      throw UnsupportedError("a group of " + std::string(anchor.node->op->name) + " with further results");
  return anchor;
}

Expr TaskAxes::add(ExprContext &context, Expr extent) {
  if (extent.is_const(1))
    return context.integer(0);
  Var *var = context.new_var("p" + std::to_string(vars.size()), DType::kI64, 0, extent.constant());
  var->upper_expr = extent.node();
  vars.push_back(var);
  extents.push_back(extent);
  return context.var(var);
}

void TaskAxes::choose_lanes(std::span<const Expr> strides, int64_t bytes, const Machine &machine) {
  for (size_t i = 0; i < vars.size(); ++i) {
    auto extent = extents[i].constant();
    if (!strides[i].is_const(1) || (extent && *extent < 2))
      continue;
    lane_axis = static_cast<int>(i);
    int64_t size = extent ? *extent : hint_of(extents[i]).value_or(1024);
    width = std::max(1, machine.lanes(bytes));
    while (extent && width / 2 >= *extent)
      width /= 2;
    vectors = size >= 4 * width ? 4 : size >= 2 * width ? 2 : 1;
  }
}

void run_tasks(KernelFrame &frame, const TaskAxes &axes,
               const std::function<void(const KernelFrame::VarMap &, const LaneBlock &)> &body) {
  loop::Builder &b = frame.builder();
  ExprContext &context = frame.context();
  std::vector<Expr> extents;
  Expr tasks = context.integer(1), lane_extent;
  for (size_t i = 0; i < axes.vars.size(); ++i) {
    Expr extent = frame.emit(axes.extents[i]);
    if (static_cast<int>(i) == axes.lane_axis) {
      lane_extent = extent;
      extent = ceil_div(extent, axes.block());
    }
    extents.push_back(extent);
    tasks = tasks * extent;
  }
  b.task("t", tasks, [&](Expr task) {
    KernelFrame::VarMap vars;
    LaneBlock block{context.integer(0), axes.vectors, {}};
    Expr rest = task;
    for (size_t i = extents.size(); i-- > 0;) {
      Expr place = i == 0 ? rest : b.let("p", floor_mod(rest, extents[i]));
      if (i > 0)
        rest = b.let("q", floor_div(rest, extents[i]));
      if (static_cast<int>(i) == axes.lane_axis)
        block.base = b.let("base", place * axes.block());
      else
        vars[axes.vars[i]] = place;
    }
    if (axes.lane_axis < 0) {
      body(vars, block);
      return;
    }
    Expr left = lane_extent - block.base;
    Expr is_whole = context.integer(axes.block()) <= left;
    auto extent = lane_extent.constant();
    if (extent && *extent % axes.block() == 0)
      is_whole = context.boolean(true);
    LaneBlock partial = block;
    partial.valid = left;
    b.branch(is_whole, [&] { body(vars, block); }, [&] { body(vars, partial); });
  });
}

void each_lane(KernelFrame &frame, const TaskAxes &axes, const KernelFrame::VarMap &vars, const LaneBlock &block,
               const std::function<void(const KernelFrame::VarMap &, Expr)> &f) {
  loop::Builder &b = frame.builder();
  ExprContext &context = frame.context();
  if (axes.lane_axis < 0) {
    f(vars, context.integer(0));
    return;
  }
  Expr width = context.integer(axes.width);
  for (int u = 0; u < block.vectors; ++u) {
    int64_t first = static_cast<int64_t>(u) * axes.width;
    auto at_lane = [&](Expr lane) {
      KernelFrame::VarMap inner = vars;
      Expr at = context.integer(first) + lane;
      inner[axes.vars[axes.lane_axis]] = block.base + at;
      f(inner, at);
    };
    b.vector("v", block.valid ? min(width, block.valid - first) : width, axes.width, at_lane);
  }
}

int64_t grain_of(int64_t cost) { return std::max<int64_t>(1, kTaskOperations / std::max<int64_t>(1, cost)); }

std::vector<Expr> strides_of(ExprContext &context, const graph::Type &type, const graph::Layout &layout) {
  return layout.strides.empty() && type.rank() > 0 ? graph::contiguous_strides(context, type.shape) : layout.strides;
}

} // namespace oxyfuel
