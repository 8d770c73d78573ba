// Convolutions of one channel a group (depthwise), channels side by side in memory: lanes along the channels, a few
// neighbouring pixels in registers, one multiply-add a tap and pixel.
//
// Taps outside of the input are left out of the sum. Along the last spatial axis, whose sizes are known, the tiles at
// its ends are emitted for themselves, so that nothing is asked while running; along the others the loops over taps
// have bounds that depend on the pixel's row.
#include <algorithm>

#include "ops/op.h"
#include "passes/lower/contraction.h"
#include "support/error.h"

namespace oxyfuel {
namespace {

using VarMap = KernelFrame::VarMap;

class ChannelsEmitter {
public:
  ChannelsEmitter(const graph::Node &group, const Evaluator &evaluator, const ContractionPlan &plan,
                  const ContractionSchedule &schedule)
      : plan_(plan), schedule_(schedule), frame_(group, "depthwise"), builder_(frame_.builder()) {
    frame_.use_inputs(evaluator);
    a_ =
        plan.a.source.kind == BufferReference::Kind::kOperand ? frame_.operand(plan.a.source.index) : temporary(plan.a);
    b_ = temporary(plan.b);
  }

  void run(LoweredGroup &lowered) {
    frame_.kernel().grain = schedule_.grain;
    Expr tasks = context().integer(1);
    for (size_t i = 0; i + 1 < plan_.rows.size(); ++i)
      tasks = tasks * emit(plan_.rows[i].extent);
    channels_ = emit(plan_.batch[0].extent);
    builder_.task("t", tasks, [&](Expr task) {
      VarMap vars;
      Expr rest = task;
      for (size_t i = plan_.rows.size() - 1; i-- > 0;) {
        Expr extent = emit(plan_.rows[i].extent);
        vars[plan_.rows[i].var] = builder_.let("p", i == 0 ? rest : floor_mod(rest, extent));
        if (i > 0)
          rest = floor_div(rest, extent);
      }
      vars[plan_.col.var] = number(0);
      emit_tiles(vars);
    });
    frame_.finish(lowered);
  }

private:
  struct Run { ///< tiles of one height, one after the other
    int64_t start, height, count;
    bool is_inside; ///< no tap of theirs is outside
  };

  ExprContext &context() { return frame_.context(); }
  Buffer *temporary(const ContractionOperand &operand) {
    Buffer *buffer = frame_.temporary(operand.source.index, operand.dtype, false);
    buffer->is_unaliased = true;
    buffer->alignment = 64;
    return buffer;
  }
  Expr emit(Expr e, const VarMap &vars = {}) { return frame_.emit(e, vars); }
  Expr number(int64_t value) { return context().integer(value); }

  /// Whether tap `tap` of output place `place` on the last axis is a place of the input.
  bool is_inside(int64_t place, int64_t tap) const {
    const ContractionWindow &window = plan_.windows.back();
    int64_t at = place * window.stride + tap * window.dilation - window.lower;
    return at >= 0 && at < *window.size.constant();
  }

  std::vector<Run> runs() const {
    int64_t extent = *plan_.rows.back().extent.constant(), taps = *plan_.windows.back().tap.extent.constant();
    int64_t tiles = (extent + schedule_.rows - 1) / schedule_.rows;
    std::vector<Run> runs;
    for (int64_t tile = 0, start = 0; tile < tiles; ++tile) {
      int64_t height = extent / tiles + (tile < extent % tiles ? 1 : 0);
      bool inside = is_inside(start, 0) && is_inside(start + height - 1, taps - 1) && is_inside(start, taps - 1) &&
                    is_inside(start + height - 1, 0);
      if (!runs.empty() && inside && runs.back().is_inside && runs.back().height == height)
        ++runs.back().count;
      else
        runs.push_back({start, height, 1, inside});
      start += height;
    }
    return runs;
  }

  void emit_tiles(const VarMap &vars) {
    for (const Run &run : runs()) {
      if (run.count == 1)
        emit_channels(vars, run, number(run.start));
      else
        builder_.serial("x", number(run.start), number(run.count * run.height), run.height,
                        [&](Expr first) { emit_channels(vars, run, first); });
    }
  }

