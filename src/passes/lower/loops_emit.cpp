// Loops groups into Loop IR: tasks over the unfolded axes, one loop over the folded axes a level, then the stores.
#include <algorithm>

#include "ops/op.h"
#include "passes/lower/loops.h"
#include "support/error.h"

namespace oxyfuel {
namespace {

using loop::Builder;
using VarMap = KernelFrame::VarMap;

/// Where a task's lanes are: `base` element of the vector axis, `lanes` of them valid (at most the width).
struct Tile {
  Expr base;
  int unroll = 1;
  Expr lanes; ///< empty: all
};

/// Row-major place among the unfolded axes, and how many there are.
Expr outer_place(const LoopsPlan &plan, KernelFrame &frame, const VarMap &vars) {
  Expr place = frame.context().integer(0);
  for (int i = 0; i < plan.domain.rank(); ++i)
    if (!plan.domain.is_folded[i])
      place = place * frame.emit(plan.domain.extents[i]) + vars.at(plan.domain.vars[i]);
  return place;
}
Expr outer_count(const LoopsPlan &plan, KernelFrame &frame) {
  Expr count = frame.context().integer(1);
  for (int i = 0; i < plan.domain.rank(); ++i)
    if (!plan.domain.is_folded[i])
      count = count * frame.emit(plan.domain.extents[i]);
  return count;
}

class LoopsEmitter {
public:
  LoopsEmitter(const graph::Node &group, const Evaluator &evaluator, const LoopsPlan &plan,
               const LoopSchedule &schedule)
      : plan_(plan), schedule_(schedule), frame_(group, "loops"), builder_(frame_.builder()) {
    frame_.use_inputs(evaluator);
    for (int i = 0; i < plan.domain.rank(); ++i)
      ranges_.push_back({frame_.context().integer(0), frame_.emit(plan.domain.extents[i])});
  }

  KernelFrame &frame() { return frame_; }

  void run() {
    frame_.kernel().grain = schedule_.grain;
    std::vector<Expr> extents;
    for (int axis : schedule_.outer)
      extents.push_back(ranges_[axis].extent);
    bool has_blocks = schedule_.vector_axis >= 0 && !schedule_.is_vector_folded;
    if (has_blocks)
      extents.push_back(ceil_div(ranges_[schedule_.vector_axis].extent, schedule_.block));
    if (schedule_.parts > 1)
      extents.insert(extents.begin(), context().integer(schedule_.parts));
    Expr tasks = frame_.context().integer(1);
    for (Expr extent : extents)
      tasks = tasks * extent;
    builder_.task("t", tasks, [&](Expr task) {
      VarMap vars;
      Expr rest = task;
      std::vector<Expr> places(extents.size());
      for (int i = static_cast<int>(extents.size()) - 1; i >= 0; --i) {
        places[i] = i == 0 ? rest : floor_mod(rest, extents[i]);
        if (i > 0)
          rest = floor_div(rest, extents[i]);
        if (!places[i].is_const() && extents.size() > 1)
          places[i] = builder_.let("p", places[i]);
      }
      size_t first = 0;
      if (schedule_.parts > 1) {
        part_ = places[0];
        narrow_to_part();
        first = 1;
      }
      for (size_t i = 0; i < schedule_.outer.size(); ++i)
        vars[plan_.domain.vars[schedule_.outer[i]]] = places[first + i];
      if (has_blocks)
        emit_block(vars, places.back());
      else
        emit_levels(vars, {});
    });
  }

private:
  struct AxisRange {
    Expr begin, extent;
  };

  ExprContext &context() { return frame_.context(); }

