// Kernels that run before a product: copies of A into a dense temporary, packing of B into panels.
#include <algorithm>

#include "passes/graph/strided.h"
#include "passes/lower/contraction.h"
#include "support/error.h"

namespace oxyfuel {
namespace {

using VarMap = KernelFrame::VarMap;

constexpr int64_t kClaimBytes = 64 << 10; // worth a claim of a kernel that only moves data

/// Splits a task number into places on axes, the last one fastest.
std::vector<Expr> split(loop::Builder &builder, Expr task, const std::vector<Expr> &extents) {
  std::vector<Expr> places(extents.size());
  Expr rest = task;
  for (size_t i = extents.size(); i-- > 0;) {
    places[i] = builder.let("p", i == 0 ? rest : floor_mod(rest, extents[i]));
    if (i > 0)
      rest = floor_div(rest, extents[i]);
  }
  return places;
}

Expr product(ExprContext &context, const std::vector<Expr> &factors) {
  Expr result = context.integer(1);
  for (Expr factor : factors)
    result = result * factor;
  return result;
}

/// Nested serial loops over axes; the places go into `vars`.
void loop_over(KernelFrame &frame, const std::vector<ContractionAxis> &axes, size_t first, VarMap &vars,
               const std::function<void()> &body) {
  if (first == axes.size())
    return body();
  frame.builder().serial(axes[first].var->name, frame.context().integer(0), frame.emit(axes[first].extent), 1,
                         [&](Expr place) {
                           vars[axes[first].var] = place;
                           loop_over(frame, axes, first + 1, vars, body);
                         });
}

Buffer *own_temporary(KernelFrame &frame, int index, DType dtype, bool is_written) {
  Buffer *buffer = frame.temporary(index, dtype, is_written);
  buffer->is_unaliased = true;
  buffer->alignment = 64;
  return buffer;
}

} // namespace

void emit_copy(const graph::Node &group, const Evaluator &evaluator, const ContractionCopy &copy,
               const Machine &machine, LoweredGroup &lowered) {
  KernelFrame frame(group, copy.name);
  frame.use_inputs(evaluator);
  loop::Builder &builder = frame.builder();
  ExprContext &context = frame.context();
  Buffer *target = own_temporary(frame, copy.temporary, copy.dtype, true);
  int width = std::max(1, machine.lanes(std::max<int64_t>(4, static_cast<int64_t>(size_of(copy.dtype)))));

  // Tasks over all axes but the last two; of these the inner one has the lanes.
  size_t rank = copy.axes.size(), outer = rank > 2 ? rank - 2 : 0;
  std::vector<Expr> extents;
  Expr inner_elements = frame.context().integer(1);
  int64_t inner_hint = 1;
  for (size_t i = 0; i < rank; ++i) {
    Expr extent = frame.emit(copy.axes[i].extent);
    if (i < outer) {
      extents.push_back(extent);
    } else {
      inner_elements = inner_elements * extent;
      inner_hint *= std::max<int64_t>(1, hint_of(copy.axes[i].extent).value_or(32));
    }
  }
  frame.kernel().grain =
      std::max<int64_t>(1, kClaimBytes / std::max<int64_t>(1, inner_hint * static_cast<int64_t>(size_of(copy.dtype))));
  builder.task("t", product(context, extents), [&](Expr task) {
    VarMap vars;
    std::vector<Expr> places = split(builder, task, extents);
    for (size_t i = 0; i < outer; ++i)
      vars[copy.axes[i].var] = places[i];
    std::vector<ContractionAxis> middle(copy.axes.begin() + static_cast<std::ptrdiff_t>(outer),
                                        copy.axes.end() - static_cast<std::ptrdiff_t>(rank > 0));
    Expr base = task * inner_elements;
    loop_over(frame, middle, 0, vars, [&] {
      Expr extent = rank > 0 ? frame.emit(copy.axes.back().extent) : context.integer(1);
      Expr row = middle.empty() ? base : base + vars.at(middle[0].var) * extent;
      builder.serial("j", context.integer(0), extent, width, [&](Expr j) {
        builder.vector("v", min(context.integer(width), extent - j), width, [&](Expr lane) {
          VarMap all = vars;
          if (rank > 0)
            all[copy.axes.back().var] = j + lane;
          builder.store(target, row + j + lane, frame.emit(copy.element, all));
        });
      });
    });
  });
  frame.finish(lowered);
  lowered.calls.back().is_bind = copy.is_static;
}

void emit_pack(const graph::Node &group, Evaluator &evaluator, ContractionPlan &plan,
               const ContractionSchedule &schedule, const Machine &machine, LoweredGroup &lowered) {
  ContractionOperand &b = plan.b;
  Expr element = evaluator.element(b.value, b.index);
  KernelFrame frame(group, "pack");
  frame.use_inputs(evaluator);
  loop::Builder &builder = frame.builder();
  ExprContext &context = frame.context();
  int pack = schedule.depth_pack, cols = schedule.cols;
  int64_t row = int64_t{cols} * pack;

  // Panels of batches that share B exist once.
  std::vector<ContractionAxis> batch;
  for (const ContractionAxis &axis : plan.batch)
    if (std::any_of(b.index.begin(), b.index.end(), [&](Expr e) { return depends_on(e, axis.var); }))
      batch.push_back(axis);
  ExprContext &program = plan.col.extent.context();
  std::vector<ContractionAxis> outer(plan.depth.begin(), plan.depth.end() - 1);
  const ContractionAxis &inner = plan.depth.back();
  Expr panels = ceil_div(plan.col.extent, cols), groups = ceil_div(inner.extent, pack);
  Expr panel_rows = groups, count = program.integer(1);
  for (const ContractionAxis &axis : outer)
    panel_rows = panel_rows * axis.extent;
  for (const ContractionAxis &axis : batch)
    count = count * axis.extent;

  Temporary temporary;
  temporary.dtype = b.dtype;
  temporary.elements = count * panels * panel_rows * row;
  temporary.is_bound = b.is_static;
  int index = static_cast<int>(lowered.temporaries.size());
  lowered.temporaries.push_back(temporary);
  Buffer *target = own_temporary(frame, index, b.dtype, true);

  std::vector<Expr> extents;
  for (const ContractionAxis &axis : batch)
    extents.push_back(frame.emit(axis.extent));
  extents.push_back(frame.emit(panels));
  Expr n = frame.emit(plan.col.extent), depth = frame.emit(inner.extent);
  int width = std::max(1, machine.lanes(std::max<int64_t>(4, static_cast<int64_t>(size_of(b.dtype)))));
  int64_t panel_bytes =
      std::max<int64_t>(1, hint_of(panel_rows).value_or(256)) * row * static_cast<int64_t>(size_of(b.dtype));
  frame.kernel().grain = std::max<int64_t>(1, kClaimBytes / panel_bytes);

  std::optional<Expr> depth_stride = b.flat ? graph::stride_along(b.flat, inner.var) : std::nullopt;
  bool turns = depth_stride && depth_stride->is_const(1) && hint_of(inner.extent).value_or(64) >= 16;
  builder.task("t", product(context, extents), [&](Expr task) {
    VarMap vars;
    std::vector<Expr> places = split(builder, task, extents);
    for (size_t i = 0; i < batch.size(); ++i)
      vars[batch[i].var] = places[i];
    Expr column = builder.let("n", places.back() * cols);
    Expr base = task * (frame.emit(panel_rows) * row);
    // One row of a panel: the columns of `pack` depths. Depths past the end of a group repeat the last one; nobody
    // reads them.
    auto pack_row = [&](Expr group_place, Expr target_row, bool is_full) {
      for (int64_t start = 0; start < row; start += width) {
        int lanes = static_cast<int>(std::min<int64_t>(width, row - start));
        if (!is_full)
          builder.vector("z", context.integer(lanes), lanes, [&](Expr lane) {
            builder.store(target, target_row + start + lane, context.constant(0, b.dtype));
          });
        Expr valid = is_full ? context.integer(lanes)
                             : max(context.integer(0), min(context.integer(lanes), (n - column) * pack - start));
        builder.vector("v", valid, lanes, [&](Expr lane) {
          VarMap all = vars;
          Expr place = lane + start;
          all[plan.col.var] = column + (pack == 1 ? place : floor_div(place, pack));
          all[inner.var] = pack == 1 ? group_place : min(group_place * pack + floor_mod(place, pack), depth - 1);
          builder.store(target, target_row + place, frame.emit(element, all));
        });
      }
    };
    // Where depths of a column lie side by side, a block of each column is read as a vector into scratch memory, and
    // turned there.
    auto turn_panel = [&](Expr place) {
      constexpr int64_t kBlock = 16, kRow = kBlock + 1; // an odd distance: no two columns in one bank
      Buffer *block = builder.scratch("block", b.dtype, cols * kRow);
      builder.serial("k", context.integer(0), depth, kBlock, [&](Expr k) {
        Expr depths = min(context.integer(kBlock), depth - k);
        builder.serial("c", context.integer(0), min(context.integer(cols), n - column), 1, [&](Expr c) {
          builder.vector("v", depths, kBlock, [&](Expr lane) {
            VarMap all = vars;
            all[plan.col.var] = column + c;
            all[inner.var] = k + lane;
            builder.store(block, c * kRow + lane, frame.emit(element, all));
          });
        });
        builder.serial("g", context.integer(0), ceil_div(depths, pack), 1, [&](Expr g) {
          for (int64_t start = 0; start < row; start += width) {
            int lanes = static_cast<int>(std::min<int64_t>(width, row - start));
            builder.vector("v", context.integer(lanes), lanes, [&](Expr lane) {
              Expr at = lane + start, col = floor_div(at, pack);
              Expr value = context.load(block, col * kRow + g * pack + floor_mod(at, pack));
              value = select(column + col < n, value, value.like(0));
              builder.store(target, base + ((place * frame.emit(groups) + floor_div(k, pack) + g) * row + at), value);
            });
          }
        });
      });
    };
    auto pack_panel = [&](bool is_full) {
      loop_over(frame, outer, 0, vars, [&] {
        Expr place = context.integer(0);
        for (const ContractionAxis &axis : outer)
          place = place * frame.emit(axis.extent) + vars.at(axis.var);
        if (turns)
          return turn_panel(place);
        builder.serial("k", context.integer(0), frame.emit(groups), 1,
                       [&](Expr k) { pack_row(k, base + (place * frame.emit(groups) + k) * row, is_full); });
      });
    };
    if (turns)
      pack_panel(true);
    else
      builder.branch(context.integer(cols) <= n - column, [&] { pack_panel(true); }, [&] { pack_panel(false); });
  });
  frame.finish(lowered);
  lowered.calls.back().is_bind = b.is_static;

  // From here on B is read by panels; its place is that of column 0 of the panel of `col`, in groups.
  Expr place = program.integer(0);
  for (const ContractionAxis &axis : batch)
    place = place * axis.extent + axis.place();
  place = place * panels + floor_div(plan.col.place(), cols);
  for (const ContractionAxis &axis : outer)
    place = place * axis.extent + axis.place();
  b.flat = (place * groups + inner.place()) * cols;
  b.source = {BufferReference::Kind::kTemporary, index};
}

} // namespace oxyfuel
