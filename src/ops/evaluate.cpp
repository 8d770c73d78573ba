#include "ops/evaluate.h"

#include "support/error.h"

namespace oxyfuel {

Evaluation::Evaluation(Expr root, const FindVariable &variable, const FindMemory &memory) : root_(root) {
  add(root, variable, memory);
}

int Evaluation::add(Expr e, const FindVariable &variable, const FindMemory &memory) {
  if (auto at = places_.find(e.node()); at != places_.end())
    return at->second;
  Step step;
  step.expression = e;
  step.value = {};
  for (int i = 0; i < e->operand_count; ++i)
    step.operands[i] = add(e.operand(i), variable, memory);
  if (e.kind() == ExprKind::kVar)
    step.variable = variable(e.var());
  if (e.kind() == ExprKind::kLoad)
    step.memory = memory(e.buffer());
  steps_.push_back(step);
  int place = static_cast<int>(steps_.size()) - 1;
  places_[e.node()] = place;
  return place;
}

Scalar Evaluation::operator()() {
  ++round_;
  return value_of(static_cast<int>(steps_.size()) - 1);
}

Scalar Evaluation::load(const Step &step) {
  Scalar zero{};
  bool is_masked = step.expression->operand_count > 1;
  if (is_masked && !value_of(step.operands[1]).i)
    return zero;
  int64_t index = value_of(step.operands[0]).i;
  OXYFUEL_CHECK(index >= 0 && index < step.memory.count,
                "element " + std::to_string(index) + " of " + std::to_string(step.memory.count) + " is read");
  return load_scalar(step.memory.data, index, step.expression.dtype());
}

const Scalar &Evaluation::value_of(int place) {
  Step &step = steps_[place];
  if (step.round == round_)
    return step.value;
  Expr e = step.expression;
  switch (e.kind()) {
  case ExprKind::kConst: step.value = scalar_of(e); break;
  case ExprKind::kVar: step.value = *step.variable; break;
  case ExprKind::kLoad: step.value = load(step); break;
  case ExprKind::kSelect: step.value = value_of(step.operands[value_of(step.operands[0]).i ? 1 : 2]); break;
  case ExprKind::kCast: step.value = convert(value_of(step.operands[0]), e.operand(0).dtype(), e.dtype()); break;
  default: {
    Scalar values[3] = {};
    for (int i = 0; i < e->operand_count; ++i)
      values[i] = value_of(step.operands[i]);
    bool is_host_call = e.kind() == ExprKind::kHostCall;
    step.value =
        apply(e.kind(), e.dtype(), e.operand(0).dtype(), values, e->operand_count, is_host_call ? e->integer : 0);
  }
  }
  step.round = round_;
  return step.value;
}

} // namespace oxyfuel
