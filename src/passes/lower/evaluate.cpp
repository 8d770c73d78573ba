// Elements of region values as expressions, and kernels in the making.
#include "passes/lower/evaluate.h"

#include "ops/op.h"
#include "runtime/abi.h"
#include "support/error.h"

namespace oxyfuel {

namespace {

/// Pointwise operators on integers check divisors, those on floats that an operand is in the range that they take.
OxyfuelStatus status_of_failure(const graph::Node &node) {
  if (node.op->kind != OpKind::kPointwise)
    return kOxyfuelIndexOutOfRange;
  return is_float(compute_of(node)) ? kOxyfuelAssertFailed : kOxyfuelDivisionByZero;
}

} // namespace

const graph::Graph &region_of(const graph::Node &group) { return *group.get<std::shared_ptr<graph::Graph>>("region"); }

Expr flat_index(ExprContext &context, const graph::Type &type, const graph::Layout &layout,
                std::span<const Expr> index) {
  std::vector<Expr> strides = layout.strides;
  if (strides.empty() && type.rank() > 0)
    strides = graph::contiguous_strides(context, type.shape);
  Expr flat = layout.offset ? layout.offset : context.integer(0);
  for (size_t i = 0; i < index.size(); ++i)
    if (!type.shape[i].is_const(1))
      flat = flat + index[i] * strides[i];
  return flat;
}

Evaluator::Evaluator(const graph::Graph &region)
    : region_(region), context_(const_cast<graph::Graph &>(region).context()) {
  for (const auto &input : region.inputs())
    input_buffers_.push_back(context_.new_buffer(input->name, input->type.dtype));
}

void Evaluator::bind(const graph::Value *value, const std::vector<Expr> *index, Expr replacement) {
  Binding binding;
  binding.anywhere = index == nullptr;
  if (index)
    binding.index = *index;
  binding.replacement = replacement;
  bindings_[value] = std::move(binding);
  memo_.clear();
}

void Evaluator::unbind(const graph::Value *value) {
  bindings_.erase(value);
  memo_.clear();
}

std::vector<Evaluator::Check> Evaluator::take_checks() {
  std::vector<Check> taken;
  taken.swap(checks_);
  memo_.clear();
  return taken;
}

Expr Evaluator::element(const graph::Value *value, std::span<const Expr> index, Expr mask) {
  if (auto it = bindings_.find(value); it != bindings_.end()) {
    const Binding &binding = it->second;
    if (binding.anywhere || std::equal(binding.index.begin(), binding.index.end(), index.begin(), index.end()))
      return binding.replacement;
  }
  std::vector<const void *> key{value, mask.node()};
  for (Expr e : index)
    key.push_back(e.node());
  if (auto it = memo_.find(key); it != memo_.end())
    return it->second;

  Expr result;
  if (!value->producer) {
    result = context_.load(input_buffers_[value->index], flat_index(context_, value->type, value->layout, index), mask);
  } else {
    const graph::Node &node = *value->producer;
    OpKind kind = node.op->kind;
    if (kind != OpKind::kPointwise && kind != OpKind::kView && kind != OpKind::kIndexed)
      throw UnsupportedError(std::string(node.op->name) +
                             " is read inside its own kernel at another place than its own");
    ReadOperand read = [&](int operand, std::span<const Expr> at, Expr inner_mask) {
      Expr both = mask.is_empty() ? inner_mask : inner_mask.is_empty() ? mask : mask && inner_mask;
      return element(node.operands[operand], at, both);
    };
    if (Expr check = check_of(context_, node, index, read))
      checks_.push_back({mask ? !mask || check : check, status_of_failure(node)});
    result = element_of(context_, node, index, read);
  }
  memo_.emplace(std::move(key), result);
  return result;
}

KernelFrame::KernelFrame(const graph::Node &group, std::string name)
    : group_(group), kernel_(std::make_unique<loop::Kernel>()), builder_(*kernel_) {
  kernel_->name = std::move(name);
}

Expr KernelFrame::emit(Expr in_program, const VarMap &vars) {
  return import(
      in_program, context(),
      [&](const Var *v) -> Expr {
        if (auto it = vars.find(v); it != vars.end())
          return it->second;
        auto [it, is_new] = symbols_.try_emplace(v, nullptr);
        if (is_new) {
          it->second = builder_.size(v->name);
          it->second->lower = v->lower;
          it->second->upper = v->upper;
          it->second->hint = v->hint;
          call_sizes_.push_back(in_program.context().var(v));
        }
        return context().var(it->second);
      },
      [&](const Buffer *b) -> const Buffer * {
        if (auto it = buffers_.find(b); it != buffers_.end())
          return it->second;
        auto input = inputs_.find(b);
        OXYFUEL_CHECK(input != inputs_.end(), "a load from a buffer that the kernel does not know");
        const Buffer *parameter = operand(input->second);
        buffers_[b] = parameter;
        return parameter;
      });
}

Buffer *KernelFrame::parameter(BufferReference reference, DType dtype, Buffer::Kind kind, const std::string &name) {
  for (size_t i = 0; i < call_.buffers.size(); ++i)
    if (call_.buffers[i].kind == reference.kind && call_.buffers[i].index == reference.index) {
      if (kernel_->buffers[i]->kind != kind)
        kernel_->buffers[i]->kind = Buffer::Kind::kInOut;
      return kernel_->buffers[i];
    }
  call_.buffers.push_back(reference);
  return builder_.parameter(name, dtype, kind);
}

Buffer *KernelFrame::operand(int i) {
  return parameter({BufferReference::Kind::kOperand, i}, group_.operands[i]->type.dtype, Buffer::Kind::kInput,
                   "in" + std::to_string(i));
}

Buffer *KernelFrame::result(int i) {
  return parameter({BufferReference::Kind::kResult, i}, group_.result(i)->type.dtype, Buffer::Kind::kOutput,
                   "out" + std::to_string(i));
}

Buffer *KernelFrame::temporary(int i, DType dtype, bool is_written) {
  return parameter({BufferReference::Kind::kTemporary, i}, dtype,
                   is_written ? Buffer::Kind::kOutput : Buffer::Kind::kInput, "temp" + std::to_string(i));
}

void KernelFrame::use_inputs(const Evaluator &evaluator) {
  for (size_t i = 0; i < region_of(group_).inputs().size(); ++i)
    inputs_[evaluator.input_buffer(static_cast<int>(i))] = static_cast<int>(i);
}

void KernelFrame::finish(LoweredGroup &lowered) {
  loop::assign_scratch(*kernel_);
  call_.kernel = static_cast<int>(lowered.kernels.size());
  call_.sizes = call_sizes_;
  lowered.kernels.push_back(std::move(kernel_));
  lowered.calls.push_back(std::move(call_));
}

} // namespace oxyfuel