  /// A task folds one of `parts` pieces of the split axis: whole unrolled vectors, so that only the last piece has a
  /// tail.
  void narrow_to_part() {
    AxisRange &range = ranges_[schedule_.split_axis];
    int64_t step = schedule_.split_axis == schedule_.vector_axis ? int64_t{schedule_.width} * schedule_.unroll : 1;
    Expr whole = frame_.emit(plan_.domain.extents[schedule_.split_axis]);
    Expr piece = ceil_div(whole, schedule_.parts * step) * step;
    Expr begin = builder_.let("begin", min(part_ * piece, whole));
    range = {begin, builder_.let("extent", min(piece, whole - begin))};
  }

  /// An unfolded vector axis: the task covers `block` elements of it.
  void emit_block(VarMap &vars, Expr place) {
    Expr extent = ranges_[schedule_.vector_axis].extent;
    int64_t step = static_cast<int64_t>(schedule_.width) * schedule_.unroll;
    if (schedule_.block == step) {
      Expr base = place * step;
      Expr left = extent - base;
      emit_full_or_tail(left, step, [&](bool is_full) {
        if (is_full)
          emit_levels(vars, {base, schedule_.unroll, {}});
        else
          emit_tail(vars, base, left);
      });
      return;
    }
    Expr begin = place * schedule_.block;
    Expr count = min(context().integer(schedule_.block), extent - begin);
    Expr full = count - floor_mod(count, context().integer(step));
    builder_.serial("j", begin, full, step, [&](Expr j) { emit_levels(vars, {j, schedule_.unroll, {}}); });
    Expr rest = count - full;
    if (!rest.is_const(0))
      emit_tail(vars, begin + full, rest);
  }

  void emit_full_or_tail(Expr left, int64_t step, const std::function<void(bool)> &emit) {
    Expr is_full = context().integer(step) <= left;
    if (is_full.is_const(1))
      emit(true);
    else if (is_full.is_const(0))
      emit(false);
    else
      builder_.branch(is_full, [&] { emit(true); }, [&] { emit(false); });
  }

  void emit_tail(VarMap &vars, Expr base, Expr count) {
    builder_.serial("j", base, count, schedule_.width, [&](Expr j) {
      emit_levels(vars, {j, 1, min(context().integer(schedule_.width), base + count - j)});
    });
  }

  /// One vector loop: sets the vector axis' variable and calls `f` with the lane (absent when the width is 1).
  void lanes(const VarMap &vars, Expr base, Expr valid, const std::function<void(VarMap &, Expr)> &f) {
    VarMap inner = vars;
    auto set = [&](Expr lane) {
      if (schedule_.vector_axis >= 0)
        inner[plan_.domain.vars[schedule_.vector_axis]] = base + lane;
      f(inner, lane);
    };
    if (schedule_.width == 1)
      set(context().integer(0));
    else
      builder_.vector("v", valid ? valid : context().integer(schedule_.width), schedule_.width, set);
  }

  /// Serial loops over the folded axes but the innermost, then `f` for the innermost (as a half-open range), or once.
  void folded_loops(VarMap vars, size_t depth, size_t until, const std::function<void(VarMap &)> &f) {
    if (depth == until) {
      f(vars);
      return;
    }
    int axis = schedule_.folded[depth];
    builder_.serial("r", ranges_[axis].begin, ranges_[axis].extent, 1, [&](Expr r) {
      vars[plan_.domain.vars[axis]] = r;
      folded_loops(vars, depth + 1, until, f);
    });
  }

  // Levels ---------------------------------------------------------------------------------------------------------

  /// `tile` is that of an unfolded vector axis; empty base: the vector axis is folded (or there is none).
  void emit_levels(const VarMap &outer_vars, Tile tile) {
    VarMap vars = outer_vars;
    accumulators_.clear();
    // Anew each time: whole vectors and the rest of them are in scopes of their own.
    for (const auto &row : plan_.rows)
      rows_[&row] = builder_.scratch("row", row.value->type.dtype, row_elements());
    for (int level = 0; level < plan_.levels; ++level) {
      if (schedule_.is_vector_folded)
        emit_folded_level(vars, level);
      else
        emit_unfolded_level(vars, level, tile);
    }
    emit_roots(vars, tile);
  }

