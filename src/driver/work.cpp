#include "driver/work.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "ir/graph/op_info.h"
#include "ir/loop/walk.h"
#include "passes/lower/evaluate.h"

namespace oxyfuel {

namespace {

constexpr double kFunctionCost = 16;

double elements(const graph::Type &type) {
  double n = 1;
  for (Expr extent : type.shape)
    n *= static_cast<double>(hint_of(extent).value_or(1));
  return n;
}

double extent(const graph::Type &type, int axis) { return static_cast<double>(hint_of(type.shape[axis]).value_or(1)); }

/// Products of a contraction, zero for other operators.
double products(const graph::Node &node) {
  const graph::Type &out = node.result()->type;
  const graph::Type &a = node.operands.at(0)->type;
  if (node.op->name == "matmul")
    return elements(out) * extent(a, a.rank() - 1);
  if (node.op->name == "convolution") {
    // A weight is met once at each place of the result, of the input when transposed.
    const graph::Type &w = node.operands[1]->type;
    bool is_transposed = node.get_or<bool>("transposed", false);
    return elements(is_transposed ? a : out) * elements(w) / extent(w, 0);
  }
  if (node.op->kind == OpKind::kAttention) {
    const graph::Type &v = node.operands[2]->type;
    return (elements(a) + elements(out)) * extent(v, v.rank() - 2);
  }
  return 0;
}

/// What one run of a kernel does, as its loops say it. Loops whose extents depend on outer ones count as in the first
/// turn, and both sides of a branch count: estimates from above.
struct KernelWork {
  double operations = 0;                               // on floating-point numbers
  std::unordered_map<const Buffer *, double> accesses; // elements loaded from or stored to each parameter
};

class Counter {
public:
  explicit Counter(KernelWork &work) : work_(work) {}

  void set(const Var *var, int64_t value) { values_[var] = value; }

  void visit(const loop::Block &block, double times) {
    for (const auto &statement : block) {
      if (const auto *loop = std::get_if<loop::For>(&statement->data)) {
        if (std::optional<int64_t> begin = value(loop->begin))
          values_[loop->var] = *begin;
        int64_t count = value(loop->extent).value_or(1);
        visit(loop->body, times * static_cast<double>(std::max<int64_t>(0, (count + loop->step - 1) / loop->step)));
        continue;
      }
      seen_.clear();
      loop::for_each_expr(*statement, [&](const Expr &e) { visit(e, times); });
      loop::for_each_block(*statement, [&](const loop::Block &inner) { visit(inner, times); });
      if (const auto *store = std::get_if<loop::Store>(&statement->data))
        access(store->buffer, times);
      else if (const auto *contract = std::get_if<loop::TileContract>(&statement->data))
        visit(*contract, times);
      else if (const auto *let = std::get_if<loop::Let>(&statement->data))
        if (std::optional<int64_t> known = value(let->value))
          values_[let->var] = *known;
    }
  }

private:
  void visit(const loop::TileContract &contract, double times) {
    double depth = times * static_cast<double>(value(contract.extent).value_or(1));
    work_.operations += 2 * depth * contract.rows * contract.cols;
    access(contract.a, depth * contract.rows);
    access(contract.b, depth * contract.cols);
  }

  void visit(Expr e, double times) {
    if (!seen_.insert(e.node()).second)
      return;
    for (int i = 0; i < e->operand_count; ++i)
      visit(e.operand(i), times);
    if (e.kind() == ExprKind::kLoad)
      access(static_cast<const Buffer *>(e.buffer()), times);
    if (is_float(e.dtype()) || is_complex(e.dtype()))
      work_.operations += times * cost(e.kind());
  }

  static double cost(ExprKind kind) {
    switch (kind) {
    case ExprKind::kConst:
    case ExprKind::kVar:
    case ExprKind::kLoad:
    case ExprKind::kSelect:
    case ExprKind::kCast:
    case ExprKind::kBitcast:
    case ExprKind::kReal:
    case ExprKind::kImag:
    case ExprKind::kComplex: return 0;
    case ExprKind::kFma: return 2;
    default: return kind >= ExprKind::kExp ? kFunctionCost : 1;
    }
  }

  void access(const Buffer *buffer, double times) {
    if (buffer->kind <= Buffer::Kind::kInOut)
      work_.accesses[buffer] += times;
  }

  /// Of an integer expression; empty where it depends on memory.
  std::optional<int64_t> value(Expr e) const {
    if (e.dtype() != DType::kI64)
      return {};
    std::vector<Expr> loads;
    std::vector<const Var *> vars;
    collect_loads(e, loads);
    collect_vars(e, vars);
    if (!loads.empty() || !std::all_of(vars.begin(), vars.end(), [&](const Var *var) { return values_.count(var); }))
      return {};
    return evaluate(e, [&](const Var *var) { return values_.at(var); });
  }

  KernelWork &work_;
  std::unordered_map<const Var *, int64_t> values_;
  std::unordered_set<const ExprNode *> seen_;
};

KernelWork work_of(const loop::Kernel &kernel, const KernelCall &call) {
  KernelWork work;
  Counter counter(work);
  for (size_t i = 0; i < kernel.sizes.size(); ++i)
    counter.set(kernel.sizes[i], hint_of(call.sizes[i]).value_or(1));
  counter.visit(kernel.body, 1);
  return work;
}

Work work_of(const graph::Graph &region) {
  Work work;
  for (const auto &node : region.nodes()) {
    if (node->op->kind == OpKind::kView || node->operands.empty())
      continue;
    if (double flops = 2 * products(*node); flops > 0) {
      work.flops += flops;
      work.contractions += flops;
      continue;
    }
    const graph::Value *counted = node->op->kind == OpKind::kReduction ? node->operands[0] : node->result();
    if (is_float(counted->type.dtype) || is_complex(counted->type.dtype))
      work.flops += elements(counted->type) * node->op->cost;
  }
  return work;
}

double elements_of(const graph::Node &group, const LoweredGroup &lowered, const BufferReference &reference) {
  switch (reference.kind) {
  case BufferReference::Kind::kOperand: return elements(group.operands[reference.index]->type);
  case BufferReference::Kind::kResult: return elements(group.results[reference.index]->type);
  default: return static_cast<double>(hint_of(lowered.temporaries[reference.index].elements).value_or(1));
  }
}

} // namespace

std::vector<Work> work_of_calls(const graph::Node &group, const LoweredGroup &lowered) {
  const Work whole = work_of(region_of(group));
  std::vector<Work> result;
  std::vector<double> operations;
  double sum = 0;
  for (const KernelCall &call : lowered.calls) {
    const loop::Kernel &kernel = *lowered.kernels[call.kernel];
    KernelWork work = work_of(kernel, call);
    operations.push_back(work.operations);
    sum += work.operations;
    double bytes = 0;
    for (size_t i = 0; i < call.buffers.size(); ++i)
      bytes += static_cast<double>(size_of(kernel.buffers[i]->dtype)) *
               std::min(work.accesses[kernel.buffers[i]], elements_of(group, lowered, call.buffers[i]));
    result.push_back({.bytes = bytes});
  }
  for (size_t i = 0; i < result.size(); ++i) {
    double share = sum > 0 ? operations[i] / sum : 0;
    result[i].flops = share * whole.flops;
    result[i].contractions = share * whole.contractions;
  }
  return result;
}

} // namespace oxyfuel
