// The inner step of a contraction: a tile of accumulators in registers, one loop over k, and in it vectors of B,
// broadcasts of A and fused multiply-adds, in the order in which registers are the least in use.
//
// Addresses are one pointer for A and one for B that move with k; rows and unrolled steps are offsets from them,
// constant where the strides are. A row stride that is known at run time only needs four registers and x86's scaled
// index for eight rows: the stride times 1, 3, 5 and 7, and those times 2 and 4. LLVM's loop strength reduction would
// make a pointer of each row and run out of registers, so it is kept from seeing how such a pointer moves. The
// accumulators are SSA values through the loop: the register buffer is read before and written after it.
#include "codegen/lower_state.h"

#include "support/error.h"

#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <algorithm>
#include <bit>
#include <functional>

namespace oxyfuel::codegen {

class ContractLowering {
public:
  ContractLowering(KernelLowering &lowering, const loop::TileContract &tile)
      : lowering_(lowering), tile_(tile), values_(lowering.values_), memory_(lowering.memory_),
        a_{tile.a, tile.a_index, tile.row}, b_{tile.b, tile.b_index, tile.col} {}

  /// `whole`: all columns of B are read, whatever its limit says.
  void run(bool whole);

private:
  /// One of A and B: how its addresses move.
  struct Operand {
    const Buffer *buffer;
    Expr index;
    const Var *var;               ///< row or col
    Expr k_stride{};              ///< elements a step of k; empty: no such stride, the index is evaluated for each k
    llvm::Value *start = nullptr; ///< index at row or col 0, k 0
    std::vector<llvm::Value *> offsets{}; ///< of each row or col used, from `start`
    llvm::Value *odd_multiples[4] = {};   ///< of a row stride known at run time, in bytes; instead of `offsets`
    bool is_opaque = false;               ///< hidden from loop strength reduction
  };
  /// What the loop over k carries.
  struct State {
    llvm::Value *k = nullptr; ///< in groups of `pack_`
    llvm::Value *a = nullptr, *b = nullptr;
    std::vector<llvm::Value *> acc;
  };
  using Body = std::function<void(State &)>;

  llvm::IRBuilder<> &ir() { return values_.ir(); }
  llvm::Value *number(int64_t value) { return ir().getInt64(static_cast<uint64_t>(value)); }
  bool in_columns() const { return tile_.lanes == loop::TileContract::Lanes::kColumns; }

  void prepare(Operand &operand, int count, int step, int64_t scale);
  llvm::Value *index_at(const Operand &operand, llvm::Value *place, llvm::Value *k);
  llvm::Value *address(const Operand &operand, const State &state, size_t place, int64_t step);
  llvm::Value *load(const Operand &operand, llvm::Value *address, int lanes, llvm::Value *mask);
  llvm::Value *multiply_add(llvm::Value *a, llvm::Value *b, llvm::Value *acc);
  void accumulators(State &state, bool write);
  void repeat(State &state, llvm::Value *count, int64_t step, const Body &body);
  void advance(State &state, int64_t step);
  void hide(const Operand &operand, llvm::Value *&pointer);
  void columns_step(State &state, int64_t step);
  void depth_step(State &state, int64_t step, llvm::Value *mask);
  void packed_step(State &state, int64_t step, llvm::Value *present);
  llvm::Value *dot(llvm::Value *acc, llvm::Value *a, llvm::Value *b);
  bool has_dot() const;
  void prefetch(const State &state, size_t vector, int64_t step);

