// Conversions between element types.
#include "codegen/lower_values.h"

#include "support/error.h"

#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>

namespace oxyfuel::codegen {

namespace {

unsigned lanes_of(const llvm::Value *value) {
  auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(value->getType());
  return vector ? vector->getNumElements() : 1;
}

llvm::Type *like(const llvm::Value *value, llvm::Type *element) {
  return value->getType()->isVectorTy() ? llvm::FixedVectorType::get(element, lanes_of(value)) : element;
}

} // namespace

llvm::Value *ValueBuilder::extend_half(llvm::Value *bits, DType dtype) {
  llvm::Type *single = like(bits, builder_.getFloatTy());
  if (dtype == DType::kBF16) {
    llvm::Type *word = like(bits, builder_.getInt32Ty());
    return builder_.CreateBitCast(builder_.CreateShl(builder_.CreateZExt(bits, word), 16), single);
  }
  return builder_.CreateFPExt(builder_.CreateBitCast(bits, like(bits, builder_.getHalfTy())), single);
}

llvm::Value *ValueBuilder::round_to_half(llvm::Value *value, DType dtype) {
  llvm::Type *half = like(value, builder_.getInt16Ty());
  if (dtype == DType::kF16)
    return builder_.CreateBitCast(builder_.CreateFPTrunc(value, like(value, builder_.getHalfTy())), half);
  // Integer arithmetic, because the instruction that exists for it (vcvtneps2bf16) flushes denormals.
  llvm::Type *word = like(value, builder_.getInt32Ty());
  llvm::Value *bits = builder_.CreateBitCast(value, word);
  llvm::Value *odd = builder_.CreateAnd(builder_.CreateLShr(bits, 16), llvm::ConstantInt::get(word, 1));
  llvm::Value *rounded = builder_.CreateAdd(builder_.CreateAdd(bits, llvm::ConstantInt::get(word, 0x7FFF)), odd);
  llvm::Value *is_nan = builder_.CreateFCmpUNO(value, value);
  llvm::Value *result = builder_.CreateSelect(is_nan, llvm::ConstantInt::get(word, 0x7FC00000), rounded);
  return builder_.CreateTrunc(builder_.CreateLShr(result, 16), half);
}

llvm::Value *ValueBuilder::truncate_in_range(llvm::Value *value, unsigned bits) {
  // LLVM's fptosi is poison out of range, a select does not hand on the poison of the arm that it leaves out. The
  // comparison is false for NaN; -2^(bits-1) itself takes the other arm and is right there too.
  llvm::Type *type = like(value, builder_.getIntNTy(bits));
  llvm::Value *limit = llvm::ConstantFP::get(value->getType(), bits == 32 ? 0x1p31 : 0x1p63);
  llvm::Value *fits = builder_.CreateFCmpOLT(builder_.CreateFAbs(value), limit);
  llvm::Value *least = llvm::ConstantInt::get(type, llvm::APInt::getSignedMinValue(bits));
  return builder_.CreateSelect(fits, builder_.CreateFPToSI(value, type), least);
}

llvm::Value *ValueBuilder::float_to_integer(llvm::Value *value, DType to) {
  // One instruction does it where the vector fills a register: out of range gives the least integer by itself.
  auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(value->getType());
  unsigned lanes = vector ? vector->getNumElements() : 1;
  bool single = value->getType()->getScalarType()->isFloatTy();
  bool narrow = size_of(to) < 4 || to == DType::kI32;
  llvm::Value *word = nullptr;
  if (narrow && single && target_.arch == Arch::kX86_64) {
    llvm::Type *result = like(value, builder_.getInt32Ty());
    if (lanes == 16 && target_.has_avx512)
      word = builder_.CreateIntrinsic(
          llvm::Intrinsic::x86_avx512_mask_cvttps2dq_512,
          {value, llvm::Constant::getNullValue(result), builder_.getInt16(0xFFFF), builder_.getInt32(4)});
    else if (lanes == 8 && target_.has_avx2)
      word = builder_.CreateIntrinsic(llvm::Intrinsic::x86_avx_cvtt_ps2dq_256, {value});
    else if (lanes == 4)
      word = builder_.CreateIntrinsic(llvm::Intrinsic::x86_sse2_cvttps2dq, {value});
  }
  if (narrow) {
    if (!word)
      word = truncate_in_range(value, 32);
    return builder_.CreateTrunc(word, like(value, memory_type(to)));
  }
  if (to == DType::kI64)
    return truncate_in_range(value, 64);
  // The upper half of the unsigned range is converted less 2^31 or 2^63; what lies above gives zero.
  unsigned bits = to == DType::kU32 ? 32 : 64;
  llvm::Value *half = llvm::ConstantFP::get(value->getType(), bits == 32 ? 0x1p31 : 0x1p63);
  llvm::Value *is_high = builder_.CreateFCmpOGE(value, half);
  llvm::Value *low = truncate_in_range(value, bits);
  llvm::Value *high = truncate_in_range(builder_.CreateFSub(value, half), bits);
  llvm::Value *bit = llvm::ConstantInt::get(low->getType(), llvm::APInt::getSignedMinValue(bits));
  return builder_.CreateSelect(is_high, builder_.CreateXor(high, bit), low);
}

llvm::Value *ValueBuilder::real_cast(llvm::Value *value, DType from, DType to) {
  if (from == to)
    return value;
  if (from == DType::kF16 || from == DType::kBF16)
    return real_cast(extend_half(value, from), DType::kF32, to);
  if (to == DType::kF16 || to == DType::kBF16)
    return round_to_half(real_cast(value, from, DType::kF32), to); // by way of float32, as eager does
  llvm::Type *target = like(value, type(to));
  if (is_bool(to)) {
    llvm::Value *zero = llvm::Constant::getNullValue(value->getType());
    return is_float(from) ? builder_.CreateFCmpUNE(value, zero) : builder_.CreateICmpNE(value, zero);
  }
  if (is_float(from)) {
    if (!is_float(to))
      return float_to_integer(value, to);
    return builder_.CreateFPCast(value, target);
  }
  bool is_signed = is_signed_integer(from);
  if (is_float(to))
    return is_signed ? builder_.CreateSIToFP(value, target) : builder_.CreateUIToFP(value, target);
  return builder_.CreateIntCast(value, target, is_signed);
}

Value ValueBuilder::cast(Value value, DType from, DType to) {
  DType part_from = real_of(from), part_to = real_of(to);
  if (is_bool(to) && is_complex(from))
    return {builder_.CreateOr(real_cast(value.re, part_from, to), real_cast(value.im, part_from, to))};
  Value result{real_cast(value.re, part_from, part_to)};
  if (is_complex(to)) {
    result.im =
        is_complex(from) ? real_cast(value.im, part_from, part_to) : llvm::Constant::getNullValue(result.re->getType());
  }
  return result;
}

} // namespace oxyfuel::codegen
