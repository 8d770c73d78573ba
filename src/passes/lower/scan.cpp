// Scans: running folds along an axis, in order, as eager does them; the other axes are tasks and, where memory is
// contiguous along one of them, lanes.
#include <cmath>

#include "ops/op.h"
#include "passes/lower/tasks.h"
#include "support/error.h"

namespace oxyfuel {

namespace {

using VarMap = KernelFrame::VarMap;

enum class Mode : uint8_t { kSum, kProduct, kMax, kMin, kLogSumExp };

Mode mode_of(const graph::Node &node) {
  std::string mode = node.get_or<std::string>("mode", "sum");
  if (mode == "sum")
    return Mode::kSum;
  if (mode == "prod")
    return Mode::kProduct;
  if (mode == "logsumexp")
    return Mode::kLogSumExp;
  if (mode != "max" && mode != "min")
    throw UnsupportedError("scan of mode " + mode);
  return mode == "max" ? Mode::kMax : Mode::kMin;
}

/// ATen's acc_type on the CPU: sums of float32 run in float64, of the half types in float32.
DType accumulator_of(Mode mode, DType result) {
  if (mode == Mode::kMax || mode == Mode::kMin)
    return result;
  switch (result) {
  case DType::kF16:
  case DType::kBF16: return DType::kF32;
  case DType::kF32: return DType::kF64;
  case DType::kC64: return DType::kC128;
  default: return result;
  }
}

Expr start_value(Mode mode, ExprContext &context, DType type) {
  return context.constant(mode == Mode::kProduct ? 1 : mode == Mode::kLogSumExp ? -INFINITY : 0, type);
}

/// log(exp(a) + exp(b)), as ATen's _log_add_exp_helper.
Expr log_add_exp(Expr a, Expr b) {
  Expr least = select(is_nan(b), b, select(is_nan(a) || a < b, a, b));
  Expr most = select(is_nan(b), b, select(is_nan(a) || b < a, a, b));
  Expr is_equal_infinity = eq(least, most) && eq(abs(least), least.like(INFINITY));
  return select(is_equal_infinity, a, log1p(exp(least - most)) + most);
}

class ScanLowering {
public:
  ScanLowering(const graph::Node &group, const Machine &machine)
      : group_(group), region_(region_of(group)), anchor_(anchor_of(group, OpKind::kScan)), node_(*anchor_.node),
        context_(const_cast<graph::Graph &>(region_).context()), evaluator_(region_),
        result_(*group.result(anchor_.result(0))), mode_(mode_of(node_)), dtype_(node_.result()->type.dtype),
        type_(node_.get_or<DType>("accumulator", accumulator_of(mode_, dtype_))) {
    const graph::Type &shape = node_.operands[0]->type;
    int64_t axis = node_.get<int64_t>("axis");
    std::vector<Expr> strides = strides_of(context_, result_.type, result_.layout), along;
    for (int i = 0; i < shape.rank(); ++i) {
      bool is_scanned = i == axis;
      index_.push_back((is_scanned ? scanned_ : axes_).add(context_, shape.shape[i]));
      if (!is_scanned && !index_.back().is_const())
        along.push_back(strides[i]);
    }
    axes_.choose_lanes(along, static_cast<int64_t>(size_of(real_of(type_))), machine);
  }

  LoweredGroup run() {
    KernelFrame frame(group_, "scan");
    frame.use_inputs(evaluator_);
    Expr value = evaluator_.element(node_.operands[0], index_);
    value = value.dtype() == type_ ? value : cast(value, type_);
    std::vector<Evaluator::Check> checks = evaluator_.take_checks();
    Expr place = flat_index(context_, result_.type, result_.layout, index_);
    Buffer *out = frame.result(anchor_.result(0));

    loop::Builder &b = frame.builder();
    ExprContext &context = frame.context();
    int64_t length = scanned_.extents.empty() ? 1 : hint_of(scanned_.extents[0]).value_or(64);
    frame.kernel().grain = grain_of(length * axes_.vectors * (mode_ == Mode::kLogSumExp ? 60 : 6));
    run_tasks(frame, axes_, [&](const VarMap &vars, const LaneBlock &block) {
      Buffer *running = b.registers("running", type_, axes_.block());
      each_lane(frame, axes_, vars, block,
                [&](const VarMap &, Expr at) { b.store(running, at, start_value(mode_, context, type_)); });
      auto step = [&](const VarMap &outer, Expr turn) {
        each_lane(frame, axes_, outer, block, [&](const VarMap &lane, Expr at) {
          for (const auto &check : checks)
            b.check(frame.emit(check.condition, lane), check.status);
          Expr next = b.let("next", fold(context.load(running, at), b.let("x", frame.emit(value, lane)), turn));
          b.store(running, at, next);
          b.store(out, frame.emit(place, lane), next.dtype() == out->dtype ? next : cast(next, out->dtype));
        });
      };
      if (scanned_.vars.empty()) {
        step(vars, context.integer(0));
        return;
      }
      b.serial("s", context.integer(0), frame.emit(scanned_.extents[0]), 1, [&](Expr turn) {
        VarMap inner = vars;
        inner[scanned_.vars[0]] = turn;
        step(inner, turn);
      });
    });
    LoweredGroup lowered;
    lowered.schedule =
        "scan {width = " + std::to_string(axes_.width) + ", vectors = " + std::to_string(axes_.vectors) + "}";
    frame.finish(lowered);
    return lowered;
  }

private:
  Expr fold(Expr running, Expr element, Expr turn) const {
    switch (mode_) {
    case Mode::kSum: return running + element;
    case Mode::kProduct: return running * element;
    case Mode::kLogSumExp: return log_add_exp(element, running);
    default: return select(replaces(running, element) || eq(turn, turn.like(0)), element, running);
    }
  }

  /// Whether the candidate takes the place of the best so far: later equals do, and NaN stays.
  Expr replaces(Expr best, Expr candidate) const {
    if (is_bool(candidate.dtype()))
      return mode_ == Mode::kMax ? candidate || !best : best || !candidate;
    Expr takes = mode_ == Mode::kMax ? best <= candidate : candidate <= best;
    return is_float(type_) ? is_nan(candidate) || (!is_nan(best) && takes) : takes;
  }

  const graph::Node &group_;
  const graph::Graph &region_;
  Anchor anchor_;
  const graph::Node &node_;
  ExprContext &context_;
  Evaluator evaluator_;
  const graph::Value &result_;
  Mode mode_;
  DType dtype_, type_;
  TaskAxes axes_, scanned_;
  std::vector<Expr> index_;
};

} // namespace

LoweredGroup lower_scan(const graph::Node &group, const Machine &machine) { return ScanLowering(group, machine).run(); }

} // namespace oxyfuel