  KernelLowering &lowering_;
  const loop::TileContract &tile_;
  ValueBuilder &values_;
  MemoryBuilder &memory_;
  Operand a_, b_;
  DType type_ = DType::kF32;
  int pack_ = 1;
  std::vector<int> lanes_;           ///< of each vector of a row of accumulators
  std::vector<llvm::Value *> masks_; ///< of each vector of B; null: whole
};

llvm::Value *ContractLowering::index_at(const Operand &operand, llvm::Value *place, llvm::Value *k) {
  KernelLowering::Scope scope(lowering_);
  lowering_.bind(operand.var, {{place}, {}, {}});
  lowering_.bind(tile_.k, {{k}, {}, {}});
  return lowering_.scalar(operand.index);
}

/// Indices become element offsets: `scale` elements each.
void ContractLowering::prepare(Operand &operand, int count, int step, int64_t scale) {
  ExprContext &context = operand.index.context();
  auto difference = [&](const Var *var) {
    Expr moved = substitute(operand.index, {{var, context.var(var) + 1}});
    return moved - operand.index;
  };
  Expr stride = difference(tile_.k);
  if (!depends_on(stride, tile_.k) && !depends_on(stride, operand.var)) {
    operand.k_stride = stride * scale;
    operand.start = ir().CreateMul(index_at(operand, number(0), number(0)), number(scale));
  }
  Expr across = difference(operand.var);
  bool linear = !depends_on(across, operand.var) && !depends_on(across, tile_.k);
  operand.is_opaque = count > 1 && !(linear && across.constant());
  if (linear && operand.is_opaque && operand.start) {
    llvm::Value *bytes = ir().CreateMul(lowering_.scalar(across),
                                        number(step * scale * static_cast<int64_t>(size_of(operand.buffer->dtype))));
    for (int64_t i = 0; i < 4; ++i)
      operand.odd_multiples[i] = ir().CreateMul(bytes, number(2 * i + 1));
    return;
  }
  for (int i = 0; operand.start && i < count; ++i) {
    if (linear) {
      operand.offsets.push_back(ir().CreateMul(lowering_.scalar(across), number(int64_t{i} * step * scale)));
    } else {
      llvm::Value *index = ir().CreateMul(index_at(operand, number(int64_t{i} * step), number(0)), number(scale));
      operand.offsets.push_back(ir().CreateSub(index, operand.start));
    }
  }
}

/// Address for row or vector of columns `place`, `step` steps of k after the state's.
llvm::Value *ContractLowering::address(const Operand &operand, const State &state, size_t place, int64_t step) {
  bool is_a = &operand == &a_;
  llvm::Type *element = values_.memory_type(operand.buffer->dtype);
  if (operand.start) {
    llvm::Value *shift = ir().CreateMul(lowering_.scalar(operand.k_stride), number(step));
    llvm::Value *pointer = is_a ? state.a : state.b;
    if (operand.odd_multiples[0]) {
      for (; place >= 8; place -= 8)
        pointer = ir().CreatePtrAdd(pointer, ir().CreateShl(operand.odd_multiples[0], 3));
      if (place > 0) {
        int twos = std::countr_zero(place);
        pointer = ir().CreatePtrAdd(
            pointer, ir().CreateShl(operand.odd_multiples[(place >> twos) / 2], static_cast<uint64_t>(twos)));
      }
    } else {
      pointer = ir().CreateGEP(element, pointer, operand.offsets[place]);
    }
    return ir().CreateGEP(element, pointer, shift);
  }
  int64_t across = !is_a && in_columns() ? static_cast<int64_t>(place) * tile_.width : static_cast<int64_t>(place);
  llvm::Value *k = is_a ? ir().CreateMul(state.k, number(pack_)) : state.k;
  llvm::Value *index = index_at(operand, number(across), ir().CreateAdd(k, number(step)));
  return memory_.address(operand.buffer, is_a ? index : ir().CreateMul(index, number(pack_)));
}

llvm::Value *ContractLowering::load(const Operand &operand, llvm::Value *address, int lanes, llvm::Value *mask) {
  llvm::Type *element = values_.memory_type(operand.buffer->dtype);
  llvm::Align alignment(size_of(operand.buffer->dtype));
  llvm::Type *type = lanes == 1 ? element : llvm::FixedVectorType::get(element, static_cast<unsigned>(lanes));
  if (mask && lanes == 1) { // the instruction takes vectors only
    llvm::Type *vector = llvm::FixedVectorType::get(element, 1);
    llvm::CallInst *loaded = ir().CreateMaskedLoad(vector, address, alignment, ir().CreateVectorSplat(1, mask),
                                                   llvm::Constant::getNullValue(vector));
    return ir().CreateExtractElement(memory_.annotate(loaded, operand.buffer), uint64_t{0});
  }
  llvm::Instruction *value = mask ? static_cast<llvm::Instruction *>(ir().CreateMaskedLoad(
                                        type, address, alignment, mask, llvm::Constant::getNullValue(type)))
                                  : ir().CreateAlignedLoad(type, address, alignment);
  return memory_.annotate(value, operand.buffer);
}

llvm::Value *ContractLowering::multiply_add(llvm::Value *a, llvm::Value *b, llvm::Value *acc) {
  if (!is_float(type_))
    return ir().CreateAdd(ir().CreateMul(a, b), acc);
  if (!values_.target().has_fma) // a call of a function in each lane would take a hundred times as long
    return ir().CreateFAdd(ir().CreateFMul(a, b), acc);
  return ir().CreateFMA(a, b, acc);
}

void ContractLowering::accumulators(State &state, bool write) {
  llvm::Align alignment(size_of(type_));
  int64_t place = 0;
  size_t index = 0;
  int groups = in_columns() ? tile_.rows : tile_.rows * tile_.cols;
  if (!write)
    state.acc.resize(static_cast<size_t>(groups) * lanes_.size());
  for (int group = 0; group < groups; ++group)
    for (int lanes : lanes_) {
      llvm::Value *address = memory_.address(tile_.acc, number(place));
      if (write)
        ir().CreateAlignedStore(state.acc[index], address, alignment);
      else
        state.acc[index] = ir().CreateAlignedLoad(values_.type(type_, lanes), address, alignment);
      ++index;
      place += lanes;
    }
}

void ContractLowering::advance(State &state, int64_t step) {
  state.k = ir().CreateNSWAdd(state.k, number(step));
  auto move = [&](const Operand &operand, llvm::Value *&pointer, int64_t steps) {
    if (operand.start)
      pointer = ir().CreateGEP(values_.memory_type(operand.buffer->dtype), pointer,
                               ir().CreateMul(lowering_.scalar(operand.k_stride), number(steps)));
  };
  move(a_, state.a, step * pack_);
  move(b_, state.b, step);
}

/// An empty piece of assembly that takes and gives the pointer.
void ContractLowering::hide(const Operand &operand, llvm::Value *&pointer) {
  if (!pointer || !operand.is_opaque)
    return;
  llvm::FunctionType *type = llvm::FunctionType::get(ir().getPtrTy(), {ir().getPtrTy()}, false);
  pointer = ir().CreateCall(llvm::InlineAsm::get(type, "", "=r,0", /*hasSideEffects=*/false), {pointer});
}

/// Runs `body` `count` times, moving k by `step` each time.
void ContractLowering::repeat(State &state, llvm::Value *count, int64_t step, const Body &body) {
  auto *known = llvm::dyn_cast<llvm::ConstantInt>(count);
  if (known && known->getSExtValue() <= 0)
    return;
  if (known && known->isOne()) {
    body(state);
    return advance(state, step);
  }
  llvm::BasicBlock *before = ir().GetInsertBlock();
  llvm::BasicBlock *loop = lowering_.new_block("contract"), *after = lowering_.new_block("contract.end");
  if (known)
    ir().CreateBr(loop);
  else
    ir().CreateCondBr(ir().CreateICmpSGT(count, number(0)), loop, after);
  ir().SetInsertPoint(loop);
  std::vector<llvm::PHINode *> carried;
  State inside = state;
  auto fields = [](State &s) {
    std::vector<llvm::Value **> list{&s.k, &s.a, &s.b};
    for (llvm::Value *&acc : s.acc)
      list.push_back(&acc);
    return list;
  };
  for (llvm::Value **field : fields(inside)) {
    if (!*field) {
      carried.push_back(nullptr);
      continue;
    }
    llvm::PHINode *phi = ir().CreatePHI((*field)->getType(), 2);
    phi->addIncoming(*field, before);
    carried.push_back(phi);
    *field = phi;
  }
  llvm::PHINode *turn = ir().CreatePHI(ir().getInt64Ty(), 2);
  turn->addIncoming(number(0), before);
  {
    KernelLowering::Scope scope(lowering_);
    hide(a_, inside.a);
    hide(b_, inside.b);
    body(inside);
    advance(inside, step);
  }
  llvm::Value *next = ir().CreateNUWAdd(turn, number(1));
  llvm::BasicBlock *end = ir().GetInsertBlock();
  turn->addIncoming(next, end);
  ir().CreateCondBr(ir().CreateICmpSLT(next, count), loop, after);
  std::vector<llvm::Value **> results = fields(inside), entered = fields(state);
  ir().SetInsertPoint(after);
  for (size_t i = 0; i < results.size(); ++i) {
    if (!carried[i])
      continue;
    carried[i]->addIncoming(*results[i], end);
    if (known) {
      *entered[i] = *results[i];
      continue;
    }
    llvm::PHINode *merged = ir().CreatePHI((*results[i])->getType(), 2);
    merged->addIncoming(*entered[i], before);
    merged->addIncoming(*results[i], end);
    *entered[i] = merged;
  }
}

void ContractLowering::prefetch(const State &state, size_t vector, int64_t step) {
  if (!tile_.prefetch_distance || !b_.start)
    return;
  // Once a cache line: panels begin at one, and a prefetch takes the place of a load.
  int64_t element = (step * tile_.cols + static_cast<int64_t>(vector) * tile_.width) * pack_;
  if (in_columns() && element * static_cast<int64_t>(size_of(tile_.b->dtype)) % 64 != 0)
    return;
  llvm::Value *ahead = ir().CreateGEP(values_.memory_type(tile_.b->dtype), address(b_, state, vector, step),
                                      number(tile_.prefetch_distance));
  ir().CreateIntrinsic(llvm::Intrinsic::prefetch, {ahead->getType()},
                       {ahead, ir().getInt32(0), ir().getInt32(3), ir().getInt32(1)});
}

void ContractLowering::columns_step(State &state, int64_t step) {
  std::vector<llvm::Value *> b(lanes_.size());
  for (size_t v = 0; v < b.size(); ++v) {
    prefetch(state, v, step);
    Value loaded{load(b_, address(b_, state, v, step), lanes_[v], masks_[v])};
    b[v] = values_.cast(loaded, tile_.b->dtype, type_).re;
  }
  for (size_t row = 0; row < static_cast<size_t>(tile_.rows); ++row) {
    Value loaded{load(a_, address(a_, state, row, step), 1, nullptr)};
    llvm::Value *a = values_.cast(loaded, tile_.a->dtype, type_).re;
    for (size_t v = 0; v < b.size(); ++v) {
      llvm::Value *&acc = state.acc[row * b.size() + v];
      acc = multiply_add(values_.splat(a, lanes_[v]), b[v], acc);
    }
  }
}

void ContractLowering::depth_step(State &state, int64_t step, llvm::Value *mask) {
  auto vectors = [&](const Operand &operand, int count) {
    std::vector<llvm::Value *> result;
    for (int i = 0; i < count; ++i) {
      Value loaded{load(operand, address(operand, state, static_cast<size_t>(i), step), tile_.width, mask)};
      result.push_back(values_.cast(loaded, operand.buffer->dtype, type_).re);
    }
    return result;
  };
  std::vector<llvm::Value *> a = vectors(a_, tile_.rows), b;
  for (int col = 0; col < tile_.cols; ++col) {
    b.push_back(nullptr);
    prefetch(state, static_cast<size_t>(col), step);
    llvm::Value *column_mask = masks_[static_cast<size_t>(col)];
    llvm::Value *both = !column_mask ? mask
                        : !mask      ? values_.splat(column_mask, tile_.width)
                                     : ir().CreateAnd(mask, values_.splat(column_mask, tile_.width));
    Value loaded{load(b_, address(b_, state, static_cast<size_t>(col), step), tile_.width, both)};
    b.back() = values_.cast(loaded, tile_.b->dtype, type_).re;
  }
  for (size_t row = 0; row < a.size(); ++row)
    for (size_t col = 0; col < b.size(); ++col) {
      llvm::Value *&acc = state.acc[row * b.size() + col];
      llvm::Value *sum = multiply_add(a[row], b[col], acc);
      acc = mask ? ir().CreateSelect(mask, sum, acc) : sum;
    }
}

bool ContractLowering::has_dot() const {
  const Target &target = values_.target();
  bool whole = std::all_of(lanes_.begin(), lanes_.end(), [](int lanes) { return lanes == 16; });
  if (!whole || target.arch != Arch::kX86_64 || !target.has_avx512 || a_.k_stride.is_empty() ||
      !a_.k_stride.is_const(1))
    return false;
  if (pack_ == 2)
    return target.has_avx512bf16 && lowering_.options_.use_dot_products && type_ == DType::kF32 &&
           tile_.a->dtype == DType::kBF16 && tile_.b->dtype == DType::kBF16;
  // Four products of 8 bits are exact in 32 bits, so this is no question of rounding.
  return pack_ == 4 && target.has_vnni && type_ == DType::kI32 && tile_.a->dtype == DType::kU8 &&
         tile_.b->dtype == DType::kI8;
}

llvm::Value *ContractLowering::dot(llvm::Value *acc, llvm::Value *a, llvm::Value *b) {
  if (pack_ == 2) {
    llvm::Type *halves = llvm::FixedVectorType::get(ir().getBFloatTy(), 32);
    return ir().CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512, {},
                                {acc, ir().CreateBitCast(a, halves), ir().CreateBitCast(b, halves)});
  }
  llvm::Function *function = llvm::Intrinsic::getOrInsertDeclaration(ir().GetInsertBlock()->getModule(),
                                                                     llvm::Intrinsic::x86_avx512_vpdpbusd_512);
  llvm::Type *wanted = function->getFunctionType()->getParamType(1);
  return ir().CreateCall(function, {acc, ir().CreateBitCast(a, wanted), ir().CreateBitCast(b, wanted)});
}

