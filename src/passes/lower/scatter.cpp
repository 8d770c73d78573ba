// Scatters: a copy of the base, then the updates in their order.
//
// Places that several updates share are combined in the order of the updates, so nothing that may meet runs in
// parallel: the axes along which places are computed are serial loops, the others tasks and lanes.
#include <algorithm>

#include "ops/op.h"
#include "ops/shape.h"
#include "passes/lower/tasks.h"
#include "runtime/abi.h"
#include "support/error.h"

namespace oxyfuel {

namespace {

using VarMap = KernelFrame::VarMap;
using Index = std::vector<Expr>;

/// How an update meets what lies there, in the type that eager computes in.
Expr combine(const std::string &mode, Expr old, Expr update) {
  if (mode == "set")
    return update;
  DType type = old.dtype(), wide = opmath_of(type);
  if (wide != type)
    return cast(combine(mode, cast(old, wide), cast(update, wide)), type);
  bool is_flag = is_bool(type);
  if (mode == "add" || mode == "sum")
    return is_flag ? old || update : old + update;
  if (mode == "mul" || mode == "prod")
    return is_flag ? old && update : old * update;
  if (mode != "max" && mode != "min")
    throw UnsupportedError("scatter of mode " + mode);
  bool is_max = mode == "max";
  if (is_flag)
    return is_max ? old || update : old && update;
  // NaN wins.
  Expr takes = is_max ? old < update : update < old;
  if (is_float(type))
    takes = takes || is_nan(update);
  return select(takes, update, old);
}

class ScatterLowering {
public:
  ScatterLowering(const graph::Node &group, const Machine &machine)
      : group_(group), region_(region_of(group)), machine_(machine), anchor_(anchor_of(group, OpKind::kScatter)),
        node_(*anchor_.node), context_(const_cast<graph::Graph &>(region_).context()), evaluator_(region_),
        result_(*group.result(anchor_.result(0))), strides_(strides_of(context_, result_.type, result_.layout)) {}

  LoweredGroup run() {
    LoweredGroup lowered;
    copy_base(lowered);
    if (node_.op->name == "scatter")
      scatter(lowered);
    else if (node_.op->name == "index_put")
      index_put(lowered);
    else if (node_.op->name == "slice_scatter")
      slice_scatter(lowered);
    else
      throw UnsupportedError(std::string(node_.op->name) + " has no lowering");
    mark_base_copy(lowered);
    lowered.schedule = "scatter {" + schedule_ + "}";
    return lowered;
  }

private:
  const graph::Value *base() const { return node_.operands[0]; }
  const graph::Type &base_type() const { return base()->type; }

  Expr read(const graph::Value *value, const Index &index) { return evaluator_.element(value, index); }

  /// The result's strides along the given axes, for the choice of lanes; `axes[i]`: the result's axis, or -1.
  std::vector<Expr> strides_along(const std::vector<int> &axes) {
    std::vector<Expr> strides;
    for (int axis : axes)
      strides.push_back(axis < 0 ? context_.integer(0) : strides_[axis]);
    return strides;
  }

  void copy_base(LoweredGroup &lowered) {
    KernelFrame frame(group_, "copy_base");
    frame.use_inputs(evaluator_);
    TaskAxes axes;
    Expr value, place;
    if (has_same_memory() && result_.layout.strides.empty() && base()->layout.strides.empty() &&
        result_.type.rank() > 0) {
      Expr flat = axes.add(context_, graph::element_count(context_, result_.type.shape));
      value = context_.load(evaluator_.input_buffer(base()->index), flat);
      place = flat;
      axes.choose_lanes(std::vector<Expr>(axes.vars.size(), context_.integer(1)), bytes(), machine_);
    } else {
      Index index;
      std::vector<int> axis_of;
      for (int i = 0; i < result_.type.rank(); ++i) {
        index.push_back(axes.add(context_, result_.type.shape[i]));
        if (!index.back().is_const())
          axis_of.push_back(i);
      }
      axes.choose_lanes(strides_along(axis_of), bytes(), machine_);
      value = read(base(), index);
      place = flat_index(context_, result_.type, result_.layout, index);
    }
    axes.vectors *= 2;
    std::vector<Evaluator::Check> checks = evaluator_.take_checks();
    Buffer *out = frame.result(anchor_.result(0));
    frame.kernel().grain = grain_of(2 * axes.vectors);
    run_tasks(frame, axes, [&](const VarMap &vars, const LaneBlock &block) {
      each_lane(frame, axes, vars, block, [&](const VarMap &at, Expr) {
        emit_checks(frame, checks, at);
        frame.builder().store(out, frame.emit(place, at), frame.emit(value, at));
      });
    });
    frame.finish(lowered);
  }

