// Values of Loop IR expressions as LLVM values, and the arithmetic on them: one scalar, or one vector with a lane an
// iteration of a vector loop. Includes LLVM: only for .cpp files of codegen.
//
// Representation in registers: bool is i1; integers are iN; f32 and f64 themselves; f16 and bf16 are i16 holding their
// bits, so that LLVM never sees half-precision arithmetic and every rounding is spelled out; complex numbers are two
// values. In memory bool is a byte.
#pragma once

#include "codegen/target.h"
#include "ir/expr.h"

#include <llvm/IR/IRBuilder.h>

#include <span>

namespace oxyfuel::codegen {

/// A scalar or vector; `im` is set for complex types only.
struct Value {
  llvm::Value *re = nullptr;
  llvm::Value *im = nullptr;

  explicit operator bool() const { return re != nullptr; }
  bool is_vector() const { return re->getType()->isVectorTy(); }
};

/// Emits arithmetic at the insertion point of `builder`. Operands of one operation may be scalars and vectors mixed:
/// scalars are splat. An operation on scalars alone stays scalar.
class ValueBuilder {
public:
  ValueBuilder(llvm::IRBuilder<> &builder, const Target &target) : builder_(builder), target_(target) {}

  llvm::IRBuilder<> &ir() { return builder_; }
  const Target &target() const { return target_; }

  /// Type of `lanes` values in registers (of the real part for complex types); 1 is a scalar.
  llvm::Type *type(DType dtype, int lanes = 1);
  /// Type of one element in memory (of its real part for complex types).
  llvm::Type *memory_type(DType dtype);

  Value zero(DType dtype, int lanes = 1);
  Value constant(const ExprNode &node);
  /// The vector that holds `value` in each of `lanes` lanes; vectors come back as they are.
  Value splat(Value value, int lanes);
  llvm::Value *splat(llvm::Value *value, int lanes);

  /// Any kind but kVar, kLoad, kConst and kHostCall. The functions of vector maths must have been expanded: they give
  /// an InternalError.
  Value operate(Expr e, std::span<const Value> operands);
  /// static_cast, with what x86 does where C++ leaves it open: a float outside the range of a 32- or 64-bit integer
  /// gives the least integer, one for a narrower type is cut from that of 32 bits.
  Value cast(Value value, DType from, DType to);
  /// condition ? a : b in each lane; complex values too.
  Value select(llvm::Value *condition, Value a, Value b);
  /// f16 or bf16 bits to f32, and back (to nearest, ties to even, NaN stays NaN).
  llvm::Value *extend_half(llvm::Value *bits, DType dtype);
  llvm::Value *round_to_half(llvm::Value *value, DType dtype);

private:
  void match(llvm::Value *&a, llvm::Value *&b);
  llvm::Value *real_constant(double value, DType dtype);
  llvm::Value *real_cast(llvm::Value *value, DType from, DType to);
  llvm::Value *float_to_integer(llvm::Value *value, DType to);
  llvm::Value *truncate_in_range(llvm::Value *value, unsigned bits);
  llvm::Value *arithmetic(Expr e, DType dtype, std::span<llvm::Value *const> operands);
  llvm::Value *float_arithmetic(ExprKind kind, std::span<llvm::Value *const> operands);
  llvm::Value *integer_arithmetic(Expr e, DType dtype, std::span<llvm::Value *const> operands);
  llvm::Value *divide(Expr e, DType dtype, llvm::Value *a, llvm::Value *b);
  llvm::Value *compare(ExprKind kind, DType dtype, llvm::Value *a, llvm::Value *b);
  Value bitcast(Value value, DType from, DType to);

  llvm::IRBuilder<> &builder_;
  const Target &target_;
};

} // namespace oxyfuel::codegen