/// One group of `pack_` consecutive k; k, strides of B and `step` count groups. `present`, if given: how many k of the
/// group there are.
void ContractLowering::packed_step(State &state, int64_t step, llvm::Value *present) {
  std::vector<llvm::Value *> groups(lanes_.size());
  for (size_t v = 0; v < groups.size(); ++v) {
    prefetch(state, v, step);
    llvm::Value *mask = masks_[v];
    std::vector<int> repeated;
    for (int i = 0; i < lanes_[v] * pack_; ++i)
      repeated.push_back(i / pack_);
    if (mask)
      mask = lanes_[v] == 1 ? values_.splat(mask, pack_) : ir().CreateShuffleVector(mask, repeated);
    groups[v] = load(b_, address(b_, state, v, step), lanes_[v] * pack_, mask);
  }
  auto rows = static_cast<size_t>(tile_.rows);
  if (!present && has_dot()) {
    for (size_t row = 0; row < rows; ++row) {
      llvm::Instruction *word = ir().CreateAlignedLoad(ir().getInt32Ty(), address(a_, state, row, step * pack_),
                                                       llvm::Align(size_of(tile_.a->dtype)));
      llvm::Value *a = values_.splat(memory_.annotate(word, tile_.a), 16);
      for (size_t v = 0; v < groups.size(); ++v) {
        llvm::Value *&acc = state.acc[row * groups.size() + v];
        acc = dot(acc, a, groups[v]);
      }
    }
    return;
  }
  for (int part = 0; part < pack_; ++part) {
    llvm::Value *is_there = present ? ir().CreateICmpSLT(number(part), present) : nullptr;
    std::vector<llvm::Value *> b(groups.size());
    for (size_t v = 0; v < b.size(); ++v) {
      if (tile_.b->dtype == DType::kBF16 && pack_ == 2 && type_ == DType::kF32) {
        llvm::Type *words = values_.type(DType::kI32, lanes_[v]);
        llvm::Value *pairs = ir().CreateBitCast(groups[v], words);
        pairs =
            part == 0 ? ir().CreateShl(pairs, 16) : ir().CreateAnd(pairs, llvm::ConstantInt::get(words, 0xFFFF0000u));
        b[v] = ir().CreateBitCast(pairs, values_.type(type_, lanes_[v]));
        continue;
      }
      std::vector<int> pick;
      for (int lane = 0; lane < lanes_[v]; ++lane)
        pick.push_back(lane * pack_ + part);
      llvm::Value *picked =
          lanes_[v] == 1 ? ir().CreateExtractElement(groups[v], part) : ir().CreateShuffleVector(groups[v], pick);
      b[v] = values_.cast({picked}, tile_.b->dtype, type_).re;
    }
    for (size_t row = 0; row < rows; ++row) {
      llvm::Value *place = address(a_, state, row, step * pack_ + part);
      if (is_there) // the first element of the group is always there
        place = ir().CreateSelect(is_there, place, address(a_, state, row, step * pack_));
      llvm::Value *a = values_.cast({load(a_, place, 1, nullptr)}, tile_.a->dtype, type_).re;
      for (size_t v = 0; v < b.size(); ++v) {
        llvm::Value *&acc = state.acc[row * b.size() + v];
        llvm::Value *sum = multiply_add(values_.splat(a, lanes_[v]), b[v], acc);
        acc = is_there ? ir().CreateSelect(is_there, sum, acc) : sum;
      }
    }
  }
}