  int64_t row_elements() const {
    int64_t elements = 1;
    for (int i = 0; i < plan_.domain.rank(); ++i)
      if (plan_.domain.is_folded[i])
        elements *= *plan_.domain.extents[i].constant();
    if (!schedule_.is_vector_folded)
      return elements * tile_lanes_count();
    return elements + schedule_.width; // whole vectors may be read past the end
  }

  /// Results that are computed side by side where lanes lie along an unfolded axis; each has a row of its own.
  int64_t tile_lanes_count() const { return static_cast<int64_t>(schedule_.width) * schedule_.unroll; }

  /// Element of a kept row at the present place on the folded axes.
  Expr row_index(const VarMap &vars) {
    Expr index = context().integer(0);
    for (int i = 0; i < plan_.domain.rank(); ++i)
      if (plan_.domain.is_folded[i])
        index = index * ranges_[i].extent + vars.at(plan_.domain.vars[i]);
    return schedule_.is_vector_folded ? index : index * tile_lanes_count() + row_lane_;
  }

  struct Accumulator {
    const LoopsPlan::Fold *fold;
    Buffer *part, *total; ///< the same when partial results are not added up in chunks
    Buffer *position = nullptr, *total_position = nullptr;
  };

  std::vector<Accumulator> make_accumulators(int level, int vectors) {
    std::vector<Accumulator> made;
    for (const auto &fold : plan_.folds) {
      if (fold.level != level)
        continue;
      int64_t size = static_cast<int64_t>(schedule_.width) * vectors;
      Accumulator a{&fold, builder_.registers("acc", fold.accumulator, size), nullptr};
      a.total = schedule_.chunk ? builder_.registers("total", fold.accumulator, size) : a.part;
      if (fold.position) {
        a.position = builder_.registers("at", DType::kI64, size);
        a.total_position = schedule_.chunk ? builder_.registers("total_at", DType::kI64, size) : a.position;
      }
      made.push_back(a);
    }
    return made;
  }

  void each_vector(int vectors, const std::function<void(Expr)> &f) {
    for (int u = 0; u < vectors; ++u) {
      Expr base = context().integer(static_cast<int64_t>(u) * schedule_.width);
      if (schedule_.width == 1)
        f(base);
      else
        builder_.vector("v", context().integer(schedule_.width), schedule_.width, [&](Expr v) { f(base + v); });
    }
  }

  void reset(const Accumulator &a, bool is_total, int vectors) {
    each_vector(vectors, [&](Expr at) {
      Expr identity = a.fold->node->op->reduction->identity(context(), a.fold->accumulator);
      builder_.store(is_total ? a.total : a.part, at, identity);
      if (a.position)
        builder_.store(is_total ? a.total_position : a.position, at, context().integer(0));
    });
  }

  /// Folds (value, position) into accumulator element `at` of `into`.
  void combine(const Accumulator &a, const Buffer *into, const Buffer *into_position, Expr at, Expr value,
               Expr position) {
    const ReductionRule &rule = *a.fold->node->op->reduction;
    Expr present = context().load(into, at);
    if (!rule.better) {
      builder_.store(into, at, rule.combine(present, value));
      return;
    }
    Expr present_position = context().load(into_position, at);
    Expr takes = rule.better(present, value) || (!rule.better(value, present) && position < present_position);
    takes = builder_.let("takes", takes);
    Expr new_value = builder_.let("best", select(takes, value, present));
    builder_.store(into_position, at, select(takes, position, present_position));
    builder_.store(into, at, new_value);
  }

  /// part into total, part reset.
  void flush(const std::vector<Accumulator> &accumulators, int vectors) {
    for (const Accumulator &a : accumulators) {
      each_vector(vectors, [&](Expr at) {
        Expr position = a.position ? context().load(a.position, at) : Expr();
        combine(a, a.total, a.total_position, at, context().load(a.part, at), position);
      });
      reset(a, false, vectors);
    }
  }

