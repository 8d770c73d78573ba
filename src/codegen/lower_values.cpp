// Arithmetic of expressions as LLVM instructions. No fast-math flags anywhere: LLVM may use only what keeps every bit.
#include "codegen/lower_values.h"

#include "support/error.h"

#include <llvm/IR/Intrinsics.h>

#include <string>

namespace oxyfuel::codegen {

using llvm::Intrinsic::ID;

namespace {

int lanes_of(const llvm::Value *value) {
  auto *vector = llvm::dyn_cast<llvm::FixedVectorType>(value->getType());
  return vector ? static_cast<int>(vector->getNumElements()) : 1;
}

bool is_half(DType dtype) { return dtype == DType::kF16 || dtype == DType::kBF16; }

} // namespace

llvm::Type *ValueBuilder::memory_type(DType dtype) {
  switch (real_of(dtype)) {
  case DType::kF32: return builder_.getFloatTy();
  case DType::kF64: return builder_.getDoubleTy();
  default: return builder_.getIntNTy(static_cast<unsigned>(size_of(dtype)) * 8);
  }
}

llvm::Type *ValueBuilder::type(DType dtype, int lanes) {
  llvm::Type *element = is_bool(dtype) ? builder_.getInt1Ty() : memory_type(dtype);
  return lanes == 1 ? element : llvm::FixedVectorType::get(element, static_cast<unsigned>(lanes));
}

Value ValueBuilder::zero(DType dtype, int lanes) {
  llvm::Value *part = llvm::Constant::getNullValue(type(dtype, lanes));
  return {part, is_complex(dtype) ? part : nullptr};
}

llvm::Value *ValueBuilder::real_constant(double value, DType dtype) {
  if (is_half(dtype)) {
    llvm::APFloat number(value);
    bool inexact = false;
    const llvm::fltSemantics &format = dtype == DType::kF16 ? llvm::APFloat::IEEEhalf() : llvm::APFloat::BFloat();
    number.convert(format, llvm::APFloat::rmNearestTiesToEven, &inexact);
    return llvm::ConstantInt::get(builder_.getInt16Ty(), number.bitcastToAPInt());
  }
  return llvm::ConstantFP::get(type(dtype), value);
}

Value ValueBuilder::constant(const ExprNode &node) {
  if (is_complex(node.dtype)) {
    DType part = real_of(node.dtype);
    return {real_constant(node.real, part), real_constant(0, part)};
  }
  if (is_float(node.dtype))
    return {real_constant(node.real, node.dtype)};
  unsigned bits = is_bool(node.dtype) ? 1 : static_cast<unsigned>(size_of(node.dtype)) * 8;
  return {llvm::ConstantInt::get(builder_.getContext(),
                                 llvm::APInt(64, static_cast<uint64_t>(node.integer)).zextOrTrunc(bits))};
}

llvm::Value *ValueBuilder::splat(llvm::Value *value, int lanes) {
  if (lanes == 1 || value->getType()->isVectorTy())
    return value;
  return builder_.CreateVectorSplat(static_cast<unsigned>(lanes), value);
}

Value ValueBuilder::splat(Value value, int lanes) {
  return {splat(value.re, lanes), value.im ? splat(value.im, lanes) : nullptr};
}

void ValueBuilder::match(llvm::Value *&a, llvm::Value *&b) {
  int lanes = std::max(lanes_of(a), lanes_of(b));
  a = splat(a, lanes);
  b = splat(b, lanes);
}

Value ValueBuilder::select(llvm::Value *condition, Value a, Value b) {
  auto pick = [&](llvm::Value *x, llvm::Value *y) {
    match(x, y);
    int lanes = std::max(lanes_of(condition), lanes_of(x));
    return builder_.CreateSelect(condition, splat(x, lanes), splat(y, lanes)); // a scalar condition picks whole vectors
  };
  return {pick(a.re, b.re), a.im ? pick(a.im, b.im) : nullptr};
}

llvm::Value *ValueBuilder::compare(ExprKind kind, DType dtype, llvm::Value *a, llvm::Value *b) {
  match(a, b);
  if (is_half(dtype)) {
    a = extend_half(a, dtype);
    b = extend_half(b, dtype);
  }
  using P = llvm::CmpInst::Predicate;
  if (is_float(dtype)) {
    P predicate = kind == ExprKind::kEq   ? P::FCMP_OEQ
                  : kind == ExprKind::kNe ? P::FCMP_UNE
                  : kind == ExprKind::kLt ? P::FCMP_OLT
                                          : P::FCMP_OLE;
    return builder_.CreateFCmp(predicate, a, b);
  }
  bool is_signed = is_signed_integer(dtype);
  P predicate = kind == ExprKind::kEq   ? P::ICMP_EQ
                : kind == ExprKind::kNe ? P::ICMP_NE
                : kind == ExprKind::kLt ? (is_signed ? P::ICMP_SLT : P::ICMP_ULT)
                                        : (is_signed ? P::ICMP_SLE : P::ICMP_ULE);
  return builder_.CreateICmp(predicate, a, b);
}

Value ValueBuilder::bitcast(Value value, DType from, DType to) {
  llvm::Value *bits = value.re;
  if (is_bool(from))
    bits = builder_.CreateZExt(bits, type(DType::kU8, lanes_of(bits)));
  if (is_bool(to))
    return {builder_.CreateTrunc(bits, type(to, lanes_of(bits)))};
  return {builder_.CreateBitCast(bits, type(to, lanes_of(bits)))};
}

llvm::Value *ValueBuilder::float_arithmetic(ExprKind kind, std::span<llvm::Value *const> x) {
  auto unary = [&](ID id) { return builder_.CreateUnaryIntrinsic(id, x[0]); };
  switch (kind) {
  case ExprKind::kAdd: return builder_.CreateFAdd(x[0], x[1]);
  case ExprKind::kSub: return builder_.CreateFSub(x[0], x[1]);
  case ExprKind::kMul: return builder_.CreateFMul(x[0], x[1]);
  case ExprKind::kDiv: return builder_.CreateFDiv(x[0], x[1]);
  case ExprKind::kNeg: return builder_.CreateFNeg(x[0]);
  case ExprKind::kAbs: return unary(llvm::Intrinsic::fabs);
  case ExprKind::kSqrt: return unary(llvm::Intrinsic::sqrt);
  case ExprKind::kFloor: return unary(llvm::Intrinsic::floor);
  case ExprKind::kCeil: return unary(llvm::Intrinsic::ceil);
  case ExprKind::kTrunc: return unary(llvm::Intrinsic::trunc);
  case ExprKind::kRint: return unary(llvm::Intrinsic::roundeven);
  case ExprKind::kFma: return builder_.CreateFMA(x[0], x[1], x[2]);
  default:
    throw InternalError("codegen: no floating-point instruction for expression kind " +
                        std::to_string(static_cast<int>(kind)));
  }
}

llvm::Value *ValueBuilder::divide(Expr e, DType dtype, llvm::Value *a, llvm::Value *b) {
  bool is_signed = is_signed_integer(dtype);
  ExprKind kind = e.kind();
  Range dividend = range_of(e.operand(0)), divisor = range_of(e.operand(1));
  bool uniform = !b->getType()->isVectorTy();
  bool positive = uniform && divisor.lower && *divisor.lower > 0;
  match(a, b);
  llvm::Type *type = a->getType();
  unsigned bits = type->getScalarSizeInBits();
  if (!positive) {
    // A division that the program's guard makes dead may still be executed, and lanes past the extent hold anything: no
    // trap, and zero for a division by zero as in the interpreter.
    llvm::Value *bad = builder_.CreateICmpEQ(b, llvm::Constant::getNullValue(type));
    a = builder_.CreateSelect(bad, llvm::Constant::getNullValue(type), a);
    if (is_signed) {
      llvm::Value *least = llvm::ConstantInt::get(type, llvm::APInt::getSignedMinValue(bits));
      llvm::Value *minus_one = llvm::Constant::getAllOnesValue(type);
      bad = builder_.CreateOr(bad,
                              builder_.CreateAnd(builder_.CreateICmpEQ(a, least), builder_.CreateICmpEQ(b, minus_one)));
    }
    b = builder_.CreateSelect(bad, llvm::ConstantInt::get(type, 1), b);
  }
  bool remainder = kind == ExprKind::kRem || kind == ExprKind::kFloorMod;
  bool natural = positive && dividend.lower && *dividend.lower >= 0;
  if (!is_signed || natural) {
    // 32-bit division is several times faster, and the only one that vectors have a multiplication for.
    constexpr int64_t limit = int64_t{1} << 32;
    bool narrow =
        bits == 64 && natural && dividend.upper && *dividend.upper < limit && divisor.upper && *divisor.upper < limit;
    llvm::Type *work = narrow ? type->getWithNewBitWidth(32) : type;
    a = builder_.CreateTrunc(a, work);
    b = builder_.CreateTrunc(b, work);
    llvm::Value *result = remainder ? builder_.CreateURem(a, b) : builder_.CreateUDiv(a, b);
    return builder_.CreateZExt(result, type);
  }
  if (kind == ExprKind::kDiv)
    return builder_.CreateSDiv(a, b);
  if (kind == ExprKind::kRem)
    return builder_.CreateSRem(a, b);
  llvm::Value *zero = llvm::Constant::getNullValue(type);
  llvm::Value *quotient = builder_.CreateSDiv(a, b);
  llvm::Value *rest = builder_.CreateSub(a, builder_.CreateMul(quotient, b));
  llvm::Value *below =
      builder_.CreateAnd(builder_.CreateICmpNE(rest, zero), builder_.CreateICmpSLT(builder_.CreateXor(rest, b), zero));
  if (remainder)
    return builder_.CreateAdd(rest, builder_.CreateSelect(below, b, zero));
  return builder_.CreateAdd(quotient, builder_.CreateSExt(below, type));
}

llvm::Value *ValueBuilder::integer_arithmetic(Expr e, DType dtype, std::span<llvm::Value *const> x) {
  bool is_signed = is_signed_integer(dtype);
  bool index = e->is_index;
  switch (e.kind()) {
  case ExprKind::kAdd: return builder_.CreateAdd(x[0], x[1], "", false, index);
  case ExprKind::kSub: return builder_.CreateSub(x[0], x[1], "", false, index);
  case ExprKind::kMul: return builder_.CreateMul(x[0], x[1], "", false, index);
  case ExprKind::kDiv:
  case ExprKind::kRem:
  case ExprKind::kFloorDiv:
  case ExprKind::kFloorMod: return divide(e, dtype, x[0], x[1]);
  case ExprKind::kMin:
    return builder_.CreateBinaryIntrinsic(is_signed ? llvm::Intrinsic::smin : llvm::Intrinsic::umin, x[0], x[1]);
  case ExprKind::kMax:
    return builder_.CreateBinaryIntrinsic(is_signed ? llvm::Intrinsic::smax : llvm::Intrinsic::umax, x[0], x[1]);
  case ExprKind::kNeg: return builder_.CreateNeg(x[0]);
  case ExprKind::kAbs:
    return is_signed ? builder_.CreateBinaryIntrinsic(llvm::Intrinsic::abs, x[0], builder_.getFalse()) : x[0];
  case ExprKind::kFloor:
  case ExprKind::kCeil:
  case ExprKind::kTrunc:
  case ExprKind::kRint: return x[0];
  case ExprKind::kFma: return builder_.CreateAdd(builder_.CreateMul(x[0], x[1]), x[2]);
  case ExprKind::kShl: return builder_.CreateShl(x[0], x[1]);
  case ExprKind::kShr: return is_signed ? builder_.CreateAShr(x[0], x[1]) : builder_.CreateLShr(x[0], x[1]);
  default: throw InternalError("codegen: no integer instruction for `" + print(e) + "`");
  }
}

llvm::Value *ValueBuilder::arithmetic(Expr e, DType dtype, std::span<llvm::Value *const> operands) {
  ExprKind kind = e.kind();
  llvm::Value *x[3] = {};
  int lanes = 1;
  for (llvm::Value *operand : operands)
    lanes = std::max(lanes, lanes_of(operand));
  size_t count = operands.size();
  bool division = !is_float(dtype) && (kind == ExprKind::kDiv || kind == ExprKind::kRem ||
                                       kind == ExprKind::kFloorDiv || kind == ExprKind::kFloorMod);
  for (size_t i = 0; i < count; ++i)
    x[i] = division ? operands[i] : splat(operands[i], lanes); // `divide` looks whether the divisor is uniform
  if (!is_float(dtype))
    return integer_arithmetic(e, dtype, {x, count});
  if (!is_half(dtype))
    return float_arithmetic(kind, {x, count});
  if (kind == ExprKind::kNeg)
    return builder_.CreateXor(x[0], llvm::ConstantInt::get(x[0]->getType(), 0x8000));
  if (kind == ExprKind::kAbs)
    return builder_.CreateAnd(x[0], llvm::ConstantInt::get(x[0]->getType(), 0x7FFF));
  for (size_t i = 0; i < count; ++i)
    x[i] = extend_half(x[i], dtype);
  return round_to_half(float_arithmetic(kind, {x, count}), dtype);
}

Value ValueBuilder::operate(Expr e, std::span<const Value> operands) {
  DType from = e.operand(0).dtype();
  ExprKind kind = e.kind();
  switch (kind) {
  case ExprKind::kSelect: return select(operands[0].re, operands[1], operands[2]);
  case ExprKind::kCast: return cast(operands[0], from, e.dtype());
  case ExprKind::kBitcast: return bitcast(operands[0], from, e.dtype());
  case ExprKind::kEq:
  case ExprKind::kNe: {
    DType part = real_of(from);
    llvm::Value *result = compare(kind, part, operands[0].re, operands[1].re);
    if (!is_complex(from))
      return {result};
    llvm::Value *imaginary = compare(kind, part, operands[0].im, operands[1].im);
    match(result, imaginary);
    return {kind == ExprKind::kEq ? builder_.CreateAnd(result, imaginary) : builder_.CreateOr(result, imaginary)};
  }
  case ExprKind::kLt:
  case ExprKind::kLe: return {compare(kind, from, operands[0].re, operands[1].re)};
  case ExprKind::kAnd:
  case ExprKind::kOr:
  case ExprKind::kXor: {
    llvm::Value *a = operands[0].re, *b = operands[1].re;
    match(a, b);
    return {kind == ExprKind::kAnd  ? builder_.CreateAnd(a, b)
            : kind == ExprKind::kOr ? builder_.CreateOr(a, b)
                                    : builder_.CreateXor(a, b)};
  }
  case ExprKind::kNot: return {builder_.CreateNot(operands[0].re)};
  case ExprKind::kReal: return {operands[0].re};
  case ExprKind::kImag: return {operands[0].im};
  case ExprKind::kComplex: {
    Value value{operands[0].re, operands[1].re};
    match(value.re, value.im);
    return value;
  }
  default: break;
  }
  OXYFUEL_CHECK(!is_complex(e.dtype()), "codegen: complex arithmetic that the builders should have expanded");
  llvm::Value *parts[3] = {};
  for (size_t i = 0; i < operands.size(); ++i)
    parts[i] = operands[i].re;
  return {arithmetic(e, from, {parts, operands.size()})};
}

} // namespace oxyfuel::codegen
