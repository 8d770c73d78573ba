// Brings matmul and convolution into the form of contraction.h.
#include <algorithm>
#include <numeric>

#include "ops/op.h"
#include "ops/shape.h"
#include "passes/graph/strided.h"
#include "passes/lower/contraction.h"
#include "support/error.h"

namespace oxyfuel {
namespace {

class Analysis {
public:
  Analysis(const graph::Node &group, Evaluator &evaluator, LoweredGroup &lowered)
      : group_(group), region_(region_of(group)), context_(const_cast<graph::Graph &>(region_).context()),
        evaluator_(evaluator), lowered_(lowered) {}

  ContractionPlan run() {
    for (const auto &node : region_.nodes())
      if (node->op->kind == OpKind::kContraction)
        plan_.node = node.get();
    OXYFUEL_CHECK(plan_.node, "a contraction group without a contraction");
    const graph::Value *result = plan_.node->result();
    plan_.accumulator = plan_.node->get_or<DType>("accumulator", opmath_of(result->type.dtype));
    if (plan_.node->op->name == "matmul")
      matmul();
    else
      convolution();
    find_roots();
    return std::move(plan_);
  }

private:
  ContractionAxis axis(const std::string &name, Expr extent) {
    ContractionAxis axis{extent, context_.new_var(name, DType::kI64, 0, extent.constant())};
    axis.var->upper_expr = extent.node();
    return axis;
  }
  static Expr place(const ContractionAxis &axis) {
    return axis.extent.is_const(1) ? axis.extent.context().integer(0) : axis.place();
  }

  /// Where `value` lies, when it is affine in the axes and in memory.
  ContractionOperand operand(const graph::Value *value, std::vector<Expr> index) {
    ContractionOperand operand;
    operand.value = value;
    operand.index = std::move(index);
    operand.dtype = value->type.dtype;
    auto view = graph::as_strided(context_, const_cast<graph::Value *>(value));
    operand.is_static = graph::view_base(const_cast<graph::Value *>(value))->is_static;
    if (!view || view->base->producer)
      return operand;
    operand.source = {BufferReference::Kind::kOperand, view->base->index};
    operand.flat = view->offset;
    for (size_t i = 0; i < operand.index.size(); ++i)
      operand.flat = operand.flat + operand.index[i] * view->strides[i];
    return operand;
  }

  /// Makes operand's elements lie in a temporary of that shape; `order` from the outermost dimension in. `element` is
  /// given the index in the temporary; `place` is the index that the operand reads at the axes.
  void copy(ContractionOperand &operand, const char *name, const std::vector<Expr> &shape,
            const std::vector<int> &order, const std::function<Expr(const std::vector<Expr> &)> &element,
            const std::vector<Expr> &place) {
    ContractionCopy copy;
    copy.name = name;
    copy.dtype = operand.dtype;
    copy.is_static = operand.is_static;
    copy.temporary = static_cast<int>(lowered_.temporaries.size());
    std::vector<Expr> index(shape.size());
    for (int dimension : order) {
      copy.axes.push_back(axis("x" + std::to_string(dimension), shape[dimension]));
      index[dimension] = Analysis::place(copy.axes.back());
    }
    copy.element = element(index);
    Temporary temporary;
    temporary.dtype = operand.dtype;
    temporary.elements = graph::element_count(context_, shape);
    temporary.is_bound = operand.is_static;
    lowered_.temporaries.push_back(std::move(temporary));
    operand.source = {BufferReference::Kind::kTemporary, copy.temporary};
    std::vector<Expr> strides = graph::ordered_strides(context_, shape, order);
    operand.flat = context_.integer(0);
    for (size_t i = 0; i < shape.size(); ++i)
      if (!shape[i].is_const(1))
        operand.flat = operand.flat + place[i] * strides[i];
    plan_.copies.push_back(std::move(copy));
  }

  void matmul() {
    const graph::Value *a = plan_.node->operands[0], *b = plan_.node->operands[1];
    const std::vector<Expr> &shape = plan_.node->result()->type.shape;
    size_t rank = shape.size();
    std::vector<Expr> index_a, index_b;
    for (size_t i = 0; i + 2 < rank; ++i) {
      plan_.batch.push_back(axis("b" + std::to_string(i), shape[i]));
      plan_.index.push_back(place(plan_.batch.back()));
    }
    index_a = index_b = plan_.index;
    plan_.rows.push_back(axis("m", shape[rank - 2]));
    plan_.col = axis("n", shape[rank - 1]);
    Expr depth = a->type.shape[rank - 1].constant() ? a->type.shape[rank - 1] : b->type.shape[rank - 2];
    plan_.depth.push_back(axis("k", depth));
    plan_.index.push_back(place(plan_.rows[0]));
    plan_.index.push_back(place(plan_.col));
    index_a.push_back(place(plan_.rows[0]));
    index_a.push_back(place(plan_.depth[0]));
    index_b.push_back(place(plan_.depth[0]));
    index_b.push_back(place(plan_.col));
    plan_.a = operand(a, index_a);
    plan_.b = operand(b, index_b);
    if (plan_.a.flat.is_empty()) {
      std::vector<int> order(rank);
      std::iota(order.begin(), order.end(), 0);
      copy(
          plan_.a, "copy", a->type.shape, order, [&](const std::vector<Expr> &at) { return evaluator_.element(a, at); },
          index_a);
    }
  }

