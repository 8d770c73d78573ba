// Recurrences as loop steps. Slots are computed once a call, so what depends on the time step is computed by the
// kernels of the body: the counter of the loop is a symbol, and its own slot is a size parameter of each kernel that
// names it.
#include <algorithm>

#include "driver/pipeline.h"
#include "driver/plan_builder.h"
#include "ops/op.h"
#include "ops/recurrence.h"
#include "passes/graph/place_recurrences.h"
#include "support/error.h"

namespace oxyfuel {

using PlanBuffer = runtime::Buffer;
using runtime::Step;

/// A counter for each recurrence, also for those inside of others, appended to the symbols of the program.
void PlanBuilder::declare_counters(const graph::Graph &graph) {
  for (const auto &node : graph.nodes()) {
    if (node->op->name == "recurrence") {
      Expr length = recurrence_of(*node).length;
      Var *time = context_.new_var("t" + std::to_string(counters_.size()), DType::kI64, 0, length.constant());
      time->upper_expr = length.node();
      time->hint = std::max<int64_t>(1, hint_of(length).value_or(2) / 2);
      counters_[node.get()] = static_cast<int>(graph_.symbols.size());
      graph_.symbols.push_back(time);
    }
    for (const auto &[name, attribute] : node->attributes)
      if (auto *region = std::get_if<std::shared_ptr<graph::Graph>>(&attribute))
        declare_counters(**region);
  }
}

/// Sequences at their time, and what stays the same.
void PlanBuilder::place_step_inputs(const graph::Node &node, Expr time) {
  Recurrence parts = recurrence_of(node);
  for (size_t i = static_cast<size_t>(parts.carried); i < node.operands.size(); ++i) {
    Memory memory = memory_of(node.operands[i]);
    graph::Value *input = parts.body.inputs()[i].get();
    input->layout = {memory.view.strides, memory.view.offset};
    if (static_cast<int>(i) < parts.carried + parts.sequences) {
      input->layout.offset = memory.view.offset + time * memory.view.strides[0];
      input->layout.strides.erase(input->layout.strides.begin());
    } else {
      input->is_static = memory.view.base->is_static;
    }
    buffers_[input] = memory.buffer;
  }
}

void PlanBuilder::emit_recurrence(const graph::Node &node) {
  Recurrence parts = recurrence_of(node);
  graph::Graph &body = parts.body;
  for (const auto &inner : body.nodes())
    if (inner->op->kind == OpKind::kExtern) // its offsets would be slots that change from step to step
      throw UnsupportedError("a time loop whose steps call PyTorch", {.where = inner->location.place});
  std::vector<graph::CarriedMemory> carried = graph::carried_memory(node);
  int counter = counters_.at(&node);
  Expr time = context_.var(graph_.symbols[counter]);

  // Memory of the body's outputs, and of the inputs that are carried.
  std::vector<graph::Value *> outputs;
  std::vector<graph::Layout> layouts;
  std::vector<int> buffers;
  std::vector<bool> is_history(static_cast<size_t>(parts.stacked), false);
  for (int i = 0; i < parts.carried; ++i) {
    const graph::CarriedMemory &own = carried[i];
    graph::Value *first = node.operands[i], *input = body.inputs()[i].get();
    int buffer = add_buffer(PlanBuffer::Kind::kArena, first->type.dtype, 0, own.slots * own.size);
    emit_copy(first, graph::dense_at(context_, first->type, own.first * own.size), buffer);
    buffers_[node.result(i)] = buffers_[input] = buffer;
    input->layout = graph::dense_at(context_, first->type, own.read(time) * own.size);
    outputs.push_back(parts.carried_next(i));
    layouts.push_back(graph::dense_at(context_, first->type, own.write(time) * own.size));
    buffers.push_back(buffer);
    if (own.is_history()) {
      is_history[own.stacked] = true;
      buffers_[node.result(parts.carried + own.stacked)] = buffer;
    }
  }
  for (int i = 0; i < parts.stacked; ++i) {
    if (is_history[i])
      continue;
    graph::Value *output = parts.step_output(i);
    Expr size = graph::element_count(context_, output->type.shape);
    outputs.push_back(output);
    layouts.push_back(graph::dense_at(context_, output->type, time * size));
    buffers.push_back(add_buffer(PlanBuffer::Kind::kArena, output->type.dtype, 0, size * parts.length));
    buffers_[node.result(parts.carried + i)] = buffers.back();
  }
  place_step_inputs(node, time);
  body.outputs = std::move(outputs);
  body.output_layouts = std::move(layouts);
  run_body_pipeline(body, passes_);
  for (size_t i = 0; i < buffers.size(); ++i)
    placed_[body.outputs[i]] = buffers[i];

  Step loop;
  loop.kind = Step::Kind::kLoop;
  loop.symbol = counter;
  loop.reverse = parts.reverse;
  loop.grid = slot(parts.length);
  loop.name = "recurrence";
  auto at = static_cast<int32_t>(plan_.steps.size());
  for (const auto &operand : node.operands)
    use(memory_of(operand).buffer);
  plan_.steps.push_back(std::move(loop));
  double outer = repetitions_;
  repetitions_ *= static_cast<double>(hint_of(parts.length).value_or(1));
  emit_nodes(body);
  repetitions_ = outer;
  auto end = static_cast<int32_t>(plan_.steps.size()) - 1;
  plan_.steps[at].body = end - at;
  // What a step finds in memory the next one finds too.
  for (PlanBuffer &buffer : plan_.buffers)
    if (buffer.first_step <= at && buffer.last_step > at)
      buffer.last_step = end;
}

} // namespace oxyfuel