  void start(const std::vector<Accumulator> &accumulators, int vectors) {
    for (const Accumulator &a : accumulators) {
      reset(a, false, vectors);
      if (schedule_.chunk)
        reset(a, true, vectors);
    }
  }

  void emit_checks(int level, const VarMap &vars) {
    for (const auto &check : plan_.checks[level])
      builder_.check(frame_.emit(check.condition, vars), check.status);
  }

  /// The body of a level's loop at one vector: stores kept rows, folds elements into `at`.
  void accumulate(const std::vector<Accumulator> &accumulators, int level, const VarMap &vars, Expr at) {
    emit_checks(level, vars);
    for (const auto &row : plan_.rows)
      if (row.level == level)
        builder_.store(rows_.at(&row), row_index(vars), frame_.emit(row.element, with_rows(vars, level)));
    VarMap all = with_rows(vars, level);
    for (const Accumulator &a : accumulators) {
      Expr position = a.fold->position ? frame_.emit(a.fold->position, vars) : Expr();
      combine(a, a.part, a.position, at, frame_.emit(a.fold->element, all), position);
    }
  }

  VarMap with_rows(const VarMap &vars, int level) {
    VarMap all = vars;
    for (const auto &row : plan_.rows)
      if (row.level < level)
        all[row.kept] = context().load(rows_.at(&row), row_index(vars));
    return all;
  }

  void finish_fold(const Accumulator &a, VarMap &vars, Expr value, Expr position) {
    DType result = a.fold->node->result()->type.dtype;
    vars[a.fold->result] = a.fold->position ? cast(position, result) : cast(value, result);
  }

  // Lanes along a folded axis: main loop of unrolled vectors, masked tail, tree over vectors and lanes.
  void emit_folded_level(VarMap &vars, int level) {
    int vectors = schedule_.level_unroll[level];
    std::vector<Accumulator> accumulators = make_accumulators(level, vectors);
    start(accumulators, vectors);
    folded_loops(vars, 0, schedule_.folded.size(), [&](VarMap &inner) {
      sweep(
          inner, vectors, [&](VarMap &at_lane, Expr at) { accumulate(accumulators, level, at_lane, at); },
          [&] {
            if (schedule_.chunk)
              flush(accumulators, vectors);
          });
    });
    for (const Accumulator &a : accumulators) {
      if (schedule_.chunk)
        flush({a}, vectors);
      int64_t size = static_cast<int64_t>(schedule_.width) * vectors;
      for (int64_t half = size / 2; half >= 1; half /= 2) {
        int width = static_cast<int>(std::min<int64_t>(half, schedule_.width));
        for (int64_t base = 0; base < half; base += width) {
          auto step = [&](Expr lane) {
            Expr at = context().integer(base) + lane;
            Expr other = at + half;
            Expr position = a.position ? context().load(a.total_position, other) : Expr();
            combine(a, a.total, a.total_position, at, context().load(a.total, other), position);
          };
          if (width == 1)
            step(context().integer(0));
          else
            builder_.vector("v", context().integer(width), width, step);
        }
      }
      Expr zero = context().integer(0);
      Expr value = builder_.let("r", context().load(a.total, zero));
      Expr position = a.position ? builder_.let("at", context().load(a.total_position, zero)) : Expr();
      finish_fold(a, vars, value, position);
    }
    accumulators_.insert(accumulators_.end(), accumulators.begin(), accumulators.end());
  }

