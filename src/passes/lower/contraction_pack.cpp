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

namespace {

/// The kernel that packs B, and where its elements lie afterwards.
class PanelPacker {
public:
  PanelPacker(const graph::Node &group, Evaluator &evaluator, ContractionPlan &plan,
              const ContractionSchedule &schedule, const Machine &machine)
      : plan_(plan), b_(plan.b), inner_(plan.depth.back()), outer_(plan.depth.begin(), plan.depth.end() - 1),
        pack_(schedule.depth_pack), cols_(schedule.cols), row_(int64_t{cols_} * pack_), frame_(group, "pack"),
        builder_(frame_.builder()), element_(evaluator.element(b_.value, b_.index)) {
    frame_.use_inputs(evaluator);
    width_ = std::max(1, machine.lanes(std::max<int64_t>(4, static_cast<int64_t>(size_of(b_.dtype)))));
    // Panels of batches that share B exist once.
    for (const ContractionAxis &axis : plan.batch)
      if (std::any_of(b_.index.begin(), b_.index.end(), [&](Expr e) { return depends_on(e, axis.var); }))
        batch_.push_back(axis);
    panels_ = ceil_div(plan.col.extent, cols_);
    groups_ = panel_rows_ = ceil_div(inner_.extent, pack_);
    for (const ContractionAxis &axis : outer_)
      panel_rows_ = panel_rows_ * axis.extent;
    std::optional<Expr> stride = b_.flat ? graph::stride_along(b_.flat, inner_.var) : std::nullopt;
    turns_ = stride && stride->is_const(1) && hint_of(inner_.extent).value_or(64) >= 16;
  }

  void run(LoweredGroup &lowered) {
    Temporary temporary;
    temporary.dtype = b_.dtype;
    temporary.elements = panels_ * panel_rows_ * row_;
    for (const ContractionAxis &axis : batch_)
      temporary.elements = temporary.elements * axis.extent;
    temporary.is_bound = b_.is_static;
    int index = static_cast<int>(lowered.temporaries.size());
    lowered.temporaries.push_back(temporary);
    target_ = own_temporary(frame_, index, b_.dtype, true);

    std::vector<Expr> extents;
    for (const ContractionAxis &axis : batch_)
      extents.push_back(frame_.emit(axis.extent));
    extents.push_back(frame_.emit(panels_));
    n_ = frame_.emit(plan_.col.extent);
    depth_ = frame_.emit(inner_.extent);
    int64_t bytes = hint_of(panel_rows_).value_or(256) * row_ * static_cast<int64_t>(size_of(b_.dtype));
    frame_.kernel().grain = std::max<int64_t>(1, kClaimBytes / std::max<int64_t>(1, bytes));
    builder_.task("t", product(context(), extents), [&](Expr task) {
      std::vector<Expr> places = split(builder_, task, extents);
      for (size_t i = 0; i < batch_.size(); ++i)
        vars_[batch_[i].var] = places[i];
      column_ = builder_.let("n", places.back() * cols_);
      base_ = task * (frame_.emit(panel_rows_) * row_);
      if (turns_)
        return pack_panel(true);
      builder_.branch(number(cols_) <= n_ - column_, [&] { pack_panel(true); }, [&] { pack_panel(false); });
    });
    frame_.finish(lowered);
    lowered.calls.back().is_bind = b_.is_static;
    point_to_panels(index);
  }

private:
  ExprContext &context() { return frame_.context(); }
  Expr number(int64_t value) { return context().integer(value); }

  void pack_panel(bool is_full) {
    loop_over(frame_, outer_, 0, vars_, [&] {
      Expr place = number(0);
      for (const ContractionAxis &axis : outer_)
        place = place * frame_.emit(axis.extent) + vars_.at(axis.var);
      if (turns_)
        return turn(place);
      Expr groups = frame_.emit(groups_);
      builder_.serial("k", number(0), groups, 1,
                      [&](Expr k) { pack_row(k, base_ + (place * groups + k) * row_, is_full); });
    });
  }