  /// Dimensions of a value from the outermost in memory in: by stride, as far as known.
  std::vector<int> memory_order(const graph::Value *value) {
    std::vector<int> order(static_cast<size_t>(value->type.rank()));
    std::iota(order.begin(), order.end(), 0);
    auto view = graph::as_strided(context_, const_cast<graph::Value *>(value));
    if (!view)
      return order;
    std::vector<int64_t> strides;
    for (int i = 0; i < value->type.rank(); ++i) {
      bool is_single = value->type.shape[i].is_const(1);
      strides.push_back(is_single ? INT64_MAX : std::abs(hint_of(view->strides[i]).value_or(1)));
    }
    std::stable_sort(order.begin(), order.end(), [&](int x, int y) { return strides[x] > strides[y]; });
    return order;
  }

  /// The axes and places of a convolution; `at` is the place in the input before padding is taken off.
  struct Places {
    std::vector<Expr> at, extents; ///< in the padded input, and its sizes
    std::vector<Expr> weight;
  };

  Places convolution_axes() {
    const graph::Node &node = *plan_.node;
    const graph::Value *x = node.operands[0], *w = node.operands[1];
    const std::vector<Expr> &shape = node.result()->type.shape;
    const auto &stride = integers_attribute(node, "stride"), &padding = integers_attribute(node, "padding"),
               &dilation = integers_attribute(node, "dilation");
    bool is_transposed = node.get_or<bool>("transposed", false);
    int64_t groups = node.get_or<int64_t>("groups", 1);
    Expr group_inputs = floor_div(x->type.shape[1], groups), group_outputs = floor_div(shape[1], groups);

    ContractionAxis group = axis("g", context_.integer(groups)), batch = axis("n", shape[0]);
    ContractionAxis channel = axis("c", group_inputs);
    plan_.col = axis("o", group_outputs);
    if (groups > 1)
      plan_.batch.push_back(group);
    plan_.rows.push_back(batch);
    plan_.depth.push_back(channel);
    Expr input_channel = place(group) * group_inputs + place(channel);
    plan_.index = {place(batch), place(group) * group_outputs + place(plan_.col)};
    Places places;
    places.weight = {plan_.index[1], place(channel)};
    if (is_transposed)
      places.weight = {input_channel, place(plan_.col)};
    places.at = {place(batch), input_channel};
    places.extents = {x->type.shape[0], x->type.shape[1]};
    for (size_t i = 0; i < stride.size(); ++i) {
      ContractionWindow window{axis("y" + std::to_string(i), shape[i + 2]),
                               axis("t" + std::to_string(i), w->type.shape[i + 2]), x->type.shape[i + 2]};
      window.stride = is_transposed ? 1 : stride[i];
      window.dilation = dilation[i];
      window.spread = is_transposed ? stride[i] : 1;
      window.lower = padding[i];
      Expr reach = (window.tap.extent - 1) * dilation[i];
      if (is_transposed) {
        auto known = reach.constant();
        if (!known)
          throw UnsupportedError("a transposed convolution whose kernel size is not known");
        window.lower = *known - padding[i];
      }
      Expr tap = place(window.tap);
      plan_.rows.push_back(window.out);
      plan_.depth.push_back(window.tap);
      plan_.index.push_back(place(window.out));
      places.at.push_back(place(window.out) * window.stride + tap * dilation[i]);
      places.extents.push_back((window.out.extent - 1) * window.stride + reach + 1);
      places.weight.push_back(is_transposed ? window.tap.extent - 1 - tap : tap);
      plan_.windows.push_back(window);
    }
    return places;
  }