  int64_t bytes() const { return static_cast<int64_t>(size_of(result_.type.dtype)); }

  /// Base and result lie alike, so that the result may take the base's memory.
  bool has_same_memory() {
    if (base()->producer || base()->type.dtype != result_.type.dtype)
      return false;
    std::vector<Expr> strides = strides_of(context_, base_type(), base()->layout);
    for (size_t i = 0; i < strides.size(); ++i)
      if (!result_.type.shape[i].is_const(1) && !always_equal(strides[i], strides_[i]))
        return false;
    auto has_offset = [](const graph::Layout &layout) { return layout.offset && !layout.offset.is_const(0); };
    return !has_offset(base()->layout) && !has_offset(result_.layout);
  }

  /// The copy may be dropped when the updates themselves do not read the base.
  void mark_base_copy(LoweredGroup &lowered) {
    if (!has_same_memory())
      return;
    for (const BufferReference &buffer : lowered.calls[1].buffers)
      if (buffer.kind == BufferReference::Kind::kOperand && buffer.index == base()->index)
        return;
    lowered.calls[0].is_base_copy = true;
  }

  static void emit_checks(KernelFrame &frame, const std::vector<Evaluator::Check> &checks, const VarMap &vars) {
    for (const auto &check : checks)
      frame.builder().check(frame.emit(check.condition, vars), check.status);
  }

  /// What one kernel of updates does: tasks over `axes`, in each of them all `serial` axes in order.
  struct Updates {
    TaskAxes axes, serial;
    Expr place;     ///< flat, in the result
    Expr condition; ///< of the places; empty: none
    Expr update;    ///< of the result's type
    std::string mode;
  };

  void emit(const Updates &updates, LoweredGroup &lowered) {
    KernelFrame frame(group_, std::string(node_.op->name));
    frame.use_inputs(evaluator_);
    std::vector<Evaluator::Check> checks = evaluator_.take_checks();
    if (updates.condition)
      checks.push_back({updates.condition, kOxyfuelIndexOutOfRange});
    const Var *lane = updates.axes.lane_axis < 0 ? nullptr : updates.axes.vars[updates.axes.lane_axis];
    auto varies = std::stable_partition(checks.begin(), checks.end(), [&](const Evaluator::Check &check) {
      return !lane || !depends_on(check.condition, lane);
    });
    std::vector<Evaluator::Check> uniform(checks.begin(), varies);
    checks.erase(checks.begin(), varies);
    Buffer *out = frame.result(anchor_.result(0));
    out->kind = Buffer::Kind::kInOut;
    loop::Builder &b = frame.builder();
    int64_t turns = 1;
    for (Expr extent : updates.serial.extents)
      turns *= std::max<int64_t>(1, hint_of(extent).value_or(16));
    frame.kernel().grain = grain_of(turns * updates.axes.vectors * 4);
    run_tasks(frame, updates.axes, [&](const VarMap &vars, const LaneBlock &block) {
      serial_loops(frame, updates.serial, 0, vars, [&](const VarMap &inner) {
        emit_checks(frame, uniform, inner);
        each_lane(frame, updates.axes, inner, block, [&](const VarMap &at, Expr) {
          emit_checks(frame, checks, at);
          Expr place = b.let("place", frame.emit(updates.place, at)), value = frame.emit(updates.update, at);
          if (updates.mode != "set")
            value = combine(updates.mode, frame.context().load(out, place), value);
          b.store(out, place, value);
        });
      });
    });
    schedule_ = "width = " + std::to_string(updates.axes.width) +
                ", vectors = " + std::to_string(updates.axes.vectors) +
                ", serial = " + std::to_string(updates.serial.vars.size());
    frame.finish(lowered);
  }

  void serial_loops(KernelFrame &frame, const TaskAxes &serial, size_t depth, const VarMap &vars,
                    const std::function<void(const VarMap &)> &f) {
    if (depth == serial.vars.size()) {
      f(vars);
      return;
    }
    Expr extent = frame.emit(serial.extents[depth]);
    frame.builder().serial("s", frame.context().integer(0), extent, 1, [&](Expr place) {
      VarMap inner = vars;
      inner[serial.vars[depth]] = place;
      serial_loops(frame, serial, depth + 1, inner, f);
    });
  }

  Expr as_result(Expr value) { return value.dtype() == result_.type.dtype ? value : cast(value, result_.type.dtype); }

