// The way of a contraction group: analysis, schedule, kernels.
#include "passes/lower/contraction.h"

#include "passes/graph/strided.h"

namespace oxyfuel {
namespace {

int64_t hint(Expr extent) { return std::max<int64_t>(0, hint_of(extent).value_or(64)); }

std::optional<int64_t> constant_stride(Expr flat, const Var *var) {
  if (flat.is_empty())
    return {};
  std::optional<Expr> stride = graph::stride_along(flat, var);
  return stride ? stride->constant() : std::nullopt;
}

ContractionProblem describe(const ContractionPlan &plan) {
  ContractionProblem problem;
  for (const ContractionAxis &axis : plan.batch) {
    problem.batches *= hint(axis.extent);
    for (Expr e : plan.b.index)
      problem.is_b_shared = problem.is_b_shared && !depends_on(e, axis.var);
  }
  for (size_t i = 0; i + 1 < plan.rows.size(); ++i)
    problem.outer_rows *= hint(plan.rows[i].extent);
  for (size_t i = 0; i + 1 < plan.depth.size(); ++i)
    problem.outer_depth *= hint(plan.depth[i].extent);
  problem.rows = hint(plan.rows.back().extent);
  problem.cols = hint(plan.col.extent);
  problem.depth = hint(plan.depth.back().extent);
  problem.has_static_rows = plan.rows.back().extent.constant().has_value();
  problem.is_packed_ahead = plan.b.is_static;
  problem.can_read_b = !plan.b.flat.is_empty();
  problem.a_depth_stride = constant_stride(plan.a.flat, plan.depth.back().var);
  problem.a_row_stride = constant_stride(plan.a.flat, plan.rows.back().var);
  problem.b_depth_stride = constant_stride(plan.b.flat, plan.depth.back().var);
  problem.b_col_stride = constant_stride(plan.b.flat, plan.col.var);
  problem.element_bytes = static_cast<int>(size_of(plan.b.dtype));
  problem.accumulator_bytes = static_cast<int>(size_of(plan.accumulator));
  problem.is_bfloat16 = plan.a.dtype == DType::kBF16 && plan.b.dtype == DType::kBF16 && plan.accumulator == DType::kF32;
  problem.is_plain = plan.is_plain();
  problem.is_channelwise = !plan.windows.empty();
  return problem;
}

} // namespace

bool ContractionPlan::is_plain() const {
  auto is_real = [](DType dtype) { return !is_complex(dtype) && !is_bool(dtype); };
  return is_real(accumulator) && is_real(a.dtype) && is_real(b.dtype);
}

LoweredGroup lower_contraction_as(const graph::Node &group, const Machine &machine,
                                  const std::optional<ContractionSchedule> &wanted) {
  LoweredGroup lowered;
  Evaluator evaluator(region_of(group));
  ContractionPlan plan = analyse_contraction(group, evaluator, lowered);
  ContractionSchedule schedule;
  auto decide = [&] { schedule = wanted ? *wanted : choose(describe(plan), machine); };
  if (!plan.windows.empty()) {
    decide();
    for (const ContractionCopy &copy : plan.copies)
      emit_copy(group, evaluator, copy, machine, lowered);
    emit_channels(group, evaluator, plan, schedule, lowered);
    lowered.schedule = schedule.text();
    return lowered;
  }
  merge_row_axes(plan);
  decide();
  bool is_packed = schedule.kind == ContractionSchedule::Kind::kPacked;
  merge_depth_axes(plan, is_packed);
  if (is_packed)
    decide(); // runs of depth are longer now
  for (const ContractionCopy &copy : plan.copies)
    emit_copy(group, evaluator, copy, machine, lowered);
  if (is_packed)
    emit_pack(group, evaluator, plan, schedule, machine, lowered);
  emit_contraction(group, evaluator, plan, schedule, lowered);
  lowered.schedule = schedule.text();
  return lowered;
}

LoweredGroup lower_contraction(const graph::Node &group, const Machine &machine) {
  return lower_contraction_as(group, machine, std::nullopt);
}

} // namespace oxyfuel
