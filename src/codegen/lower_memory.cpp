// Vectors of neighbours are one wide access; complex numbers are loaded in pairs and taken apart by shuffles. A masked
// access of memory uses masked instructions; a masked store to a register buffer loads, blends and stores instead, so
// that SROA turns the buffer into SSA values.
#include "codegen/lower_memory.h"

#include "support/error.h"

#include <llvm/ADT/SmallVector.h>
#include <llvm/IR/MDBuilder.h>

namespace oxyfuel::codegen {

namespace {

bool is_register(const Buffer *buffer) { return buffer->kind == Buffer::Kind::kRegister; }
bool is_written(const Buffer *buffer) { return buffer->kind != Buffer::Kind::kInput; }

bool never_overlap(const Buffer *a, const Buffer *b) {
  bool a_scratch = a->kind == Buffer::Kind::kScratch, b_scratch = b->kind == Buffer::Kind::kScratch;
  if (a_scratch && b_scratch) {
    auto end = [](const Buffer *x) { return x->scratch_offset + x->size * static_cast<int64_t>(size_of(x->dtype)); };
    return end(a) <= b->scratch_offset || end(b) <= a->scratch_offset;
  }
  if (a_scratch || b_scratch)
    return true;
  if ((is_written(a) && a->is_unaliased) || (is_written(b) && b->is_unaliased))
    return true;
  return (is_written(b) && !is_written(a) && a->is_unaliased) || (is_written(a) && !is_written(b) && b->is_unaliased);
}

llvm::SmallVector<int, 64> interleaved(int lanes) {
  llvm::SmallVector<int, 64> mask;
  for (int i = 0; i < lanes; ++i)
    mask.append({i, i + lanes});
  return mask;
}

llvm::SmallVector<int, 64> every_second(int lanes, int first) {
  llvm::SmallVector<int, 64> mask;
  for (int i = 0; i < lanes; ++i)
    mask.push_back(2 * i + first);
  return mask;
}

llvm::SmallVector<int, 64> doubled(int lanes) {
  llvm::SmallVector<int, 64> mask;
  for (int i = 0; i < lanes; ++i)
    mask.append({i, i});
  return mask;
}

void collect_scratch(const loop::Block &block, std::vector<const Buffer *> &buffers) {
  for (const auto &statement : block) {
    if (auto *loop = std::get_if<loop::For>(&statement->data))
      collect_scratch(loop->body, buffers);
    else if (auto *branch = std::get_if<loop::If>(&statement->data)) {
      collect_scratch(branch->then_body, buffers);
      collect_scratch(branch->else_body, buffers);
    } else if (auto *local = std::get_if<loop::Local>(&statement->data);
               local && local->buffer->kind == Buffer::Kind::kScratch)
      buffers.push_back(local->buffer);
  }
}

} // namespace

MemoryBuilder::MemoryBuilder(ValueBuilder &values, const loop::Kernel &kernel, llvm::Function *function)
    : values_(values), kernel_(kernel), function_(function) {
  llvm::LLVMContext &context = function->getContext();
  llvm::Value *table = function->getArg(0);
  llvm::MDNode *nothing = llvm::MDNode::get(context, {});
  for (size_t i = 0; i < kernel.buffers.size(); ++i) {
    llvm::Value *slot = ir().CreateConstInBoundsGEP1_64(ir().getPtrTy(), table, i);
    llvm::LoadInst *base = ir().CreateLoad(ir().getPtrTy(), slot, kernel.buffers[i]->name);
    base->setMetadata(llvm::LLVMContext::MD_invariant_load, nothing);
    bases_[kernel.buffers[i]] = base;
  }
  make_alias_scopes();
}

void MemoryBuilder::make_alias_scopes() {
  std::vector<const Buffer *> buffers(kernel_.buffers.begin(), kernel_.buffers.end());
  collect_scratch(kernel_.body, buffers);
  llvm::MDBuilder metadata(function_->getContext());
  llvm::MDNode *domain = metadata.createAnonymousAliasScopeDomain(kernel_.name);
  std::vector<llvm::Metadata *> scopes;
  for (const Buffer *buffer : buffers)
    scopes.push_back(metadata.createAnonymousAliasScope(domain, buffer->name));
  for (size_t i = 0; i < buffers.size(); ++i) {
    std::vector<llvm::Metadata *> others;
    for (size_t j = 0; j < buffers.size(); ++j)
      if (i != j && never_overlap(buffers[i], buffers[j]))
        others.push_back(scopes[j]);
    llvm::LLVMContext &context = function_->getContext();
    scopes_[buffers[i]] = {llvm::MDNode::get(context, scopes[i]),
                           others.empty() ? nullptr : llvm::MDNode::get(context, others)};
  }
}

llvm::Instruction *MemoryBuilder::annotate(llvm::Instruction *access, const Buffer *buffer) {
  auto found = scopes_.find(buffer);
  if (found == scopes_.end())
    return access;
  access->setMetadata(llvm::LLVMContext::MD_alias_scope, found->second.own);
  if (found->second.others)
    access->setMetadata(llvm::LLVMContext::MD_noalias, found->second.others);
  if (buffer->kind == Buffer::Kind::kInput && buffer->is_unaliased && llvm::isa<llvm::LoadInst>(access))
    access->setMetadata(llvm::LLVMContext::MD_invariant_load, llvm::MDNode::get(access->getContext(), {}));
  return access;
}

llvm::Value *MemoryBuilder::stack_slot(llvm::Type *type, int64_t count, const char *name) {
  llvm::IRBuilder<>::InsertPointGuard guard(ir());
  llvm::BasicBlock &entry = function_->getEntryBlock();
  ir().SetInsertPoint(&entry, entry.begin());
  llvm::AllocaInst *slot = ir().CreateAlloca(llvm::ArrayType::get(type, static_cast<uint64_t>(count)), nullptr, name);
  slot->setAlignment(llvm::Align(64));
  return slot;
}

void MemoryBuilder::declare(const Buffer *buffer) {
  if (bases_.count(buffer))
    return;
  if (buffer->kind == Buffer::Kind::kScratch) {
    llvm::IRBuilder<>::InsertPointGuard guard(ir());
    ir().SetInsertPoint(function_->getEntryBlock().getTerminator());
    bases_[buffer] =
        ir().CreateInBoundsPtrAdd(function_->getArg(4), ir().getInt64(static_cast<uint64_t>(buffer->scratch_offset)));
    return;
  }
  // Whole vectors are read and written at the end too, so there is room for one more.
  int64_t count = (buffer->size + 64) * (is_complex(buffer->dtype) ? 2 : 1);
  bases_[buffer] = stack_slot(values_.memory_type(buffer->dtype), count, buffer->name.c_str());
}

llvm::Value *MemoryBuilder::address(const Buffer *buffer, llvm::Value *index) {
  auto base = bases_.find(buffer);
  OXYFUEL_CHECK(base != bases_.end(), "codegen: buffer " + buffer->name + " is neither a parameter nor declared");
  llvm::Type *element = values_.memory_type(buffer->dtype);
  if (is_complex(buffer->dtype))
    element = llvm::ArrayType::get(element, 2);
  // Not inbounds: the base expression of a masked access may lie outside.
  return ir().CreateGEP(element, base->second, index);
}

llvm::Value *MemoryBuilder::safe_address(llvm::Value *mask, llvm::Value *address) {
  if (!zeros_) {
    zeros_ = stack_slot(ir().getInt64Ty(), 2, "zeros");
    llvm::IRBuilder<>::InsertPointGuard guard(ir());
    ir().SetInsertPoint(function_->getEntryBlock().getTerminator());
    for (uint64_t i = 0; i < 2; ++i)
      ir().CreateStore(ir().getInt64(0), ir().CreateConstInBoundsGEP1_64(ir().getInt64Ty(), zeros_, i));
  }
  llvm::Value *safe = zeros_;
  if (auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(mask->getType()); vector && address->getType()->isVectorTy())
    safe = values_.splat(safe, static_cast<int>(vector->getNumElements()));
  return ir().CreateSelect(mask, address, safe);
}

Value MemoryBuilder::from_memory(llvm::Value *re, llvm::Value *im, DType dtype) {
  if (is_bool(dtype))
    re = ir().CreateICmpNE(re, llvm::Constant::getNullValue(re->getType()));
  return {re, im};
}

llvm::Value *MemoryBuilder::to_memory(llvm::Value *value, DType dtype) {
  if (!is_bool(dtype))
    return value;
  llvm::Type *byte = ir().getInt8Ty();
  if (auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(value->getType()))
    byte = llvm::FixedVectorType::get(byte, vector->getNumElements());
  return ir().CreateZExt(value, byte);
}

llvm::Value *MemoryBuilder::load_part(const Buffer *buffer, llvm::Type *element, llvm::Value *address, int lanes,
                                      llvm::Value *mask) {
  llvm::Type *type = lanes == 1 ? element : llvm::FixedVectorType::get(element, static_cast<unsigned>(lanes));
  llvm::Align alignment(element->getPrimitiveSizeInBits() / 8);
  if (lanes == 1 || !mask)
    return annotate(ir().CreateAlignedLoad(type, address, alignment), buffer);
  llvm::Value *zero = llvm::Constant::getNullValue(type);
  if (is_register(buffer))
    return ir().CreateSelect(mask, ir().CreateAlignedLoad(type, address, alignment), zero);
  return annotate(ir().CreateMaskedLoad(type, address, alignment, mask, zero), buffer);
}

void MemoryBuilder::store_part(const Buffer *buffer, llvm::Value *value, llvm::Value *address, llvm::Value *mask) {
  llvm::Align alignment(value->getType()->getScalarSizeInBits() / 8);
  if (!mask) {
    annotate(ir().CreateAlignedStore(value, address, alignment), buffer);
  } else if (is_register(buffer)) {
    llvm::Value *old = ir().CreateAlignedLoad(value->getType(), address, alignment);
    ir().CreateAlignedStore(ir().CreateSelect(mask, value, old), address, alignment);
  } else {
    annotate(ir().CreateMaskedStore(value, address, alignment, mask), buffer);
  }
}

Value MemoryBuilder::load_scalar(const Buffer *buffer, llvm::Value *index, llvm::Value *mask) {
  if (auto *known = mask ? llvm::dyn_cast<llvm::ConstantInt>(mask) : nullptr) {
    if (known->isZero())
      return values_.zero(buffer->dtype);
    mask = nullptr;
  }
  if (mask && is_register(buffer)) // a choice of addresses would keep the buffer in memory
    index = ir().CreateSelect(mask, index, llvm::Constant::getNullValue(index->getType()));
  llvm::Value *place = address(buffer, index);
  if (mask && !is_register(buffer))
    place = safe_address(mask, place);
  llvm::Type *element = values_.memory_type(buffer->dtype);
  llvm::Value *re = load_part(buffer, element, place, 1, nullptr), *im = nullptr;
  if (is_complex(buffer->dtype))
    im = load_part(buffer, element, ir().CreateConstGEP1_64(element, place, 1), 1, nullptr);
  Value value = from_memory(re, im, buffer->dtype);
  if (mask && is_register(buffer))
    value = values_.select(mask, value, values_.zero(buffer->dtype));
  return value;
}

void MemoryBuilder::store_scalar(const Buffer *buffer, llvm::Value *index, Value value, llvm::Value *mask) {
  llvm::Type *element = values_.memory_type(buffer->dtype);
  llvm::Value *re = to_memory(value.re, buffer->dtype);
  auto store = [&](auto write) {
    llvm::Value *place = address(buffer, index);
    write(re, place);
    if (value.im)
      write(value.im, ir().CreateConstGEP1_64(element, place, 1));
  };
  if (!mask)
    return store([&](llvm::Value *part, llvm::Value *place) { store_part(buffer, part, place, nullptr); });
  if (is_register(buffer))
    return store([&](llvm::Value *part, llvm::Value *place) { store_part(buffer, part, place, mask); });
  llvm::BasicBlock *write = llvm::BasicBlock::Create(ir().getContext(), "masked.store", function_);
  llvm::BasicBlock *next = llvm::BasicBlock::Create(ir().getContext(), "masked.next", function_);
  ir().CreateCondBr(mask, write, next);
  ir().SetInsertPoint(write);
  store([&](llvm::Value *part, llvm::Value *place) { store_part(buffer, part, place, nullptr); });
  ir().CreateBr(next);
  ir().SetInsertPoint(next);
}

llvm::Value *MemoryBuilder::lane_addresses(const Buffer *buffer, const Access &access, int part) {
  llvm::Value *addresses;
  if (access.shape == Access::Shape::kIndexed) {
    addresses = address(buffer, access.indices);
  } else {
    llvm::SmallVector<llvm::Constant *, 64> steps;
    int64_t stride = access.shape == Access::Shape::kReversed ? -1 : access.stride;
    for (int lane = 0; lane < access.lanes; ++lane)
      steps.push_back(ir().getInt64(static_cast<uint64_t>(lane * stride)));
    addresses =
        address(buffer, ir().CreateAdd(values_.splat(access.base, access.lanes), llvm::ConstantVector::get(steps)));
  }
  if (part)
    addresses = ir().CreateGEP(values_.memory_type(buffer->dtype), addresses, ir().getInt64(1));
  return addresses;
}

llvm::Value *MemoryBuilder::gather(const Buffer *buffer, llvm::Type *element, llvm::Value *addresses,
                                   llvm::Value *mask) {
  unsigned lanes = llvm::cast<llvm::FixedVectorType>(addresses->getType())->getNumElements();
  llvm::Type *type = llvm::FixedVectorType::get(element, lanes);
  llvm::Align alignment(element->getPrimitiveSizeInBits() / 8);
  bool in_hardware = values_.target().has_avx2 && element->getPrimitiveSizeInBits() >= 32;
  if (in_hardware && !is_register(buffer)) {
    llvm::Value *zero = llvm::Constant::getNullValue(type);
    return annotate(ir().CreateMaskedGather(type, addresses, alignment, mask, zero), buffer);
  }
  if (mask)
    addresses = safe_address(mask, addresses);
  llvm::Value *result = llvm::PoisonValue::get(type);
  for (unsigned lane = 0; lane < lanes; ++lane) {
    llvm::Value *one = ir().CreateAlignedLoad(element, ir().CreateExtractElement(addresses, lane), alignment);
    // A load from the slot of zeros is none of the buffer's: no annotation when masked.
    if (!mask)
      annotate(llvm::cast<llvm::Instruction>(one), buffer);
    result = ir().CreateInsertElement(result, one, lane);
  }
  return result;
}

void MemoryBuilder::scatter(const Buffer *buffer, llvm::Value *value, llvm::Value *addresses, llvm::Value *mask) {
  llvm::Align alignment(value->getType()->getScalarSizeInBits() / 8);
  if (!mask) { // single stores are no slower than a scatter where that exists
    unsigned lanes = llvm::cast<llvm::FixedVectorType>(value->getType())->getNumElements();
    for (unsigned lane = 0; lane < lanes; ++lane)
      annotate(ir().CreateAlignedStore(ir().CreateExtractElement(value, lane),
                                       ir().CreateExtractElement(addresses, lane), alignment),
               buffer);
    return;
  }
  annotate(ir().CreateMaskedScatter(value, addresses, alignment, mask), buffer);
}

llvm::Value *MemoryBuilder::load_strided(const Buffer *buffer, llvm::Type *element, const Access &access) {
  int lanes = access.lanes;
  auto at = [&](int64_t offset) {
    return address(buffer, ir().CreateAdd(access.base, ir().getInt64(static_cast<uint64_t>(offset))));
  };
  if (access.stride == 2) {
    // The second load starts one element early: nothing past the last lane's element is touched.
    llvm::Value *low = load_part(buffer, element, at(0), lanes, nullptr);
    llvm::Value *high = load_part(buffer, element, at(lanes - 1), lanes, nullptr);
    llvm::SmallVector<int, 64> pick;
    for (int lane = 0; lane < lanes; ++lane)
      pick.push_back(2 * lane < lanes ? 2 * lane : lanes + 2 * lane - (lanes - 1));
    return ir().CreateShuffleVector(low, high, pick);
  }
  // Known distances need no vector of addresses, and single loads are faster than a gather on most processors.
  llvm::Value *result = llvm::PoisonValue::get(llvm::FixedVectorType::get(element, static_cast<unsigned>(lanes)));
  for (int lane = 0; lane < lanes; ++lane)
    result = ir().CreateInsertElement(result, load_part(buffer, element, at(lane * access.stride), 1, nullptr),
                                      static_cast<uint64_t>(lane));
  return result;
}

Value MemoryBuilder::load_vector(const Buffer *buffer, const Access &access) {
  llvm::Type *element = values_.memory_type(buffer->dtype);
  bool pairs = is_complex(buffer->dtype);
  int lanes = access.lanes;
  llvm::Value *mask = access.mask;
  switch (access.shape) {
  case Access::Shape::kContiguous:
  case Access::Shape::kReversed: {
    bool reversed = access.shape == Access::Shape::kReversed;
    llvm::Value *base = access.base;
    if (reversed) {
      base = ir().CreateSub(base, ir().getInt64(static_cast<uint64_t>(lanes - 1)));
      mask = mask ? ir().CreateVectorReverse(mask) : nullptr;
    }
    llvm::Value *place = address(buffer, base);
    if (pairs && mask)
      mask = ir().CreateShuffleVector(mask, doubled(lanes));
    llvm::Value *re = load_part(buffer, element, place, pairs ? 2 * lanes : lanes, mask), *im = nullptr;
    if (pairs) {
      im = ir().CreateShuffleVector(re, every_second(lanes, 1));
      re = ir().CreateShuffleVector(re, every_second(lanes, 0));
    }
    if (reversed) {
      re = ir().CreateVectorReverse(re);
      im = im ? ir().CreateVectorReverse(im) : nullptr;
    }
    return from_memory(re, im, buffer->dtype);
  }
  case Access::Shape::kStrided:
    if (!mask && !pairs)
      return from_memory(load_strided(buffer, element, access), nullptr, buffer->dtype);
    [[fallthrough]];
  case Access::Shape::kIndexed: {
    llvm::Value *re = gather(buffer, element, lane_addresses(buffer, access, 0), mask), *im = nullptr;
    if (pairs)
      im = gather(buffer, element, lane_addresses(buffer, access, 1), mask);
    return from_memory(re, im, buffer->dtype);
  }
  }
  return {};
}

void MemoryBuilder::store_vector(const Buffer *buffer, const Access &access, Value value) {
  int lanes = access.lanes;
  llvm::Value *mask = access.mask;
  llvm::Value *re = to_memory(value.re, buffer->dtype), *im = value.im;
  if (access.shape == Access::Shape::kContiguous || access.shape == Access::Shape::kReversed) {
    llvm::Value *base = access.base;
    if (access.shape == Access::Shape::kReversed) {
      base = ir().CreateSub(base, ir().getInt64(static_cast<uint64_t>(lanes - 1)));
      mask = mask ? ir().CreateVectorReverse(mask) : nullptr;
      re = ir().CreateVectorReverse(re);
      im = im ? ir().CreateVectorReverse(im) : nullptr;
    }
    llvm::Value *place = address(buffer, base);
    if (im) {
      re = ir().CreateShuffleVector(re, im, interleaved(lanes));
      mask = mask ? ir().CreateShuffleVector(mask, doubled(lanes)) : nullptr;
    }
    return store_part(buffer, re, place, mask);
  }
  if (access.shape == Access::Shape::kStrided && !mask && !im) {
    llvm::Align alignment(re->getType()->getScalarSizeInBits() / 8);
    for (int lane = 0; lane < lanes; ++lane) {
      llvm::Value *index = ir().CreateAdd(access.base, ir().getInt64(static_cast<uint64_t>(lane * access.stride)));
      annotate(ir().CreateAlignedStore(ir().CreateExtractElement(re, static_cast<uint64_t>(lane)),
                                       address(buffer, index), alignment),
               buffer);
    }
    return;
  }
  scatter(buffer, re, lane_addresses(buffer, access, 0), mask);
  if (im)
    scatter(buffer, im, lane_addresses(buffer, access, 1), mask);
}

} // namespace oxyfuel::codegen