  void emit_channels(const VarMap &vars, const Run &run, Expr first) {
    builder_.serial("c", number(0), channels_, schedule_.width, [&](Expr channel) {
      Expr lanes = min(number(schedule_.width), channels_ - channel);
      Buffer *acc = builder_.registers("acc", plan_.accumulator, run.height * schedule_.width);
      builder_.unroll("u", run.height, [&](Expr row) {
        builder_.vector("v", number(schedule_.width), schedule_.width, [&](Expr lane) {
          builder_.store(acc, row * schedule_.width + lane, context().constant(0, plan_.accumulator));
        });
      });
      VarMap inner = vars;
      emit_taps(inner, 0, run, first, channel, lanes, acc);
      builder_.unroll("u", run.height, [&](Expr row) {
        builder_.vector("v", lanes, schedule_.width, [&](Expr lane) {
          VarMap all = vars;
          all[plan_.rows.back().var] = first + row;
          all[plan_.batch[0].var] = channel + lane;
          all[plan_.value] = cast(context().load(acc, row * schedule_.width + lane), plan_.value->dtype);
          for (const auto &check : plan_.checks)
            builder_.check(emit(check.condition, all), check.status);
          for (const auto &root : plan_.roots)
            builder_.store(frame_.result(root.result), emit(root.store_index, all), emit(root.element, all));
        });
      });
    });
  }

  /// Taps of the windows from `axis` on.
  void emit_taps(VarMap &vars, size_t axis, const Run &run, Expr first, Expr channel, Expr lanes, Buffer *acc) {
    const ContractionWindow &window = plan_.windows[axis];
    if (axis + 1 == plan_.windows.size()) {
      for (int64_t tap = 0; tap < *window.tap.extent.constant(); ++tap) {
        vars[window.tap.var] = number(tap);
        emit_tap(vars, tap, run, first, channel, lanes, acc);
      }
      return;
    }
    Expr taps = emit(window.tap.extent), size = emit(window.size);
    Expr moved = place_of(vars, window.out) * window.stride - window.lower; // of tap 0
    Expr begin = floor_div(max(number(0), number(window.dilation - 1) - moved), window.dilation);
    Expr end = min(taps, floor_div(size - moved + (window.dilation - 1), window.dilation));
    begin = builder_.let("first", min(begin, taps));
    Expr count = builder_.let("taps", max(number(0), end - begin));
    builder_.serial("t", begin, count, 1, [&](Expr tap) {
      vars[window.tap.var] = tap;
      emit_taps(vars, axis + 1, run, first, channel, lanes, acc);
    });
  }

  static Expr place_of(const VarMap &vars, const ContractionAxis &axis) { return vars.at(axis.var); }

  void emit_tap(const VarMap &vars, int64_t tap, const Run &run, Expr first, Expr channel, Expr lanes, Buffer *acc) {
    auto start = first.constant();
    builder_.vector("v", lanes, schedule_.width, [&](Expr lane) {
      VarMap all = vars;
      all[plan_.batch[0].var] = channel + lane;
      Expr weight = builder_.let("w", cast(context().load(b_, emit(plan_.b.flat, all)), plan_.accumulator));
      for (int64_t row = 0; row < run.height; ++row) {
        if (!run.is_inside && !is_inside(*start + row, tap))
          continue;
        all[plan_.rows.back().var] = first + row;
        Expr x = cast(context().load(a_, emit(plan_.a.flat, all)), plan_.accumulator);
        Expr at = lane + row * schedule_.width, sum = context().load(acc, at);
        bool fuses = is_float(plan_.accumulator);
        builder_.store(acc, at,
                       fuses                        ? fma(x, weight, sum)
                       : is_bool(plan_.accumulator) ? sum || (x && weight)
                                                    : x * weight + sum);
      }
    });
  }

  const ContractionPlan &plan_;
  const ContractionSchedule &schedule_;
  KernelFrame frame_;
  loop::Builder &builder_;
  Buffer *a_ = nullptr, *b_ = nullptr;
  Expr channels_;
};

} // namespace

void emit_channels(const graph::Node &group, const Evaluator &evaluator, const ContractionPlan &plan,
                   const ContractionSchedule &schedule, LoweredGroup &lowered) {
  ChannelsEmitter(group, evaluator, plan, schedule).run(lowered);
}

} // namespace oxyfuel
