// From a grouped graph to a plan: buffers, slots, steps.
#pragma once

#include <map>
#include <unordered_map>
#include <vector>

#include "driver/compile.h"
#include "driver/kernels.h"
#include "driver/work.h"
#include "ir/graph/graph.h"
#include "passes/graph/strided.h"
#include "passes/lower/lower.h"
#include "runtime/plan.h"
#include "schedule/machine.h"

namespace oxyfuel {

/// One use: construct, `build`, generate the kernels' code, `finish`.
class PlanBuilder {
public:
  PlanBuilder(graph::Graph &graph, const CompileSettings &settings, const Machine &machine, KernelSet &kernels,
              PassContext &passes, CompileReport &report);

  /// Lowers every group into `kernels` and lays out the plan; entry points are filled in by `finish`.
  void build();
  /// The plan. After KernelSet::generate, which knows the entry points.
  runtime::Plan finish();

private:
  struct Memory { ///< where a value's elements lie
    int buffer = -1;
    graph::StridedView view;
  };

  runtime::Slot slot(Expr e);
  std::vector<runtime::Slot> slots(const std::vector<Expr> &es);
  int add_buffer(runtime::Buffer::Kind kind, DType dtype, int index, Expr elements);
  Memory memory_of(graph::Value *value);
  void use(int buffer);
  bool depends_on_step_symbol(Expr e) const;

  void declare_symbols();
  void declare_counters(const graph::Graph &graph);
  void declare_arguments();
  void declare_outputs();
  void emit_nodes(const graph::Graph &graph);
  void emit_node(const graph::Node &node);
  void emit_group(const graph::Node &node);
  void emit_recurrence(const graph::Node &node);
  void place_step_inputs(const graph::Node &node, Expr time);
  void emit_copy(graph::Value *value, const graph::Layout &layout, int buffer);
  void emit_extern(const graph::Node &node);
  void emit_mutations();
  void describe_outputs();
  void make_sizes_kernel();
  /// Names the step and describes it; `part` is "" for the kernel that does the work of its group.
  void report_step(const graph::Node &group, runtime::Step &step, const std::string &schedule, const Work &work,
                   const char *part);
  void mark_aliasing(loop::Kernel &kernel, const std::vector<int> &buffers);

  graph::Graph &graph_;
  ExprContext &context_;
  const CompileSettings &settings_;
  const Machine &machine_;
  KernelSet &kernels_;
  PassContext &passes_; ///< bodies of loops go through their pipeline when memory around them is known
  CompileReport &report_;
  runtime::Plan plan_;
  std::unordered_map<const ExprNode *, runtime::Slot> slots_;
  std::vector<Expr> slot_exprs_;
  std::unordered_map<const graph::Value *, int> buffers_;
  std::unordered_map<const graph::Node *, int> extern_steps_;
  std::unordered_map<const graph::Value *, int> owned_outputs_; ///< base value → output whose memory it is
  std::unordered_map<const graph::Value *, int> placed_;        ///< results of groups whose memory exists already
  std::unordered_map<const graph::Node *, int> counters_;       ///< recurrence → symbol
  double repetitions_ = 1; ///< of the steps that are emitted, at the hints of the symbols
};

} // namespace oxyfuel