void ContractLowering::run(bool whole_columns) {
  type_ = tile_.acc->dtype;
  pack_ = in_columns() ? tile_.depth_pack : 1;
  OXYFUEL_CHECK(type_ == DType::kF32 || type_ == DType::kF64 || is_integer(type_),
                "codegen: a contraction accumulates in f32, f64 or an integer type");
  OXYFUEL_CHECK(in_columns() || tile_.depth_pack == 1, "codegen: depth_pack needs lanes along columns");
  // Vectors of a row of accumulators, and of B where lanes are columns.
  if (in_columns()) {
    for (int col = 0; col < tile_.cols; col += tile_.width)
      lanes_.push_back(std::min(tile_.width, tile_.cols - col));
  } else {
    lanes_.push_back(tile_.width);
  }
  size_t b_count = in_columns() ? lanes_.size() : static_cast<size_t>(tile_.cols);
  masks_.resize(b_count);
  if (!whole_columns) {
    llvm::Value *limit = lowering_.scalar(tile_.b_col_limit);
    for (size_t i = 0; i < b_count; ++i) {
      if (!in_columns()) {
        masks_[i] = ir().CreateICmpSLT(number(static_cast<int64_t>(i)), limit);
        continue;
      }
      llvm::SmallVector<llvm::Constant *, 16> columns;
      for (int lane = 0; lane < lanes_[i]; ++lane)
        columns.push_back(ir().getInt32(static_cast<uint32_t>(static_cast<int>(i) * tile_.width + lane)));
      llvm::Value *narrow = ir().CreateTrunc(
          ir().CreateBinaryIntrinsic(llvm::Intrinsic::smin, limit, number(tile_.cols)), ir().getInt32Ty());
      llvm::Value *numbers = lanes_[i] == 1 ? columns.front() : llvm::ConstantVector::get(columns);
      masks_[i] = ir().CreateICmpSLT(numbers, values_.splat(narrow, lanes_[i]));
    }
  }
  State state;
  accumulators(state, false);
  prepare(a_, tile_.rows, 1, 1);
  prepare(b_, static_cast<int>(b_count), in_columns() ? tile_.width : 1, pack_);
  state.k = number(0);
  if (a_.start)
    state.a = memory_.address(tile_.a, a_.start);
  if (b_.start)
    state.b = memory_.address(tile_.b, b_.start);

  llvm::Value *extent = lowering_.scalar(tile_.extent);
  int64_t unroll = std::max(1, tile_.unroll), width = in_columns() ? pack_ : tile_.width;
  llvm::Value *steps = ir().CreateSDiv(extent, number(width));
  llvm::Value *rest = ir().CreateSRem(extent, number(width));
  auto step = [&](State &s, int64_t i) {
    if (!in_columns())
      depth_step(s, i * width, nullptr);
    else if (pack_ > 1)
      packed_step(s, i, nullptr);
    else
      columns_step(s, i);
  };
  auto whole = [&](State &s) {
    for (int64_t i = 0; i < unroll; ++i)
      step(s, i);
  };
  int64_t k_step = in_columns() ? 1 : width;
  repeat(state, ir().CreateSDiv(steps, number(unroll)), k_step * unroll, whole);
  repeat(state, ir().CreateSRem(steps, number(unroll)), k_step, [&](State &s) { step(s, 0); });
  if (width > 1) {
    auto *known = llvm::dyn_cast<llvm::ConstantInt>(rest);
    llvm::Value *once =
        known ? number(!known->isZero()) : ir().CreateZExt(ir().CreateICmpSGT(rest, number(0)), ir().getInt64Ty());
    repeat(state, once, k_step, [&](State &s) {
      if (in_columns())
        return packed_step(s, 0, rest);
      llvm::SmallVector<llvm::Constant *, 16> lanes;
      for (int lane = 0; lane < tile_.width; ++lane)
        lanes.push_back(ir().getInt32(static_cast<uint32_t>(lane)));
      llvm::Value *count = ir().CreateTrunc(rest, ir().getInt32Ty());
      depth_step(s, 0, ir().CreateICmpSLT(llvm::ConstantVector::get(lanes), values_.splat(count, tile_.width)));
    });
  }
  accumulators(state, true);
}

void KernelLowering::contract(const loop::TileContract &contract) {
  if (contract.b_col_limit.is_empty() || proves_at_least(contract.b_col_limit, contract.cols))
    return ContractLowering(*this, contract).run(true);
  if (values_.target().has_avx512) // masked loads cost nothing there
    return ContractLowering(*this, contract).run(false);
  llvm::BasicBlock *whole = new_block("whole"), *part = new_block("part"), *after = new_block("end");
  ir().CreateCondBr(
      ir().CreateICmpSGE(scalar(contract.b_col_limit), ir().getInt64(static_cast<uint64_t>(contract.cols))), whole,
      part);
  for (llvm::BasicBlock *block : {whole, part}) {
    ir().SetInsertPoint(block);
    Scope scope(*this);
    ContractLowering(*this, contract).run(block == whole);
    ir().CreateBr(after);
  }
  ir().SetInsertPoint(after);
}

} // namespace oxyfuel::codegen
