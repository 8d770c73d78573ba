// Plans. Every number in a plan is a slot; the sizes kernel, made like any other kernel, fills them from the symbols.
#include "driver/plan_builder.h"

#include <algorithm>
#include <set>

#include "ops/op.h"
#include "passes/lower/evaluate.h"
#include "support/error.h"

namespace oxyfuel {

using PlanBuffer = runtime::Buffer;
using runtime::Slot;
using runtime::Step;

namespace {

/// The program's operators to run in PyTorch when `node` has no lowering: what its group is built around, else all.
std::vector<int64_t> operations_of(const graph::Node &node) {
  std::set<int64_t> found;
  bool has_anchor = node.op->name != "group" || node.get<std::string>("kind") != "loops";
  if (has_anchor && node.location.operation >= 0) {
    found.insert(node.location.operation);
  } else if (node.op->name == "group") {
    for (const auto &inner : region_of(node).nodes())
      if (inner->op->kind != OpKind::kView && inner->location.operation >= 0)
        found.insert(inner->location.operation);
  }
  return {found.begin(), found.end()};
}

} // namespace

PlanBuilder::PlanBuilder(graph::Graph &graph, const CompileSettings &settings, const Machine &machine,
                         KernelSet &kernels, PassContext &passes, CompileReport &report)
    : graph_(graph), context_(graph.context()), settings_(settings), machine_(machine), kernels_(kernels),
      passes_(passes), report_(report) {}

void PlanBuilder::build() {
  declare_symbols();
  declare_arguments();
  declare_outputs();
  emit_nodes(graph_);
  emit_mutations();
  describe_outputs();
  make_sizes_kernel();
}

void PlanBuilder::emit_nodes(const graph::Graph &graph) {
  std::vector<const graph::Node *> nodes; // copies join the graph meanwhile
  for (const auto &node : graph.nodes())
    nodes.push_back(node.get());
  for (const graph::Node *node : nodes) {
    try {
      emit_node(*node);
    } catch (const DeclinedError &) {
      throw; // from within a body
    } catch (const UnsupportedError &declined) {
      throw DeclinedError(declined.what(), operations_of(*node));
    }
  }
}

void PlanBuilder::emit_node(const graph::Node &node) {
  if (node.op->kind == OpKind::kExtern)
    emit_extern(node);
  else if (node.op->name == "group")
    emit_group(node);
  else if (node.op->name == "recurrence")
    emit_recurrence(node);
  else if (node.op->kind == OpKind::kRegion)
    throw UnsupportedError(std::string(node.op->name) + " has no lowering", {.where = node.location.place});
  else
    OXYFUEL_CHECK(node.op->kind == OpKind::kView || node.operands.empty(),
                  "operator " + std::string(node.op->name) + " outside of any group");
}

// Slots and symbols ------------------------------------------------------------------------------------------------

Slot PlanBuilder::slot(Expr e) {
  auto [it, is_new] = slots_.try_emplace(e.node(), static_cast<Slot>(slot_exprs_.size()));
  if (is_new)
    slot_exprs_.push_back(e);
  return it->second;
}

std::vector<Slot> PlanBuilder::slots(const std::vector<Expr> &es) {
  std::vector<Slot> result;
  for (Expr e : es)
    result.push_back(slot(e));
  return result;
}

void PlanBuilder::declare_symbols() {
  declare_counters(graph_);
  plan_.symbol_count = static_cast<int32_t>(graph_.symbols.size());
  for (size_t i = 0; i < graph_.symbols.size(); ++i) {
    slot(context_.var(graph_.symbols[i]));
    runtime::SymbolSource source;
    source.kind = runtime::SymbolSource::Kind::kStep;
    for (size_t a = 0; a < settings_.arguments.size(); ++a)
      if (settings_.arguments[a].is_integer && settings_.arguments[a].index == static_cast<int>(i))
        source = {runtime::SymbolSource::Kind::kInteger, static_cast<int32_t>(a), 0};
    plan_.symbols.push_back(source);
  }
}

bool PlanBuilder::depends_on_step_symbol(Expr e) const {
  for (size_t i = 0; i < graph_.symbols.size(); ++i)
    if (plan_.symbols[i].kind == runtime::SymbolSource::Kind::kStep && depends_on(e, graph_.symbols[i]))
      return true;
  return false;
}

// Arguments and outputs --------------------------------------------------------------------------------------------

void PlanBuilder::declare_arguments() {
  std::vector<ProgramArgument> order = settings_.arguments;
  if (order.empty())
    for (size_t i = 0; i < graph_.inputs().size(); ++i)
      order.push_back({false, static_cast<int>(i)});
  std::set<const graph::Value *> mutated;
  for (const graph::Mutation &mutation : graph_.mutations)
    mutated.insert(mutation.target);
  for (const auto &node : graph_.nodes())
    if (node->has("in_memory_of"))
      mutated.insert(graph_.inputs()[node->get<int64_t>("in_memory_of")].get());
  for (size_t a = 0; a < order.size(); ++a) {
    runtime::Argument argument;
    if (order[a].is_integer) {
      argument.kind = runtime::Argument::Kind::kInteger;
      argument.dtype = DType::kI64;
      argument.name = graph_.symbols[order[a].index]->name;
      plan_.arguments.push_back(std::move(argument));
      continue;
    }
    graph::Value *input = graph_.inputs()[order[a].index].get();
    const graph::Type &type = input->type;
    std::vector<Expr> strides =
        input->layout.strides.empty() ? graph::contiguous_strides(context_, type.shape) : input->layout.strides;
    argument.dtype = type.dtype;
    argument.shape = slots(type.shape);
    argument.strides = slots(strides);
    argument.is_mutated = mutated.count(input) > 0;
    argument.is_static = input->is_static && !argument.is_mutated;
    argument.name = input->name;
    // A symbol that no argument gives is the size or stride that is named by it alone.
    auto find_symbols = [&](const std::vector<Expr> &extents, runtime::SymbolSource::Kind kind) {
      for (size_t axis = 0; axis < extents.size(); ++axis)
        for (size_t s = 0; s < graph_.symbols.size(); ++s)
          if (extents[axis] == context_.var(graph_.symbols[s]) &&
              plan_.symbols[s].kind == runtime::SymbolSource::Kind::kStep)
            plan_.symbols[s] = {kind, static_cast<int32_t>(a), static_cast<int32_t>(axis)};
    };
    find_symbols(type.shape, runtime::SymbolSource::Kind::kSize);
    find_symbols(strides, runtime::SymbolSource::Kind::kStride);
    plan_.arguments.push_back(std::move(argument));
    buffers_[input] = add_buffer(PlanBuffer::Kind::kArgument, type.dtype, static_cast<int>(a), {});
  }
}

int PlanBuilder::add_buffer(PlanBuffer::Kind kind, DType dtype, int index, Expr elements) {
  PlanBuffer buffer;
  buffer.kind = kind;
  buffer.dtype = dtype;
  buffer.index = index;
  if (elements)
    buffer.bytes = slot(elements * static_cast<int64_t>(size_of(dtype)));
  if (kind == PlanBuffer::Kind::kArena && elements && depends_on_step_symbol(elements))
    buffer.kind = PlanBuffer::Kind::kDynamic;
  buffer.first_step = buffer.last_step = static_cast<int32_t>(plan_.steps.size());
  plan_.buffers.push_back(buffer);
  return static_cast<int>(plan_.buffers.size()) - 1;
}

/// Outputs that are memory of their own; the first one over a base has it, others are views of that one.
void PlanBuilder::declare_outputs() {
  for (size_t i = 0; i < graph_.outputs.size(); ++i)
    if (graph::Value *value = graph_.outputs[i]) {
      graph::Value *base = graph::view_base(value);
      if (base->producer && base->producer->op->kind != OpKind::kExtern)
        owned_outputs_.try_emplace(base, static_cast<int>(i));
    }
}

void PlanBuilder::describe_outputs() {
  for (size_t i = 0; i < graph_.outputs.size(); ++i) {
    runtime::Output output;
    graph::Value *value = graph_.outputs[i];
    if (!value) {
      output.kind = runtime::Output::Kind::kNone;
      plan_.outputs.push_back(output);
      continue;
    }
    std::optional<graph::StridedView> view = graph::as_strided(context_, value);
    OXYFUEL_CHECK(view, "a result that is not strided memory");
    output.dtype = value->type.dtype;
    output.shape = slots(value->type.shape);
    // Where an extent is 1 the stride means nothing to kernels, but the caller sees it.
    const std::vector<Expr> &expected = graph_.output_layouts[i].strides;
    output.strides = slots(expected.empty() ? view->strides : expected);
    output.offset = slot(view->offset);
    graph::Value *base = view->base;
    if (!base->producer) {
      int argument = plan_.buffers[buffers_.at(base)].index;
      output.kind = value == base ? runtime::Output::Kind::kArgument : runtime::Output::Kind::kView;
      output.source = argument;
    } else if (base->producer->op->kind == OpKind::kExtern) {
      OXYFUEL_CHECK(value == base, "a view of an extern result as a result");
      output.kind = runtime::Output::Kind::kExtern;
      output.source = extern_steps_.at(base->producer);
      output.result = base->index;
    } else if (owned_outputs_.at(base) == static_cast<int>(i)) {
      output.kind = runtime::Output::Kind::kBuffer;
      output.source = buffers_.at(base);
    } else {
      output.kind = runtime::Output::Kind::kView;
      output.source = ~owned_outputs_.at(base);
    }
    plan_.outputs.push_back(output);
  }
}

// Steps ------------------------------------------------------------------------------------------------------------

PlanBuilder::Memory PlanBuilder::memory_of(graph::Value *value) {
  std::optional<graph::StridedView> view = graph::as_strided(context_, value);
  OXYFUEL_CHECK(view, "an operand that is not strided memory");
  auto it = buffers_.find(view->base);
  OXYFUEL_CHECK(it != buffers_.end(), "an operand without memory");
  return {it->second, *view};
}

void PlanBuilder::use(int buffer) {
  plan_.buffers[buffer].last_step = std::max(plan_.buffers[buffer].last_step, static_cast<int32_t>(plan_.steps.size()));
}

namespace {

/// Elements from the first to one past the last that a layout reaches.
Expr layout_elements(ExprContext &context, const graph::Type &type, const graph::Layout &layout) {
  if (layout.strides.empty())
    return graph::element_count(context, type.shape);
  Expr last = context.integer(1);
  Expr count = graph::element_count(context, type.shape);
  for (int i = 0; i < type.rank(); ++i)
    last = last + (type.shape[i] - 1) * layout.strides[i];
  // An empty tensor needs no memory whatever its strides say.
  return count.constant() && *count.constant() != 0 ? last : max(last, context.integer(0));
}

} // namespace

void PlanBuilder::mark_aliasing(loop::Kernel &kernel, const std::vector<int> &buffers) {
  bool writes_argument = false;
  auto is_own = [&](int b) {
    return plan_.buffers[b].kind != PlanBuffer::Kind::kArgument && plan_.buffers[b].kind != PlanBuffer::Kind::kExtern;
  };
  for (size_t i = 0; i < buffers.size(); ++i)
    if (kernel.buffers[i]->kind != oxyfuel::Buffer::Kind::kInput)
      writes_argument = writes_argument || !is_own(buffers[i]);
  for (size_t i = 0; i < buffers.size(); ++i) {
    bool is_repeated = std::count(buffers.begin(), buffers.end(), buffers[i]) > 1;
    kernel.buffers[i]->is_unaliased = !writes_argument && !is_repeated;
    if (is_own(buffers[i]))
      kernel.buffers[i]->alignment = 64;
  }
}

namespace {

/// The place in the user's program of the first operator that has one.
std::string first_location(const graph::Node &group) {
  for (const auto &node : region_of(group).nodes())
    if (!node->location.place.empty() && node->op->kind != OpKind::kView)
      return node->location.place;
  return {};
}

/// Of the kernels of a group, the one that does its work. Those before it in a contraction pack and pad; those after it
/// in other groups combine partial results, and read none of the operands.
const KernelCall *main_call_of(const graph::Node &group, const LoweredGroup &lowered) {
  const std::string &kind = group.get<std::string>("kind");
  if (kind == "contraction" || kind == "attention")
    return &lowered.calls.back();
  const KernelCall *best = nullptr;
  std::ptrdiff_t most = -1;
  for (const KernelCall &call : lowered.calls) {
    std::ptrdiff_t operands = std::count_if(call.buffers.begin(), call.buffers.end(), [](const BufferReference &b) {
      return b.kind == BufferReference::Kind::kOperand;
    });
    if (!call.is_bind && !call.is_base_copy && operands > most) {
      best = &call;
      most = operands;
    }
  }
  return best;
}

} // namespace

void PlanBuilder::emit_group(const graph::Node &node) {
  std::vector<int> operands, results, temporaries;
  for (graph::Value *operand : node.operands)
    operands.push_back(buffers_.at(operand));
  bool is_in_place = node.has("in_memory_of");
  for (const auto &result : node.results) {
    if (is_in_place) {
      results.push_back(buffers_.at(graph_.inputs()[node.get<int64_t>("in_memory_of")].get()));
      buffers_[result.get()] = results.back();
      continue;
    }
    if (auto placed = placed_.find(result.get()); placed != placed_.end()) {
      results.push_back(placed->second);
      buffers_[result.get()] = placed->second;
      continue;
    }
    auto owned = owned_outputs_.find(result.get());
    bool is_output = owned != owned_outputs_.end();
    Expr elements = layout_elements(context_, result->type, result->layout);
    int buffer = is_output ? add_buffer(PlanBuffer::Kind::kOutput, result->type.dtype, owned->second, elements)
                           : add_buffer(PlanBuffer::Kind::kArena, result->type.dtype, 0, elements);
    buffers_[result.get()] = buffer;
    results.push_back(buffer);
  }
  LoweredGroup lowered = lower_group(node, machine_);
  for (const Temporary &temporary : lowered.temporaries)
    temporaries.push_back(add_buffer(temporary.is_bound ? PlanBuffer::Kind::kBound : PlanBuffer::Kind::kArena,
                                     temporary.dtype, 0, temporary.elements));
  std::vector<Work> work = work_of_calls(node, lowered);
  std::map<int, int> numbers;
  const KernelCall *main_call = main_call_of(node, lowered);
  for (const KernelCall &call : lowered.calls) {
    if (is_in_place && &call == &lowered.calls[0])
      continue; // the copy of the base, which lies there already
    Step step;
    auto buffer_of = [&](const BufferReference &reference) {
      switch (reference.kind) {
      case BufferReference::Kind::kOperand: return operands[reference.index];
      case BufferReference::Kind::kResult: return results[reference.index];
      default: return temporaries[reference.index];
      }
    };
    for (const BufferReference &reference : call.buffers) {
      step.buffers.push_back(buffer_of(reference));
      if (!call.is_bind)
        use(step.buffers.back());
    }
    auto [number, is_new] = numbers.try_emplace(call.kernel, -1);
    OXYFUEL_CHECK(is_new, "a kernel that a group calls twice");
    std::unique_ptr<loop::Kernel> kernel = std::move(lowered.kernels[call.kernel]);
    mark_aliasing(*kernel, step.buffers);
    Expr grid = import(
        kernel->grid, context_,
        [&](const Var *v) {
          size_t i = std::find(kernel->sizes.begin(), kernel->sizes.end(), v) - kernel->sizes.begin();
          OXYFUEL_CHECK(i < kernel->sizes.size(), "a grid that depends on more than sizes");
          return call.sizes[i];
        },
        [](const oxyfuel::Buffer *) -> const oxyfuel::Buffer * { throw InternalError("a grid that loads"); });
    step.sizes = slots(call.sizes);
    step.grid = slot(grid);
    step.scratch_bytes = kernel->scratch_bytes;
    step.grain = kernel->grain;
    if (settings_.verify)
      loop::verify(*kernel);
    step.index = kernels_.add(std::move(kernel));
    if (call.is_bind) {
      step.name = "pack";
      step.location = first_location(node);
      plan_.bind_steps.push_back(std::move(step));
      continue;
    }
    report_step(node, step, lowered.schedule, work[&call - lowered.calls.data()],
                &call == main_call  ? ""
                : &call < main_call ? "_prepare"
                                    : "_finish");
    plan_.steps.push_back(std::move(step));
  }
}

void PlanBuilder::report_step(const graph::Node &group, Step &step, const std::string &schedule, const Work &work,
                              const char *part) {
  KernelInfo info;
  info.step = static_cast<int>(plan_.steps.size());
  info.kernel = step.index;
  info.schedule = schedule;
  for (const auto &node : region_of(group).nodes()) {
    if (node->op->kind == OpKind::kView || node->operands.empty())
      continue;
    info.fused.emplace_back(node->op->name);
    const std::string &place = node->location.place;
    if (!place.empty() && std::find(info.locations.begin(), info.locations.end(), place) == info.locations.end())
      info.locations.push_back(place);
  }
  info.flops = repetitions_ * work.flops;
  info.bytes = repetitions_ * work.bytes;
  report_.contraction_flops += repetitions_ * work.contractions;
  for (size_t i = 0; i < info.fused.size() && i < 4; ++i)
    info.name += (i ? "_" : "") + info.fused[i];
  if (info.fused.size() > 4)
    info.name += "_and_" + std::to_string(info.fused.size() - 4);
  info.name += part;
  step.name = info.name;
  step.location = first_location(group);
  report_.kernels.push_back(std::move(info));
}

void PlanBuilder::emit_extern(const graph::Node &node) {
  Step step;
  step.kind = Step::Kind::kExtern;
  step.index = static_cast<int32_t>(node.get<int64_t>("id"));
  step.name = node.get_or<std::string>("target", "extern");
  step.location = node.location.place;
  for (graph::Value *operand : node.operands) {
    if (!operand)
      continue;
    Memory memory = memory_of(operand);
    step.buffers.push_back(memory.buffer);
    use(memory.buffer);
    step.sizes.push_back(slot(memory.view.offset));
    for (Slot s : slots(operand->type.shape))
      step.sizes.push_back(s);
    for (Slot s : slots(memory.view.strides))
      step.sizes.push_back(s);
  }
  int number = 0;
  for (const auto &result : node.results) {
    int buffer = add_buffer(PlanBuffer::Kind::kExtern, result->type.dtype, number++, {});
    buffers_[result.get()] = buffer;
    step.buffers.push_back(buffer);
    std::vector<Expr> strides = result->layout.strides;
    if (strides.empty())
      strides = graph::contiguous_strides(context_, result->type.shape);
    for (Slot s : slots(result->type.shape))
      step.sizes.push_back(s);
    for (Slot s : slots(strides))
      step.sizes.push_back(s);
  }
  for (Slot s : slots(node.get_or<std::vector<Expr>>("integers", {})))
    step.sizes.push_back(s);
  extern_steps_[&node] = static_cast<int>(plan_.steps.size());
  report_.externs.push_back(step.index);
  plan_.steps.push_back(std::move(step));
  if (node.has("binds")) {
    Step sizes;
    sizes.kind = Step::Kind::kSizes;
    plan_.steps.push_back(sizes);
  }
}

/// Copies `value` to memory laid out as `layout` in a buffer that exists.
void PlanBuilder::emit_copy(graph::Value *value, const graph::Layout &layout, int buffer) {
  Memory memory = memory_of(value);
  auto region = std::make_shared<graph::Graph>(graph_.shared_context());
  graph::Value *input = region->add_input(value->type, "value");
  input->layout = {memory.view.strides, memory.view.offset};
  graph::Node *copy = region->add(op("copy"), {input}, {{"dtype", value->type.dtype}});
  copy->result()->layout = layout;
  region->outputs.push_back(copy->result());
  graph::Node *group = graph_.add_typed(op("group"), {memory.view.base},
                                        {{"kind", std::string("loops")}, {"region", region}}, {value->type});
  group->result()->layout = layout;
  placed_[group->result()] = buffer;
  emit_group(*group);
}

/// Arguments are written last, when all that reads their old contents has run.
void PlanBuilder::emit_mutations() {
  for (const graph::Mutation &mutation : graph_.mutations)
    if (mutation.value != mutation.target)
      emit_copy(mutation.value, mutation.target->layout, buffers_.at(mutation.target));
}

// The sizes kernel ---------------------------------------------------------------------------------------------------

void PlanBuilder::make_sizes_kernel() {
  auto kernel = std::make_unique<loop::Kernel>();
  loop::Builder builder(*kernel);
  oxyfuel::Buffer *out = builder.parameter("slots", DType::kI64, oxyfuel::Buffer::Kind::kOutput);
  std::unordered_map<const Var *, Var *> sizes;
  for (Var *symbol : graph_.symbols) {
    Var *size = builder.size(symbol->name);
    size->lower = symbol->lower;
    size->upper = symbol->upper;
    sizes[symbol] = size;
  }
  ExprContext &context = *kernel->context;
  builder.task("t", context.integer(1), [&](Expr) {
    for (size_t i = graph_.symbols.size(); i < slot_exprs_.size(); ++i)
      builder.store(
          out, context.integer(static_cast<int64_t>(i)),
          import(
              slot_exprs_[i], context, [&](const Var *v) { return context.var(sizes.at(v)); },
              [](const oxyfuel::Buffer *) -> const oxyfuel::Buffer * { throw InternalError("a size that loads"); }));
  });
  plan_.slot_count = static_cast<int32_t>(slot_exprs_.size());
  if (plan_.slot_count > plan_.symbol_count)
    plan_.sizes_kernel = kernels_.add(std::move(kernel));
}

runtime::Plan PlanBuilder::finish() {
  for (int i = 0; i < kernels_.count(); ++i)
    plan_.kernels.push_back({"kernel_" + std::to_string(i), i, kernels_.entry(i)});
  return std::move(plan_);
}

} // namespace oxyfuel