  void scatter(LoweredGroup &lowered) {
    const graph::Value *places = node_.operands[1], *update = node_.operands[2];
    int64_t axis = node_.get<int64_t>("axis");
    Updates updates;
    updates.mode = node_.get_or<std::string>("mode", "set");
    Index index;
    std::vector<int> axis_of;
    for (int i = 0; i < places->type.rank(); ++i) {
      bool is_serial = i == axis;
      index.push_back((is_serial ? updates.serial : updates.axes).add(context_, places->type.shape[i]));
      if (!is_serial && !index.back().is_const())
        axis_of.push_back(i);
    }
    int64_t widest = std::max<int64_t>(bytes(), 4);
    updates.axes.choose_lanes(strides_along(axis_of), widest, machine_);
    ReadOperand reader = [&](int operand, std::span<const Expr> at, Expr mask) {
      return evaluator_.element(node_.operands[operand], at, mask);
    };
    updates.condition = check_of(context_, node_, index, reader);
    Index to = index;
    if (!to.empty()) // rank 0 has one place
      to[axis] = cast(read(places, index), DType::kI64);
    updates.place = flat_index(context_, result_.type, result_.layout, to);
    updates.update = as_result(read(update, broadcast_index(update->type.shape, index)));
    emit(updates, lowered);
  }

  /// The axes of values (broadcast): those of the places, which run in order, stand where the first indexed axis is
  /// when the indexed axes are side by side, else in front.
  void index_put(LoweredGroup &lowered) {
    const graph::Value *values = node_.operands[1];
    auto indexed = [&](int axis) {
      size_t operand = static_cast<size_t>(axis) + 2;
      return operand < node_.operands.size() ? node_.operands[operand] : nullptr;
    };
    int rank = base_type().rank(), first = -1, last = -1;
    bool is_split = false;
    Shape common;
    for (int axis = 0; axis < rank; ++axis)
      if (const graph::Value *places = indexed(axis)) {
        common = broadcast(common, places->type.shape);
        is_split = is_split || (first >= 0 && last + 1 != axis);
        first = first < 0 ? axis : first;
        last = axis;
      }
    Updates updates;
    updates.mode = node_.get_or<bool>("accumulate", false) ? "add" : "set";
    Index shared, to(rank), index;
    for (Expr extent : common)
      shared.push_back(updates.serial.add(context_, extent));
    std::vector<int> axis_of;
    for (int axis = 0; axis < rank; ++axis) {
      if (indexed(axis))
        continue;
      to[axis] = updates.axes.add(context_, base_type().shape[axis]);
      index.push_back(to[axis]);
      if (!to[axis].is_const())
        axis_of.push_back(axis);
    }
    updates.axes.choose_lanes(strides_along(axis_of), std::max<int64_t>(bytes(), 4), machine_);
    index.insert(index.begin() + (is_split || first < 0 ? 0 : first), shared.begin(), shared.end());
    Expr condition = context_.boolean(true);
    for (int axis = 0; axis < rank; ++axis)
      if (const graph::Value *places = indexed(axis)) {
        Expr place = read(places, broadcast_index(places->type.shape, shared)), size = base_type().shape[axis];
        condition = condition && index_in_range(place, size);
        to[axis] = wrap_index(place, size);
      }
    updates.condition = condition;
    updates.place = flat_index(context_, result_.type, result_.layout, to);
    updates.update = as_result(read(values, broadcast_index(values->type.shape, index)));
    emit(updates, lowered);
  }

  void slice_scatter(LoweredGroup &lowered) {
    const graph::Value *update = node_.operands[1];
    int64_t axis = node_.get<int64_t>("axis"), step = node_.get_or<int64_t>("step", 1);
    Updates updates;
    updates.mode = "set";
    Index index;
    std::vector<Expr> strides;
    for (int i = 0; i < update->type.rank(); ++i) {
      index.push_back(updates.axes.add(context_, update->type.shape[i]));
      if (!index.back().is_const())
        strides.push_back(i == axis ? strides_[i] * step : strides_[i]);
    }
    updates.axes.choose_lanes(strides, bytes(), machine_);
    Index to = index;
    to[axis] = size_attribute(node_, "start", context_) + index[axis] * step;
    updates.place = flat_index(context_, result_.type, result_.layout, to);
    updates.update = as_result(read(update, index));
    emit(updates, lowered);
  }

  const graph::Node &group_;
  const graph::Graph &region_;
  const Machine &machine_;
  Anchor anchor_;
  const graph::Node &node_;
  ExprContext &context_;
  Evaluator evaluator_;
  const graph::Value &result_;
  std::vector<Expr> strides_;
  std::string schedule_;
};

} // namespace

LoweredGroup lower_scatter(const graph::Node &group, const Machine &machine) {
  return ScatterLowering(group, machine).run();
}

} // namespace oxyfuel