  void convolution() {
    Places places = convolution_axes();
    const graph::Value *x = plan_.node->operands[0], *w = plan_.node->operands[1];
    bool is_transposed = plan_.node->get_or<bool>("transposed", false);
    if (!is_transposed && channelwise(places))
      return;
    plan_.a = operand(x, places.at);
    plan_.b = operand(w, places.weight);
    // A convolution without padding never reads past the end.
    auto is_zero = [](int64_t amount) { return amount == 0; };
    const auto &padding = integers_attribute(*plan_.node, "padding");
    auto padding_end = plan_.node->get_or<std::vector<int64_t>>("padding_end", padding);
    bool is_inside = !is_transposed && std::all_of(padding.begin(), padding.end(), is_zero) &&
                     std::all_of(padding_end.begin(), padding_end.end(), is_zero);
    if (!is_inside || plan_.a.flat.is_empty())
      copy(
          plan_.a, "pad", places.extents, memory_order(x),
          [&](const std::vector<Expr> &index) { return padded_input(x, index); }, places.at);
    plan_.windows.clear();
    order_depth();
  }

  /// Element `index` of the input with zeros around it and between its elements.
  Expr padded_input(const graph::Value *x, const std::vector<Expr> &index) {
    std::vector<Expr> from = {index[0], index[1]};
    Expr inside = context_.boolean(true);
    for (size_t i = 0; i < plan_.windows.size(); ++i) {
      const ContractionWindow &window = plan_.windows[i];
      Expr moved = index[i + 2] - window.lower;
      if (window.lower > 0)
        inside = inside && context_.integer(0) <= moved;
      inside = inside && moved < (window.size - 1) * window.spread + 1;
      if (window.spread > 1)
        inside = inside && eq(floor_mod(moved, window.spread), context_.integer(0));
      from.push_back(floor_div(moved, window.spread));
    }
    Expr read = evaluator_.element(x, from, inside);
    bool is_load = !graph::view_base(const_cast<graph::Value *>(x))->producer;
    return is_load || inside.is_const() ? read : select(inside, read, read.like(0));
  }

  /// One channel in and out a group: lanes run along the groups, and borders are left out of the sum where they are
  /// met, without a padded copy. False when it is not of that kind.
  bool channelwise(const Places &places) {
    const graph::Value *x = plan_.node->operands[0], *w = plan_.node->operands[1];
    if (plan_.batch.empty() || !plan_.col.extent.is_const(1) || !plan_.depth[0].extent.is_const(1))
      return false;
    const ContractionWindow &last = plan_.windows.back();
    if (!last.out.extent.constant() || !last.size.constant())
      return false;
    for (const ContractionWindow &window : plan_.windows)
      if (!window.tap.extent.constant() || *window.tap.extent.constant() > 16)
        return false;
    std::vector<Expr> at = places.at;
    for (size_t i = 0; i < plan_.windows.size(); ++i)
      at[i + 2] = at[i + 2] - plan_.windows[i].lower;
    plan_.a = operand(x, at);
    plan_.b = operand(w, places.weight);
    if (plan_.a.flat.is_empty() || graph::stride_along(plan_.a.flat, plan_.batch[0].var) != context_.integer(1)) {
      // Channels apart in memory are brought together first.
      std::vector<int> order(x->type.shape.size());
      std::iota(order.begin(), order.end(), 0);
      std::rotate(order.begin() + 1, order.begin() + 2, order.end());
      copy(
          plan_.a, "turn", x->type.shape, order,
          [&](const std::vector<Expr> &index) { return evaluator_.element(x, index); }, at);
    }
    plan_.depth.erase(plan_.depth.begin());
    std::vector<Expr> shape, place;
    for (const ContractionWindow &window : plan_.windows) {
      shape.push_back(window.tap.extent);
      place.push_back(window.tap.place());
    }
    shape.push_back(plan_.batch[0].extent);
    place.push_back(plan_.batch[0].place());
    std::vector<int> order(shape.size());
    std::iota(order.begin(), order.end(), 0);
    copy(
        plan_.b, "pack", shape, order,
        [&](const std::vector<Expr> &index) {
          std::vector<Expr> from = {index.back(), context_.integer(0)};
          from.insert(from.end(), index.begin(), index.end() - 1);
          return evaluator_.element(w, from);
        },
        place);
    return true;
  }

  /// The innermost depth axis: the one along which A is contiguous if it is long, else the longest.
  void order_depth() {
    auto weight = [&](const ContractionAxis &axis) {
      int64_t extent = hint_of(axis.extent).value_or(1);
      auto stride = graph::stride_along(plan_.a.flat, axis.var);
      return extent + (stride && stride->is_const(1) && extent >= 4 ? 16 : 0);
    };
    auto inner = std::max_element(plan_.depth.begin(), plan_.depth.end(),
                                  [&](const auto &p, const auto &q) { return weight(p) < weight(q); });
    std::rotate(inner, inner + 1, plan_.depth.end());
  }

