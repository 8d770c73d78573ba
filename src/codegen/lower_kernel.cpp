// Statements. A serial loop over vectors whose last one is partial is split: whole steps first, where the lane masks
// are known to be full, then the rest. A vector loop whose extent is not known to be full gets both forms behind a
// branch when it is short.
#include "codegen/lower_kernel.h"

#include "codegen/lower_state.h"
#include "runtime/abi.h"
#include "support/error.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/Module.h>

#include <unordered_set>

namespace oxyfuel::codegen {

namespace {

/// Vector loop bodies up to this many expression nodes are emitted twice, without and with a lane mask.
constexpr size_t kTwoFormNodes = 300;
/// Loop bodies up to this many statements are emitted twice, for whole steps and for the last one.
constexpr size_t kSplitStatements = 60;

void count_nodes(Expr e, std::unordered_set<const ExprNode *> &seen) {
  if (e.is_empty() || seen.size() > kTwoFormNodes || !seen.insert(e.node()).second)
    return;
  for (int i = 0; i < e->operand_count; ++i)
    count_nodes(e.operand(i), seen);
}

bool is_short(const loop::Block &statements) {
  std::unordered_set<const ExprNode *> seen;
  for (const auto &statement : statements) {
    if (auto *store = std::get_if<loop::Store>(&statement->data)) {
      count_nodes(store->value, seen);
      count_nodes(store->mask, seen);
    } else if (auto *let = std::get_if<loop::Let>(&statement->data)) {
      count_nodes(let->value, seen);
    }
  }
  return seen.size() <= kTwoFormNodes;
}

/// Statements as emitted: bodies of unroll loops count once a copy.
size_t count_statements(const loop::Block &statements) {
  size_t count = 0;
  for (const auto &statement : statements) {
    ++count;
    if (auto *loop = std::get_if<loop::For>(&statement->data))
      count += count_statements(loop->body) *
               (loop->kind == loop::For::Kind::kUnroll ? static_cast<size_t>(loop->extent.constant().value_or(1)) : 1);
    else if (auto *branch = std::get_if<loop::If>(&statement->data))
      count += count_statements(branch->then_body) + count_statements(branch->else_body);
  }
  return count;
}

} // namespace

KernelLowering::Scope::Scope(KernelLowering &lowering)
    : lowering_(lowering), scoped_{lowering.memos_[0].scoped.size(), lowering.memos_[1].scoped.size()},
      facts_(lowering.facts_.size()), bound_(lowering.bound_.size()) {
  lowering.forget_loads();
}

KernelLowering::Scope::~Scope() {
  lowering_.forget_loads();
  for (int i = 0; i < 2; ++i) {
    Memo &memo = lowering_.memos_[i];
    for (; memo.scoped.size() > scoped_[i]; memo.scoped.pop_back())
      memo.values.erase(memo.scoped.back());
  }
  for (; lowering_.bound_.size() > bound_; lowering_.bound_.pop_back()) {
    lowering_.bindings_.erase(lowering_.bound_.back());
    lowering_.constants_.erase(lowering_.bound_.back());
  }
  lowering_.facts_.erase(lowering_.facts_.begin() + static_cast<std::ptrdiff_t>(facts_), lowering_.facts_.end());
}

KernelLowering::KernelLowering(const loop::Kernel &kernel, llvm::Function *function, const Target &target,
                               const LowerOptions &options)
    : kernel_(kernel), function_(function), builder_([&] {
        llvm::LLVMContext &context = function->getContext();
        llvm::BasicBlock *entry = llvm::BasicBlock::Create(context, "entry", function);
        llvm::BasicBlock *start = llvm::BasicBlock::Create(context, "start", function);
        return llvm::IRBuilder<>(llvm::IRBuilder<>(entry).CreateBr(start));
      }()),
      values_(builder_, target), memory_(values_, kernel, function), options_(options) {}

llvm::BasicBlock *KernelLowering::new_block(const char *name) {
  return llvm::BasicBlock::Create(function_->getContext(), name, function_);
}

void KernelLowering::bind(const Var *var, Binding binding) {
  bindings_[var] = std::move(binding);
  bound_.push_back(var);
}

void KernelLowering::run() {
  llvm::MDNode *nothing = llvm::MDNode::get(ir().getContext(), {});
  for (size_t i = 0; i < kernel_.sizes.size(); ++i) {
    llvm::Value *slot = ir().CreateConstInBoundsGEP1_64(ir().getInt64Ty(), function_->getArg(1), i);
    llvm::LoadInst *size = ir().CreateLoad(ir().getInt64Ty(), slot, kernel_.sizes[i]->name);
    size->setMetadata(llvm::LLVMContext::MD_invariant_load, nothing);
    bind(kernel_.sizes[i], {{size}, {}, {}});
  }
  ir().SetInsertPoint(function_->getEntryBlock().getTerminator()->getSuccessor(0));
  block(kernel_.body);
  ir().CreateRet(ir().getInt32(kOxyfuelOk));
}

void KernelLowering::block(const loop::Block &statements) {
  for (const auto &one : statements)
    statement(*one);
}

void KernelLowering::statement(const loop::Statement &statement) {
  forget_loads();
  if (auto *loop = std::get_if<loop::For>(&statement.data)) {
    switch (loop->kind) {
    case loop::For::Kind::kTask: return task_loop(*loop);
    case loop::For::Kind::kSerial: return serial_loop(*loop);
    case loop::For::Kind::kUnroll: return unroll_loop(*loop);
    case loop::For::Kind::kVector: return vector_loop(*loop);
    }
  } else if (auto *one = std::get_if<loop::Store>(&statement.data)) {
    store(*one);
  } else if (auto *one = std::get_if<loop::Let>(&statement.data)) {
    let(*one);
  } else if (auto *one = std::get_if<loop::If>(&statement.data)) {
    branch(*one);
  } else if (auto *one = std::get_if<loop::Local>(&statement.data)) {
    memory_.declare(one->buffer);
  } else if (auto *one = std::get_if<loop::Check>(&statement.data)) {
    check(*one);
  } else if (auto *one = std::get_if<loop::TileContract>(&statement.data)) {
    contract(*one);
  }
}

void KernelLowering::task_loop(const loop::For &loop) {
  OXYFUEL_CHECK(loop.begin.is_const(0) && loop.step == 1, "codegen: a task loop counts from 0 in steps of 1");
  counted_loop(loop, function_->getArg(2), function_->getArg(3));
}

void KernelLowering::counted_loop(const loop::For &loop, llvm::Value *begin, llvm::Value *end) {
  llvm::BasicBlock *before = ir().GetInsertBlock(), *body = new_block("loop"), *after = new_block("end");
  ir().CreateCondBr(ir().CreateICmpSLT(begin, end), body, after);
  ir().SetInsertPoint(body);
  llvm::PHINode *counter = ir().CreatePHI(ir().getInt64Ty(), 2, loop.var->name);
  counter->addIncoming(begin, before);
  {
    Scope scope(*this);
    bind(loop.var, {{counter}, {}, {}});
    block(loop.body);
  }
  llvm::Value *next = ir().CreateNSWAdd(counter, ir().getInt64(static_cast<uint64_t>(loop.step)));
  counter->addIncoming(next, ir().GetInsertBlock());
  ir().CreateCondBr(ir().CreateICmpSLT(next, end), body, after);
  ir().SetInsertPoint(after);
}

bool KernelLowering::proves_at_least(Expr e, int64_t bound) {
  if (!constants_.empty())
    e = substitute(e, constants_);
  Range range = range_of(e);
  if (range.lower && *range.lower >= bound)
    return true;
  if (e.kind() == ExprKind::kMin)
    return proves_at_least(e.operand(0), bound) && proves_at_least(e.operand(1), bound);
  if (e.kind() == ExprKind::kMax && (proves_at_least(e.operand(0), bound) || proves_at_least(e.operand(1), bound)))
    return true;
  for (const Fact &fact : facts_) {
    Expr known = constants_.empty() ? fact.expression : substitute(fact.expression, constants_);
    Range difference = range_of(e - known);
    if (difference.lower && *difference.lower + fact.lower >= bound)
      return true;
  }
  return false;
}

bool KernelLowering::gains_from_full_steps(const loop::Block &statements) {
  for (const auto &statement : statements) {
    if (auto *loop = std::get_if<loop::For>(&statement->data)) {
      if (loop->kind != loop::For::Kind::kVector
              ? gains_from_full_steps(loop->body)
              : !loop->extent.constant() && proves_at_least(loop->extent, loop->width))
        return true;
    } else if (auto *branch = std::get_if<loop::If>(&statement->data)) {
      if (gains_from_full_steps(branch->then_body) || gains_from_full_steps(branch->else_body))
        return true;
    }
  }
  return false;
}

void KernelLowering::serial_loop(const loop::For &loop) {
  llvm::Value *begin = scalar(loop.begin), *extent = scalar(loop.extent);
  llvm::Value *end = ir().CreateNSWAdd(begin, extent);
  bool split = false;
  Expr remaining = loop.begin + loop.extent - loop.begin.context().var(loop.var);
  auto extent_constant = loop.extent.constant();
  bool whole = extent_constant && *extent_constant % loop.step == 0;
  if (loop.step > 1 && splitting_ && (whole || count_statements(loop.body) <= kSplitStatements)) {
    facts_.push_back({remaining, loop.step});
    split = gains_from_full_steps(loop.body);
    facts_.pop_back();
  }
  if (!split)
    return counted_loop(loop, begin, end);
  llvm::Value *step = ir().getInt64(static_cast<uint64_t>(loop.step));
  llvm::Value *whole_end = ir().CreateSub(end, ir().CreateSRem(extent, step));
  facts_.push_back({remaining, loop.step});
  counted_loop(loop, begin, whole_end);
  facts_.pop_back();
  if (whole)
    return;
  llvm::BasicBlock *rest = new_block("rest"), *after = new_block("end");
  ir().CreateCondBr(ir().CreateICmpSLT(whole_end, end), rest, after);
  ir().SetInsertPoint(rest);
  {
    Scope scope(*this);
    bool outer = std::exchange(splitting_, false);
    bind(loop.var, {{whole_end}, {}, {}});
    block(loop.body);
    splitting_ = outer;
  }
  ir().CreateBr(after);
  ir().SetInsertPoint(after);
}

void KernelLowering::unroll_loop(const loop::For &loop) {
  auto extent = loop.extent.constant();
  OXYFUEL_CHECK(extent, "codegen: the extent of an unroll loop must be constant");
  for (int64_t i = 0; i < *extent; i += loop.step) {
    Scope scope(*this);
    llvm::Value *value = ir().CreateAdd(scalar(loop.begin), ir().getInt64(static_cast<uint64_t>(i)));
    bind(loop.var, {{value}, {}, {}});
    if (auto begin = loop.begin.constant())
      constants_[loop.var] = loop.begin.context().integer(*begin + i);
    block(loop.body);
  }
}

void KernelLowering::vector_body(const loop::For &loop, llvm::Value *mask) {
  Scope scope(*this);
  strides_.clear();
  if (loop.width == 1) {
    bind(loop.var, {{ir().getInt64(0)}, {}, {}});
    return block(loop.body);
  }
  llvm::SmallVector<llvm::Constant *, 64> lanes;
  for (int lane = 0; lane < loop.width; ++lane)
    lanes.push_back(ir().getInt64(static_cast<uint64_t>(lane)));
  vector_ = {loop.var, loop.width, mask};
  bind(loop.var, {{llvm::ConstantVector::get(lanes)}, {ir().getInt64(0)}, 1});
  block(loop.body);
  vector_ = {};
}

void KernelLowering::vector_loop(const loop::For &loop) {
  OXYFUEL_CHECK(!vector_.lane, "codegen: vector loop inside a vector loop");
  if (proves_at_least(loop.extent, loop.width))
    return vector_body(loop, nullptr);
  llvm::Value *extent = scalar(loop.extent);
  llvm::BasicBlock *after = new_block("end");
  auto when = [&](llvm::Value *condition, const char *name) {
    llvm::BasicBlock *yes = new_block(name), *no = new_block("else");
    ir().CreateCondBr(condition, yes, no);
    ir().SetInsertPoint(yes);
    return no;
  };
  auto known = loop.extent.constant();
  if (loop.width > 1 && !known && is_short(loop.body)) {
    llvm::BasicBlock *partial =
        when(ir().CreateICmpSGE(extent, ir().getInt64(static_cast<uint64_t>(loop.width))), "full");
    vector_body(loop, nullptr);
    ir().CreateBr(after);
    ir().SetInsertPoint(partial);
  }
  llvm::BasicBlock *none = when(ir().CreateICmpSGT(extent, ir().getInt64(0)), "partial");
  llvm::Value *mask = nullptr;
  if (loop.width > 1) {
    llvm::SmallVector<llvm::Constant *, 64> lanes;
    for (int lane = 0; lane < loop.width; ++lane)
      lanes.push_back(ir().getInt32(static_cast<uint32_t>(lane)));
    llvm::Value *count = ir().CreateTrunc(extent, ir().getInt32Ty());
    mask = ir().CreateICmpULT(llvm::ConstantVector::get(lanes), values_.splat(count, loop.width));
  }
  vector_body(loop, mask);
  ir().CreateBr(after);
  ir().SetInsertPoint(none);
  ir().CreateBr(after);
  ir().SetInsertPoint(after);
}

void KernelLowering::store(const loop::Store &store) {
  Value value = evaluate(store.value);
  llvm::Value *mask = store.mask ? evaluate(store.mask).re : nullptr;
  if (!vector_.lane)
    return memory_.store_scalar(store.buffer, scalar(store.index), value, mask);
  Access access;
  bool spread = access_of(store.index, access);
  bool uniform = !value.is_vector() && (!mask || !mask->getType()->isVectorTy());
  if (!spread && uniform)
    return memory_.store_scalar(store.buffer, access.base, value, mask);
  if (!spread) { // the last active lane's value stays
    access.shape = Access::Shape::kIndexed;
    access.indices = values_.splat(access.base, access.lanes);
  }
  access.mask = combine_masks(mask, vector_.mask);
  if (access.mask)
    access.mask = values_.splat(access.mask, access.lanes);
  memory_.store_vector(store.buffer, access, values_.splat(value, access.lanes));
}

void KernelLowering::let(const loop::Let &let) {
  Value value = evaluate(let.value);
  Binding binding{value, {}, {}};
  if (value.is_vector() && let.value.dtype() == DType::kI64) {
    binding.stride = lane_stride(let.value);
    if (binding.stride)
      binding.at_zero = evaluate_at_zero(let.value);
    if (binding.stride == 0)
      binding.value = binding.at_zero;
  }
  bind(let.var, binding);
}

void KernelLowering::branch(const loop::If &branch) {
  llvm::Value *condition = scalar(branch.condition);
  llvm::BasicBlock *yes = new_block("then"), *no = new_block("else"), *after = new_block("end");
  ir().CreateCondBr(condition, yes, no);
  bool ordered = (branch.condition.kind() == ExprKind::kLt || branch.condition.kind() == ExprKind::kLe) &&
                 branch.condition.operand(0).dtype() == DType::kI64;
  int64_t strict = branch.condition.kind() == ExprKind::kLt ? 1 : 0;
  for (bool taken : {true, false}) {
    ir().SetInsertPoint(taken ? yes : no);
    Scope scope(*this);
    if (ordered) {
      Expr a = branch.condition.operand(0), b = branch.condition.operand(1);
      facts_.push_back(taken ? Fact{b - a, strict} : Fact{a - b, 1 - strict});
    }
    block(taken ? branch.then_body : branch.else_body);
    ir().CreateBr(after);
  }
  ir().SetInsertPoint(after);
}

void KernelLowering::check(const loop::Check &check) {
  llvm::Value *condition = evaluate(check.condition).re;
  if (condition->getType()->isVectorTy()) {
    if (vector_.mask)
      condition = ir().CreateOr(condition, ir().CreateNot(vector_.mask));
    condition = ir().CreateAndReduce(condition);
  }
  llvm::BasicBlock *fail = new_block("fail"), *pass = new_block("pass");
  ir().CreateCondBr(condition, pass, fail);
  ir().SetInsertPoint(fail);
  ir().CreateRet(ir().getInt32(static_cast<uint32_t>(check.status)));
  ir().SetInsertPoint(pass);
}

llvm::Function *lower_kernel(const loop::Kernel &kernel, const std::string &name, llvm::Module &module,
                             const Target &target, const LowerOptions &options) {
  llvm::LLVMContext &context = module.getContext();
  llvm::Type *pointer = llvm::PointerType::get(context, 0), *word = llvm::Type::getInt64Ty(context);
  llvm::FunctionType *type =
      llvm::FunctionType::get(llvm::Type::getInt32Ty(context), {pointer, pointer, word, word, pointer, pointer}, false);
  llvm::Function *function = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, name, module);
  const char *names[] = {"buffers", "sizes", "begin", "end", "scratch", "host"};
  for (unsigned i = 0; i < 6; ++i)
    function->getArg(i)->setName(names[i]);
  function->addParamAttr(4, llvm::Attribute::getWithAlignment(context, llvm::Align(64)));
  KernelLowering(kernel, function, target, options).run();
  return function;
}

} // namespace oxyfuel::codegen