  /// Runs over the folded vector axis, `unroll` vectors at a time: `body(vars, accumulator element)`; `between` after
  /// each chunk of the main loop.
  void sweep(const VarMap &vars, int unroll, const std::function<void(VarMap &, Expr)> &body,
             const std::function<void()> &between) {
    int axis = schedule_.vector_axis;
    Expr begin = ranges_[axis].begin, extent = ranges_[axis].extent;
    int64_t step = static_cast<int64_t>(schedule_.width) * unroll;
    Expr main = extent - floor_mod(extent, context().integer(step));
    auto unrolled = [&](Expr j) {
      for (int u = 0; u < unroll; ++u)
        lanes(vars, j + static_cast<int64_t>(u) * schedule_.width, {}, [&](VarMap &inner, Expr lane) {
          body(inner, context().integer(static_cast<int64_t>(u) * schedule_.width) + lane);
        });
    };
    if (!main.is_const(0)) {
      if (schedule_.chunk) {
        int64_t chunk = schedule_.chunk * step;
        builder_.serial("c", begin, main, chunk, [&](Expr c) {
          builder_.serial("j", c, min(context().integer(chunk), begin + main - c), step, unrolled);
          between();
        });
      } else {
        builder_.serial("j", begin, main, step, unrolled);
      }
    }
    Expr rest = extent - main;
    if (rest.is_const(0))
      return;
    builder_.serial("j", begin + main, rest, schedule_.width, [&](Expr j) {
      lanes(vars, j, min(context().integer(schedule_.width), begin + extent - j),
            [&](VarMap &inner, Expr lane) { body(inner, lane); });
    });
  }

  // Lanes along an unfolded axis (or none): the accumulators hold one result a lane.
  void emit_unfolded_level(VarMap &vars, int level, const Tile &tile) {
    std::vector<Accumulator> accumulators = make_accumulators(level, tile.unroll);
    start(accumulators, tile.unroll);
    auto body = [&](VarMap &inner) {
      for (int u = 0; u < tile.unroll; ++u)
        tile_lanes(inner, tile, u, [&](VarMap &at_lane, Expr at) { accumulate(accumulators, level, at_lane, at); });
    };
    size_t depth = schedule_.folded.size();
    if (!schedule_.chunk || depth == 0) {
      folded_loops(vars, 0, depth, body);
    } else {
      int axis = schedule_.folded.back();
      folded_loops(vars, 0, depth - 1, [&](VarMap &inner) {
        Expr begin = ranges_[axis].begin, extent = ranges_[axis].extent;
        builder_.serial("c", begin, extent, schedule_.chunk, [&](Expr c) {
          builder_.serial("r", c, min(context().integer(schedule_.chunk), begin + extent - c), 1, [&](Expr r) {
            inner[plan_.domain.vars[axis]] = r;
            body(inner);
          });
          flush(accumulators, tile.unroll);
        });
      });
    }
    accumulators_.insert(accumulators_.end(), accumulators.begin(), accumulators.end());
  }

  /// Lanes of vector u of the tile; results of finished levels are those of the lane.
  void tile_lanes(const VarMap &vars, const Tile &tile, int u, const std::function<void(VarMap &, Expr)> &f) {
    Expr base = tile.base ? tile.base + static_cast<int64_t>(u) * schedule_.width : context().integer(0);
    lanes(vars, base, tile.lanes, [&](VarMap &inner, Expr lane) {
      Expr at = context().integer(static_cast<int64_t>(u) * schedule_.width) + lane;
      row_lane_ = at;
      for (const Accumulator &a : accumulators_)
        finish_fold(a, inner, context().load(a.total, at), a.position ? context().load(a.total_position, at) : Expr());
      f(inner, at);
    });
  }

  // Results --------------------------------------------------------------------------------------------------------

  void store_roots(Extent extent, const VarMap &vars) {
    VarMap all = extent == Extent::kFull ? with_rows(vars, plan_.levels) : vars;
    for (const auto &row : plan_.rows)
      if (extent == Extent::kFull && row.level == plan_.levels)
        builder_.store(rows_.at(&row), row_index(vars), frame_.emit(row.element, all));
    for (const auto &root : plan_.roots)
      if (root.extent == extent)
        builder_.store(frame_.result(root.result), frame_.emit(root.store_index, vars), frame_.emit(root.element, all));
  }

