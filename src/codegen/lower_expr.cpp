// Expressions. Inside a vector loop a value is a vector exactly where it depends on the lane; what does not stays
// scalar.
#include "codegen/lower_state.h"

#include "runtime/abi.h"
#include "support/error.h"

#include <llvm/ADT/SmallVector.h>

namespace oxyfuel::codegen {

Value KernelLowering::evaluate(Expr e) {
  if (e.kind() == ExprKind::kConst)
    return values_.constant(*e.node());
  Memo &memo = memos_[at_zero_];
  auto recall = [&](Memo &from, bool scalar_only) -> const Remembered * {
    auto found = from.values.find(e.node());
    if (found == from.values.end() || (scalar_only && found->second.value.is_vector()))
      return nullptr;
    return &found->second;
  };
  const Remembered *known = recall(memo, false);
  if (!known && at_zero_)
    known = recall(memos_[0], true);
  if (known) {
    saw_load_ |= known->has_load;
    return known->value;
  }
  bool outer = std::exchange(saw_load_, false);
  Value value = evaluate_new(e);
  if (e.kind() != ExprKind::kVar) {
    memo.values[e.node()] = {value, saw_load_};
    (saw_load_ ? memo.loaded : memo.scoped).push_back(e.node());
  }
  saw_load_ |= outer;
  return value;
}

Value KernelLowering::evaluate_new(Expr e) {
  switch (e.kind()) {
  case ExprKind::kVar: {
    auto found = bindings_.find(e.var());
    OXYFUEL_CHECK(found != bindings_.end(), "codegen: variable " + e.var()->name + " is used outside its scope");
    Binding &binding = found->second;
    if (!at_zero_ || !binding.value.is_vector())
      return binding.value;
    if (!binding.at_zero) {
      auto first = [&](llvm::Value *part) { return part ? ir().CreateExtractElement(part, uint64_t{0}) : nullptr; };
      return {first(binding.value.re), first(binding.value.im)};
    }
    return binding.at_zero;
  }
  case ExprKind::kLoad: saw_load_ = true; return load(e);
  default: {
    if (Value value = divide_lanes(e))
      return value;
    Value operands[3];
    for (int i = 0; i < e->operand_count; ++i)
      operands[i] = evaluate(e.operand(i));
    std::span<const Value> given(operands, e->operand_count);
    if (e.kind() == ExprKind::kHostCall)
      return {host_call(e->integer, given)};
    if (e.kind() != ExprKind::kRem || !is_float(e.dtype()))
      return values_.operate(e, given);
    // fmod is exact, so that in double precision has the bits of that in the operands' type.
    for (Value &operand : operands)
      if (operand)
        operand = values_.cast(operand, e.dtype(), DType::kF64);
    return values_.cast({host_call(kHostFmod, given)}, DType::kF64, e.dtype());
  }
  }
}

/// Floor division and modulo of `base + lane * stride` by a divisor that is the same in all lanes: lane 0 is divided as
/// a scalar, and what the lanes add to its remainder is a small number. 64-bit division by a variable would be done
/// lane by lane. Gives nothing where the general way is as good.
Value KernelLowering::divide_lanes(Expr e) {
  bool is_modulo = e.kind() == ExprKind::kFloorMod;
  if (!vector_.lane || at_zero_ || (e.kind() != ExprKind::kFloorDiv && !is_modulo) || e.dtype() != DType::kI64)
    return {};
  Expr dividend = e.operand(0), divisor = e.operand(1);
  std::optional<int64_t> stride = lane_stride(dividend), known = divisor.constant();
  Range range = range_of(dividend), divisors = range_of(divisor);
  constexpr int64_t kFew = 1 << 16;
  bool is_narrow = known && range.lower && *range.lower >= 0 && range.upper && *range.upper < UINT32_MAX;
  if (!stride || *stride == 0 || *stride < -kFew || *stride > kFew || lane_stride(divisor) != 0 || is_narrow ||
      !divisors.lower || *divisors.lower < 1)
    return {};
  llvm::Value *by = scalar(divisor), *quotient = scalar(floor_div(dividend, divisor));
  llvm::Value *rest = ir().CreateSub(scalar(dividend), ir().CreateMul(quotient, by));
  int width = vector_.width;
  llvm::Type *longs = values_.type(DType::kI64, width), *words = values_.type(DType::kI32, width);
  if (known && *stride > 0 && *known < INT32_MAX - *stride * width) {
    llvm::SmallVector<llvm::Constant *, 64> steps;
    for (int lane = 0; lane < width; ++lane)
      steps.push_back(ir().getInt32(static_cast<uint32_t>(lane * *stride)));
    llvm::Value *number = ir().CreateAdd(values_.splat(ir().CreateTrunc(rest, ir().getInt32Ty()), width),
                                         llvm::ConstantVector::get(steps));
    llvm::Value *divisor_word = llvm::ConstantInt::get(words, static_cast<uint64_t>(*known));
    if (is_modulo)
      return {ir().CreateZExt(ir().CreateURem(number, divisor_word), longs)};
    llvm::Value *more = ir().CreateZExt(ir().CreateUDiv(number, divisor_word), longs);
    return {ir().CreateAdd(values_.splat(quotient, width), more)};
  }
  // The rounded quotient of whole numbers below 2^52 has the floor of the exact one.
  llvm::SmallVector<llvm::Constant *, 64> steps, long_steps;
  for (int lane = 0; lane < width; ++lane) {
    steps.push_back(llvm::ConstantFP::get(ir().getContext(), llvm::APFloat(static_cast<double>(lane * *stride))));
    long_steps.push_back(ir().getInt64(static_cast<uint64_t>(lane * *stride)));
  }
  auto as_double = [&](llvm::Value *value) {
    return values_.splat(ir().CreateSIToFP(value, ir().getDoubleTy()), width);
  };
  llvm::Value *exact =
      ir().CreateFDiv(ir().CreateFAdd(as_double(rest), llvm::ConstantVector::get(steps)), as_double(by));
  llvm::Value *floor = ir().CreateUnaryIntrinsic(llvm::Intrinsic::floor, exact);
  llvm::Value *more = ir().CreateSExt(ir().CreateFPToSI(floor, words), longs);
  if (!is_modulo)
    return {ir().CreateAdd(values_.splat(quotient, width), more)};
  llvm::Value *number = ir().CreateAdd(values_.splat(rest, width), llvm::ConstantVector::get(long_steps));
  return {ir().CreateSub(number, ir().CreateMul(more, values_.splat(by, width)))};
}

Value KernelLowering::evaluate_at_zero(Expr e) {
  bool outer = std::exchange(at_zero_, vector_.lane != nullptr);
  Value value = evaluate(e);
  at_zero_ = outer;
  return value;
}

bool KernelLowering::has_vector_var(Expr e) {
  std::vector<const Var *> vars;
  collect_vars(e, vars);
  for (const Var *var : vars) {
    auto found = bindings_.find(var);
    if (var != vector_.lane && found != bindings_.end() && found->second.value.is_vector())
      return true;
  }
  return false;
}

std::optional<int64_t> KernelLowering::lane_stride(Expr e) {
  if (!vector_.lane || e.kind() == ExprKind::kConst)
    return 0;
  if (auto known = strides_.find(e.node()); known != strides_.end())
    return known->second;
  std::optional<int64_t> stride = lane_stride_new(e);
  strides_[e.node()] = stride;
  return stride;
}

std::optional<int64_t> KernelLowering::lane_stride_new(Expr e) {
  if (e.kind() == ExprKind::kVar) {
    if (e.var() == vector_.lane)
      return 1;
    auto found = bindings_.find(e.var());
    if (found != bindings_.end() && found->second.value.is_vector())
      return found->second.stride;
    return 0;
  }
  std::optional<int64_t> strides[3];
  bool uniform = true;
  for (int i = 0; i < e->operand_count; ++i) {
    strides[i] = lane_stride(e.operand(i));
    uniform &= strides[i] == 0;
  }
  if (uniform)
    return 0;
  if (e.kind() == ExprKind::kLoad || e.dtype() != DType::kI64)
    return {};
  bool known = strides[0] && (e->operand_count < 2 || strides[1]);
  if (known && e.kind() == ExprKind::kAdd)
    return *strides[0] + *strides[1];
  if (known && e.kind() == ExprKind::kSub)
    return *strides[0] - *strides[1];
  if (known && e.kind() == ExprKind::kNeg)
    return -*strides[0];
  if (e.kind() == ExprKind::kMul)
    for (int i = 0; i < 2; ++i)
      if (auto factor = e.operand(i).constant(); factor && strides[1 - i])
        return *factor * *strides[1 - i];
  if (e->is_index && !has_vector_var(e))
    return stride_in(e, vector_.lane);
  return {};
}

llvm::Value *KernelLowering::combine_masks(llvm::Value *a, llvm::Value *b) {
  if (!a || !b)
    return a ? a : b;
  return ir().CreateAnd(values_.splat(a, vector_.width), values_.splat(b, vector_.width));
}

bool KernelLowering::access_of(Expr index, Access &access) {
  access.lanes = vector_.width;
  std::optional<int64_t> stride = lane_stride(index);
  if (stride) {
    access.base = scalar(index);
    access.stride = *stride;
    access.shape = *stride == 1    ? Access::Shape::kContiguous
                   : *stride == -1 ? Access::Shape::kReversed
                                   : Access::Shape::kStrided;
    return *stride != 0;
  }
  access.shape = Access::Shape::kIndexed;
  access.indices = evaluate(index).re;
  Range range = range_of(index);
  if (range.lower && range.upper && *range.lower >= INT32_MIN && *range.upper <= INT32_MAX)
    access.indices = ir().CreateTrunc(
        access.indices, llvm::FixedVectorType::get(ir().getInt32Ty(), static_cast<unsigned>(access.lanes)));
  if (!access.indices->getType()->isVectorTy()) { // a choice between equal lanes
    access.base = access.indices;
    return false;
  }
  return true;
}

Value KernelLowering::load(Expr e) {
  const Buffer *buffer = e.buffer();
  bool masked = e->operand_count > 1;
  if (!vector_.lane || at_zero_)
    return memory_.load_scalar(buffer, evaluate(e.operand(0)).re, masked ? evaluate(e.operand(1)).re : nullptr);
  llvm::Value *mask = masked ? evaluate(e.operand(1)).re : nullptr;
  Access access;
  if (!access_of(e.operand(0), access)) {
    if (!mask || !mask->getType()->isVectorTy())
      return memory_.load_scalar(buffer, access.base, mask);
    llvm::Value *any = ir().CreateOrReduce(combine_masks(mask, vector_.mask));
    Value value = memory_.load_scalar(buffer, access.base, any);
    return values_.select(mask, value, values_.zero(e.dtype()));
  }
  // Lanes past the extent are read too where that is harmless: register buffers have room for them.
  llvm::Value *active =
      buffer->kind == Buffer::Kind::kRegister && access.shape == Access::Shape::kContiguous ? nullptr : vector_.mask;
  access.mask = combine_masks(mask, active);
  if (access.mask)
    access.mask = values_.splat(access.mask, access.lanes);
  return memory_.load_vector(buffer, access);
}

llvm::Value *KernelLowering::host_function(int64_t number, int arity) {
  // OxyfuelHostTable: field 0 points to the unary functions, field 1 to the binary ones.
  llvm::Value *host = function_->getArg(5);
  llvm::MDNode *nothing = llvm::MDNode::get(ir().getContext(), {});
  auto pointer_at = [&](llvm::Value *table, int64_t index) {
    llvm::Value *slot = ir().CreateConstInBoundsGEP1_64(ir().getPtrTy(), table, static_cast<uint64_t>(index));
    llvm::LoadInst *pointer = ir().CreateLoad(ir().getPtrTy(), slot);
    pointer->setMetadata(llvm::LLVMContext::MD_invariant_load, nothing);
    return pointer;
  };
  return pointer_at(pointer_at(host, arity - 1), number);
}

llvm::Value *KernelLowering::host_call(int64_t number_of_function, std::span<const Value> given) {
  int arity = static_cast<int>(given.size());
  llvm::Value *operands[2] = {};
  bool is_vector = false;
  for (int i = 0; i < arity; ++i) {
    operands[i] = given[static_cast<size_t>(i)].re;
    is_vector |= operands[i]->getType()->isVectorTy();
  }
  llvm::Type *number = ir().getDoubleTy();
  llvm::SmallVector<llvm::Type *, 2> parameters(static_cast<size_t>(arity), number);
  llvm::FunctionType *type = llvm::FunctionType::get(number, parameters, false);
  llvm::Value *callee = host_function(number_of_function, arity);
  auto call = [&](llvm::ArrayRef<llvm::Value *> arguments) {
    llvm::CallInst *result = ir().CreateCall(type, callee, arguments);
    result->setDoesNotThrow();
    result->setMemoryEffects(llvm::MemoryEffects::inaccessibleMemOnly()); // errno
    return result;
  };
  if (!is_vector)
    return call({operands, static_cast<size_t>(arity)});
  // A loop over the lanes, by way of the stack: copies of the call would be longer than the rest of the kernel.
  int width = vector_.width;
  llvm::Value *slots[3] = {};
  for (int i = 0; i <= arity; ++i)
    slots[i] = memory_.stack_slot(number, width, "lanes");
  for (int i = 0; i < arity; ++i)
    ir().CreateStore(values_.splat(operands[i], width), slots[i]);
  llvm::BasicBlock *before = ir().GetInsertBlock(), *body = new_block("lane.call"), *after = new_block("lane.end");
  ir().CreateBr(body);
  ir().SetInsertPoint(body);
  llvm::PHINode *lane = ir().CreatePHI(ir().getInt64Ty(), 2);
  lane->addIncoming(ir().getInt64(0), before);
  llvm::SmallVector<llvm::Value *, 2> arguments;
  for (int i = 0; i < arity; ++i)
    arguments.push_back(ir().CreateLoad(number, ir().CreateInBoundsGEP(number, slots[i], lane)));
  ir().CreateStore(call(arguments), ir().CreateInBoundsGEP(number, slots[arity], lane));
  llvm::Value *next = ir().CreateAdd(lane, ir().getInt64(1));
  lane->addIncoming(next, body);
  ir().CreateCondBr(ir().CreateICmpULT(next, ir().getInt64(static_cast<uint64_t>(width))), body, after);
  ir().SetInsertPoint(after);
  return ir().CreateLoad(llvm::FixedVectorType::get(number, static_cast<unsigned>(width)), slots[arity]);
}

void KernelLowering::forget_loads() {
  for (Memo &memo : memos_) {
    for (const ExprNode *node : memo.loaded)
      memo.values.erase(node);
    memo.loaded.clear();
  }
}

} // namespace oxyfuel::codegen