  void find_roots() {
    const graph::Value *value = plan_.node->result();
    plan_.value = context_.new_var("value", value->type.dtype);
    plan_.value->is_index = false;
    evaluator_.bind(value, nullptr, context_.var(plan_.value));
    Expr flat = flatten(plan_.index, value->type.shape);
    for (size_t i = 0; i < region_.outputs.size(); ++i) {
      const graph::Value *root = region_.outputs[i];
      bool is_same = root->type.shape.size() == value->type.shape.size();
      for (size_t d = 0; is_same && d < root->type.shape.size(); ++d)
        is_same = always_equal(root->type.shape[d], value->type.shape[d]);
      std::vector<Expr> index = is_same ? plan_.index : unflatten(flat, root->type.shape);
      const graph::Layout &layout = group_.result(static_cast<int>(i))->layout;
      Expr store =
          layout.strides.empty() && layout.offset.is_empty() ? flat : flat_index(context_, root->type, layout, index);
      plan_.roots.push_back({static_cast<int>(i), evaluator_.element(root, index), store});
    }
    plan_.checks = evaluator_.take_checks();
    evaluator_.unbind(value);
  }

  const graph::Node &group_;
  const graph::Graph &region_;
  ExprContext &context_;
  Evaluator &evaluator_;
  LoweredGroup &lowered_;
  ContractionPlan plan_;
};

/// `outer` and `inner` are one axis in all affine expressions that `f` visits.
bool is_one_axis(const ContractionAxis &outer, const ContractionAxis &inner, const std::vector<Expr> &places) {
  return std::all_of(places.begin(), places.end(), [&](Expr place) {
    auto s = graph::stride_along(place, outer.var), t = graph::stride_along(place, inner.var);
    return s && t && always_equal(*s, *t * inner.extent);
  });
}

/// Replaces the two axes by one: `affine` get it in place of the inner one, `others` by division.
ContractionAxis merge(const ContractionAxis &outer, const ContractionAxis &inner, const std::vector<Expr *> &affine,
                      const std::vector<Expr *> &others) {
  ExprContext &context = outer.extent.context();
  ContractionAxis merged{outer.extent * inner.extent, nullptr};
  merged.var = context.new_var(outer.var->name + inner.var->name, DType::kI64, 0, merged.extent.constant());
  merged.var->upper_expr = merged.extent.node();
  Expr place = merged.place();
  for (Expr *e : affine)
    *e = substitute(*e, {{outer.var, context.integer(0)}, {inner.var, place}});
  for (Expr *e : others)
    *e = substitute(*e, {{outer.var, floor_div(place, inner.extent)}, {inner.var, floor_mod(place, inner.extent)}});
  return merged;
}

/// Axes of one place, but for the last one when there is no other.
void drop_unit_axes(std::vector<ContractionAxis> &axes) {
  const ContractionAxis last = axes.back();
  std::erase_if(axes, [](const ContractionAxis &axis) { return axis.extent.is_const(1); });
  if (axes.empty())
    axes.push_back(last);
}

} // namespace

ContractionPlan analyse_contraction(const graph::Node &group, Evaluator &evaluator, LoweredGroup &lowered) {
  return Analysis(group, evaluator, lowered).run();
}

void merge_row_axes(ContractionPlan &plan) {
  drop_unit_axes(plan.rows);
  for (size_t i = plan.rows.size(); i-- > 1;) {
    std::vector<Expr *> affine = {&plan.a.flat}, others;
    for (auto &root : plan.roots) {
      affine.push_back(&root.store_index);
      others.push_back(&root.element);
    }
    for (auto &check : plan.checks)
      others.push_back(&check.condition);
    std::vector<Expr> places;
    for (Expr *e : affine)
      places.push_back(*e);
    if (!is_one_axis(plan.rows[i - 1], plan.rows[i], places))
      continue;
    plan.rows[i - 1] = merge(plan.rows[i - 1], plan.rows[i], affine, others);
    plan.rows.erase(plan.rows.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

void merge_depth_axes(ContractionPlan &plan, bool for_packed) {
  drop_unit_axes(plan.depth);
  for (size_t i = plan.depth.size(); i-- > 1;) {
    std::vector<Expr *> affine = {&plan.a.flat}, others;
    if (plan.b.flat)
      (for_packed ? others : affine).push_back(&plan.b.flat);
    for (Expr &e : plan.b.index)
      others.push_back(&e);
    std::vector<Expr> places;
    for (Expr *e : affine)
      places.push_back(*e);
    if (!is_one_axis(plan.depth[i - 1], plan.depth[i], places))
      continue;
    plan.depth[i - 1] = merge(plan.depth[i - 1], plan.depth[i], affine, others);
    plan.depth.erase(plan.depth.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

} // namespace oxyfuel