  /// Raw accumulators of this part, for the combining kernel.
  void store_parts(const VarMap &vars, Expr at, const std::vector<Accumulator> &accumulators) {
    Expr place = part_ * outer_count(plan_, frame_) + outer_place(plan_, frame_, vars);
    int temporary = 0;
    for (const Accumulator &a : accumulators) {
      builder_.store(frame_.temporary(temporary++, a.fold->accumulator, true), place, context().load(a.total, at));
      if (a.position)
        builder_.store(frame_.temporary(temporary++, DType::kI64, true), place, context().load(a.total_position, at));
    }
  }

  void emit_roots(const VarMap &vars, const Tile &tile) {
    if (schedule_.parts > 1) {
      if (schedule_.is_vector_folded)
        store_parts(vars, context().integer(0), accumulators_);
      else
        for (int u = 0; u < tile.unroll; ++u)
          tile_lanes(vars, tile, u, [&](VarMap &inner, Expr at) { store_parts(inner, at, accumulators_); });
      return;
    }
    bool has_full = false, has_outer = false;
    for (const auto &root : plan_.roots)
      (root.extent == Extent::kFull ? has_full : has_outer) = true;
    bool folds = plan_.levels > 0;
    auto store_at = [&](Extent extent, const VarMap &at_lane) {
      if (extent == (has_full ? Extent::kFull : Extent::kOuter))
        emit_checks(plan_.levels, at_lane);
      store_roots(extent, at_lane);
    };
    if (has_outer) {
      if (schedule_.is_vector_folded)
        store_at(Extent::kOuter, vars);
      else
        for (int u = 0; u < tile.unroll; ++u)
          tile_lanes(vars, tile, u, [&](VarMap &inner, Expr) { store_at(Extent::kOuter, inner); });
    }
    if (!has_full)
      return;
    auto at_place = [&](VarMap &inner) {
      if (schedule_.is_vector_folded)
        sweep(
            inner, schedule_.level_unroll[plan_.levels],
            [&](VarMap &at_lane, Expr) { store_at(Extent::kFull, at_lane); }, [] {});
      else
        for (int u = 0; u < tile.unroll; ++u)
          tile_lanes(inner, tile, u, [&](VarMap &at_lane, Expr) { store_at(Extent::kFull, at_lane); });
    };
    if (folds)
      folded_loops(vars, 0, schedule_.folded.size(), at_place);
    else {
      VarMap inner = vars;
      at_place(inner);
    }
  }