  /// Vectors of one row of a panel: `f(start, lanes)`.
  void each_vector(const std::function<void(int64_t, int)> &f) {
    for (int64_t start = 0; start < row_; start += width_)
      f(start, static_cast<int>(std::min<int64_t>(width_, row_ - start)));
  }

  /// One row of a panel: the columns of `pack` depths. Depths past the end of a group repeat the last one; nobody reads
  /// them.
  void pack_row(Expr group, Expr target_row, bool is_full) {
    each_vector([&](int64_t start, int lanes) {
      if (!is_full)
        builder_.vector("z", number(lanes), lanes, [&](Expr lane) {
          builder_.store(target_, target_row + start + lane, context().constant(0, b_.dtype));
        });
      Expr valid = is_full ? number(lanes) : max(number(0), min(number(lanes), (n_ - column_) * pack_ - start));
      builder_.vector("v", valid, lanes, [&](Expr lane) {
        VarMap all = vars_;
        Expr place = lane + start;
        all[plan_.col.var] = column_ + floor_div(place, pack_);
        all[inner_.var] = pack_ == 1 ? group : min(group * pack_ + floor_mod(place, pack_), depth_ - 1);
        builder_.store(target_, target_row + place, frame_.emit(element_, all));
      });
    });
  }

  /// Where depths of a column lie side by side, a block of each column is read as a vector into scratch memory, and
  /// turned there.
  void turn(Expr place) {
    constexpr int64_t kBlock = 16, kRow = kBlock + 1; // an odd distance: no two columns in one bank
    Buffer *block = builder_.scratch("block", b_.dtype, cols_ * kRow);
    builder_.serial("k", number(0), depth_, kBlock, [&](Expr k) {
      Expr depths = min(number(kBlock), depth_ - k);
      builder_.serial("c", number(0), min(number(cols_), n_ - column_), 1, [&](Expr c) {
        builder_.vector("v", depths, kBlock, [&](Expr lane) {
          VarMap all = vars_;
          all[plan_.col.var] = column_ + c;
          all[inner_.var] = k + lane;
          builder_.store(block, c * kRow + lane, frame_.emit(element_, all));
        });
      });
      builder_.serial("g", number(0), ceil_div(depths, pack_), 1, [&](Expr g) {
        Expr target_row = base_ + (place * frame_.emit(groups_) + floor_div(k, pack_) + g) * row_;
        each_vector([&](int64_t start, int lanes) {
          builder_.vector("v", number(lanes), lanes, [&](Expr lane) {
            Expr at = lane + start, col = floor_div(at, pack_);
            Expr value = context().load(block, col * kRow + g * pack_ + floor_mod(at, pack_));
            builder_.store(target_, target_row + at, select(column_ + col < n_, value, value.like(0)));
          });
        });
      });
    });
  }

  /// From here on B is read by panels; its place is that of column 0 of the panel of `col`, in groups.
  void point_to_panels(int index) {
    Expr place = plan_.col.extent.context().integer(0);
    for (const ContractionAxis &axis : batch_)
      place = place * axis.extent + axis.place();
    place = place * panels_ + floor_div(plan_.col.place(), cols_);
    for (const ContractionAxis &axis : outer_)
      place = place * axis.extent + axis.place();
    b_.flat = (place * groups_ + inner_.place()) * cols_;
    b_.source = {BufferReference::Kind::kTemporary, index};
  }

  ContractionPlan &plan_;
  ContractionOperand &b_;
  const ContractionAxis &inner_;
  std::vector<ContractionAxis> outer_, batch_;
  int pack_, cols_;
  int64_t row_; ///< elements of a row of a panel
  int width_ = 1;
  KernelFrame frame_;
  loop::Builder &builder_;
  Expr element_, panels_, groups_, panel_rows_; ///< in the program's context
  bool turns_ = false;
  Buffer *target_ = nullptr;
  Expr n_, depth_, column_, base_; ///< in the kernel
  VarMap vars_;
};

} // namespace

void emit_pack(const graph::Node &group, Evaluator &evaluator, ContractionPlan &plan,
               const ContractionSchedule &schedule, const Machine &machine, LoweredGroup &lowered) {
  PanelPacker(group, evaluator, plan, schedule, machine).run(lowered);
}

} // namespace oxyfuel
