#include "runtime/tables.h"

#include <algorithm>
#include <cstring>

namespace oxyfuel::runtime {
namespace {

template <class T> Range append(std::vector<T> &all, const std::vector<T> &part) {
  const Range range{static_cast<uint32_t>(all.size()), static_cast<uint32_t>(part.size())};
  all.insert(all.end(), part.begin(), part.end());
  return range;
}

template <class T> void sort_unique(std::vector<T> &list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

/// For each step the outermost control step around it, or itself.
std::vector<int32_t> outermost_steps(const Plan &plan) {
  std::vector<int32_t> outermost(plan.steps.size());
  for (size_t i = 0; i < plan.steps.size();) {
    const Step &step = plan.steps[i];
    size_t inside = 0;
    if (step.kind == Step::Kind::kLoop)
      inside = step.body;
    else if (step.kind == Step::Kind::kBranch || step.kind == Step::Kind::kWhile)
      inside = static_cast<size_t>(step.body) + step.other;
    for (size_t k = i; k <= i + inside; ++k)
      outermost[k] = static_cast<int32_t>(i);
    i += inside + 1;
  }
  return outermost;
}

} // namespace

Action Tables::flatten(const Step &step) {
  Action action{};
  action.kind = step.kind;
  action.reverse = step.reverse;
  action.grid = step.grid;
  action.index = step.index, action.body = step.body, action.other = step.other, action.symbol = step.symbol;
  action.kernel = step.kind == Step::Kind::kKernel ? kernels[step.index] : nullptr;
  action.grain = step.grain;
  action.scratch_bytes = static_cast<size_t>(step.scratch_bytes);
  action.buffers = append(operand_buffers, step.buffers);
  action.sizes = append(operand_slots, step.sizes);
  most_buffers = std::max(most_buffers, step.buffers.size());
  most_sizes = std::max(most_sizes, step.sizes.size());
  return action;
}

/// Decides when outputs and dynamic buffers are allocated. Outputs whose sizes an extern step may decide (all after the
/// first kSizes step) and dynamic buffers wait for their first step; an output that is first written inside a loop or
/// branch is allocated before that, as another branch may write it too.
void Tables::place_allocations() {
  const std::vector<int32_t> outermost = outermost_steps(plan);
  int32_t first_sizes = static_cast<int32_t>(plan.steps.size());
  for (size_t i = 0; i < plan.steps.size(); ++i)
    if (plan.steps[i].kind == Step::Kind::kSizes) {
      first_sizes = outermost[i];
      break;
    }
  std::vector<std::vector<int32_t>> before(plan.steps.size());
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const Buffer &buffer = plan.buffers[i];
    const int32_t index = static_cast<int32_t>(i);
    if (buffer.kind == Buffer::Kind::kDynamic && !plan.steps.empty())
      before[buffer.first_step].push_back(index);
    if (buffer.kind != Buffer::Kind::kOutput)
      continue;
    if (plan.steps.empty() || outermost[buffer.first_step] < first_sizes)
      early_outputs.push_back(buffer.index);
    else
      before[outermost[buffer.first_step]].push_back(index);
  }
  std::sort(early_outputs.begin(), early_outputs.end());
  for (size_t i = 0; i < plan.steps.size(); ++i)
    actions[i].allocate = append(late_buffers, before[i]);
}

void Tables::list_buffers() {
  dynamic_index.assign(plan.buffers.size(), -1);
  for (size_t i = 0; i < plan.buffers.size(); ++i) {
    const int32_t index = static_cast<int32_t>(i);
    switch (plan.buffers[i].kind) {
    case Buffer::Kind::kArgument: argument_buffers.push_back(index); break;
    case Buffer::Kind::kArena: arena_buffers.push_back(index); break;
    case Buffer::Kind::kBound: bound_buffers.push_back(index); break;
    case Buffer::Kind::kExtern: extern_buffers.push_back(index); break;
    case Buffer::Kind::kDynamic:
      dynamic_index[i] = static_cast<int32_t>(dynamic_buffers.size());
      dynamic_buffers.push_back(index);
      break;
    case Buffer::Kind::kOutput:
    case Buffer::Kind::kConstant: break;
    }
  }
}

void Tables::list_binding() {
  for (const Step &step : plan.bind_steps) {
    for (int32_t buffer : step.buffers)
      if (plan.buffers[buffer].kind == Buffer::Kind::kArgument)
        bound_arguments.push_back(plan.buffers[buffer].index);
    bound_slots.insert(bound_slots.end(), step.sizes.begin(), step.sizes.end());
    bound_slots.push_back(step.grid);
  }
  sort_unique(bound_arguments);
  for (int32_t buffer : bound_buffers)
    bound_slots.push_back(plan.buffers[buffer].bytes);
  for (int32_t argument : bound_arguments) {
    const Argument &bound = plan.arguments[argument];
    bound_slots.insert(bound_slots.end(), bound.shape.begin(), bound.shape.end());
    bound_slots.insert(bound_slots.end(), bound.strides.begin(), bound.strides.end());
  }
  sort_unique(bound_slots);
}

std::unique_ptr<Tables> Tables::make(Plan plan, std::vector<OxyfuelKernel> kernels, std::string &message) {
  if (!check_plan(plan, message))
    return nullptr;
  if (kernels.size() != plan.kernels.size()) {
    message = std::to_string(kernels.size()) + " kernels found, " + std::to_string(plan.kernels.size()) + " wanted";
    return nullptr;
  }
  auto tables = std::make_unique<Tables>();
  tables->plan = std::move(plan);
  tables->kernels = std::move(kernels);
  const Plan &kept = tables->plan;
  if (kept.sizes_kernel >= 0)
    tables->sizes_kernel = tables->kernels[kept.sizes_kernel];
  if (!kept.constants.empty()) {
    if (!tables->constants.reserve(kept.constants.size())) {
      message = "no memory for " + std::to_string(kept.constants.size()) + " bytes of constants";
      return nullptr;
    }
    std::memcpy(tables->constants.data(), kept.constants.data(), kept.constants.size());
    tables->plan.constants = {}; // one copy is enough
  }
  for (const Step &step : kept.steps)
    tables->actions.push_back(tables->flatten(step));
  for (const Step &step : kept.bind_steps)
    tables->bind_actions.push_back(tables->flatten(step));
  tables->list_buffers();
  tables->place_allocations();
  tables->list_binding();
  // A size that nothing has bound yet must not make the sizes kernel divide by zero; a loop starts at 0.
  for (const SymbolSource &symbol : kept.symbols) {
    const bool step = symbol.kind == SymbolSource::Kind::kStep;
    tables->has_step_symbols |= step;
    tables->first_symbols.push_back(step ? 1 : 0);
  }
  for (const Step &step : kept.steps) {
    if (step.kind == Step::Kind::kLoop && step.symbol >= 0)
      tables->first_symbols[step.symbol] = 0;
    tables->is_parallel |= step.kind == Step::Kind::kKernel || step.kind == Step::Kind::kCopy;
  }
  return tables;
}

} // namespace oxyfuel::runtime