  const LoopsPlan &plan_;
  const LoopSchedule &schedule_;
  KernelFrame frame_;
  Expr part_;
  Builder &builder_;
  std::vector<AxisRange> ranges_;
  std::vector<Accumulator> accumulators_;
  std::map<const LoopsPlan::Row *, Buffer *> rows_;
  Expr row_lane_; ///< in the tile, where lanes lie along an unfolded axis
};

/// The second kernel of a split reduction: adds up the parts of each result in order and stores the group's results.
void emit_combine(const graph::Node &group, const Evaluator &evaluator, const LoopsPlan &plan,
                  const LoopSchedule &schedule, LoweredGroup &lowered) {
  KernelFrame frame(group, "combine");
  frame.use_inputs(evaluator);
  Builder &builder = frame.builder();
  ExprContext &context = frame.context();
  Expr count = outer_count(plan, frame);
  frame.kernel().grain = 64;
  builder.task("t", count, [&](Expr task) {
    VarMap vars;
    Expr rest = task;
    for (int i = plan.domain.rank() - 1; i >= 0; --i) {
      if (plan.domain.is_folded[i])
        continue;
      Expr extent = frame.emit(plan.domain.extents[i]);
      vars[plan.domain.vars[i]] = floor_mod(rest, extent);
      rest = floor_div(rest, extent);
    }
    int temporary = 0;
    for (const LoopsPlan::Fold &fold : plan.folds) {
      const ReductionRule &rule = *fold.node->op->reduction;
      Buffer *acc = builder.registers("acc", fold.accumulator, 1), *at = nullptr, *positions = nullptr;
      Buffer *parts = frame.temporary(temporary++, fold.accumulator, false);
      Expr zero = context.integer(0);
      builder.store(acc, zero, rule.identity(context, fold.accumulator));
      if (fold.position) {
        at = builder.registers("at", DType::kI64, 1);
        positions = frame.temporary(temporary++, DType::kI64, false);
        builder.store(at, zero, zero);
      }
      builder.serial("p", zero, context.integer(schedule.parts), 1, [&](Expr part) {
        Expr place = part * count + task;
        Expr present = context.load(acc, zero), value = context.load(parts, place);
        if (!rule.better) {
          builder.store(acc, zero, rule.combine(present, value));
          return;
        }
        // Parts come in order: on a tie the earlier one stays.
        Expr takes = builder.let("takes", rule.better(present, value));
        Expr best = builder.let("best", select(takes, value, present));
        builder.store(at, zero, select(takes, context.load(positions, place), context.load(at, zero)));
        builder.store(acc, zero, best);
      });
      DType result = fold.node->result()->type.dtype;
      vars[fold.result] = builder.let("r", cast(context.load(fold.position ? at : acc, zero), result));
    }
    for (const auto &check : plan.checks.back())
      builder.check(frame.emit(check.condition, vars), check.status);
    for (const auto &root : plan.roots)
      builder.store(frame.result(root.result), frame.emit(root.store_index, vars), frame.emit(root.element, vars));
  });
  frame.finish(lowered);
}

/// Few results of much input: the longest folded loop is cut into parts that run side by side.
void choose_parts(const LoopsPlan &plan, LoopSchedule &schedule) {
  constexpr int64_t kFewTasks = 16, kMuchWork = 1 << 17, kParts = 32;
  if (plan.levels != 1 || !plan.rows.empty())
    return;
  for (const auto &root : plan.roots)
    if (root.extent == Extent::kFull)
      return;
  int64_t tasks = 1, folded = 1;
  for (int i = 0; i < plan.domain.rank(); ++i)
    (plan.domain.is_folded[i] ? folded : tasks) *= std::max<int64_t>(1, plan.problem.extents[i]);
  if (!schedule.is_vector_folded)
    tasks = (tasks + schedule.block - 1) / schedule.block;
  if (tasks > kFewTasks || tasks * folded < kMuchWork)
    return;
  int axis = schedule.is_vector_folded ? schedule.vector_axis : schedule.folded.front();
  for (int other : schedule.folded)
    if (plan.problem.extents[other] > plan.problem.extents[axis])
      axis = other;
  schedule.split_axis = axis;
  schedule.parts = kParts;
  schedule.grain = 1;
}

} // namespace

LoweredGroup lower_loops(const graph::Node &group, const Machine &machine) {
  Evaluator evaluator(region_of(group));
  LoopsPlan plan = analyse_loops(group, evaluator, machine);
  LoopSchedule schedule = choose(plan.problem, machine);
  choose_parts(plan, schedule);
  LoweredGroup lowered;
  lowered.schedule = schedule.text();
  LoopsEmitter emitter(group, evaluator, plan, schedule);
  emitter.run();
  emitter.frame().finish(lowered);
  if (schedule.parts > 1) {
    ExprContext &context = plan.domain.extents[0].context();
    Expr count = context.integer(schedule.parts);
    for (int i = 0; i < plan.domain.rank(); ++i)
      if (!plan.domain.is_folded[i])
        count = count * plan.domain.extents[i];
    for (const LoopsPlan::Fold &fold : plan.folds) {
      lowered.temporaries.push_back({.dtype = fold.accumulator, .elements = count});
      if (fold.position)
        lowered.temporaries.push_back({.dtype = DType::kI64, .elements = count});
    }
    emit_combine(group, evaluator, plan, schedule, lowered);
  }
  return lowered;
}

} // namespace oxyfuel
