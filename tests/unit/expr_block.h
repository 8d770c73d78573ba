// Evaluates an expression over arrays of values, node by node: fast enough to sweep a function of the vector maths over
// millions of arguments without code generation. Arithmetic rounds as generated code does.
#pragma once

#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "ir/expr.h"
#include "ir/host_math.h"

namespace oxyfuel::testing {

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define OXYFUEL_TEST_CLONES __attribute__((target_clones("default", "arch=haswell")))
#else
#define OXYFUEL_TEST_CLONES
#endif

inline constexpr int kLanes = 1024;

// Of their own, so that they use the processor's instruction where it has one instead of a call.
OXYFUEL_TEST_CLONES static void fma_lanes(float *r, const float *a, const float *b, const float *c) {
  for (int i = 0; i < kLanes; ++i)
    r[i] = __builtin_fmaf(a[i], b[i], c[i]);
}
OXYFUEL_TEST_CLONES static void fma_lanes(double *r, const double *a, const double *b, const double *c) {
  for (int i = 0; i < kLanes; ++i)
    r[i] = __builtin_fma(a[i], b[i], c[i]);
}

class BlockEvaluator {
public:
  /// `root` as a function of `variables` (floats).
  BlockEvaluator(Expr root, std::vector<const Var *> variables) : variables_(std::move(variables)) { visit(root); }

  /// Operations per element, equal subexpressions counted once.
  int operations() const { return operations_; }

  /// Inputs and the result hold kLanes elements of their dtype.
  void run(const std::vector<const void *> &inputs, void *result) {
    inputs_ = inputs;
    for (const Expr e : order_)
      compute(e);
    std::memcpy(result, values_[order_.back().node()].data(), size_of(order_.back().dtype()) * kLanes);
  }

private:
  void visit(Expr e) {
    if (values_.contains(e.node()))
      return;
    for (int i = 0; i < e->operand_count; ++i)
      visit(e.operand(i));
    values_[e.node()].resize(kLanes);
    order_.push_back(e);
    operations_ += e->operand_count > 0;
    if (e.is_const())
      with_type(e.dtype(), [&](auto zero) {
        for (int i = 0; i < kLanes; ++i)
          lanes<decltype(zero)>(e)[i] = static_cast<decltype(zero)>(is_float(e.dtype()) ? e->real : double(e->integer));
      });
    if (e.is_const() && !is_float(e.dtype())) // 64-bit integers do not pass through double
      with_type(e.dtype(), [&](auto zero) {
        for (int i = 0; i < kLanes; ++i)
          lanes<decltype(zero)>(e)[i] = static_cast<decltype(zero)>(e->integer);
      });
  }

  template <class T> T *lanes(Expr e) { return reinterpret_cast<T *>(values_[e.node()].data()); }

  template <class F> static void with_type(DType dtype, F f) {
    switch (dtype) {
    case DType::kBool: return f(bool{});
    case DType::kI32: return f(int32_t{});
    case DType::kI64: return f(int64_t{});
    case DType::kF32: return f(float{});
    case DType::kF64: return f(double{});
    default: throw std::logic_error("BlockEvaluator: dtype");
    }
  }

  void compute(Expr e) {
    if (e.is_const())
      return;
    if (e.kind() == ExprKind::kVar) {
      for (size_t i = 0; i < variables_.size(); ++i)
        if (variables_[i] == e.var())
          std::memcpy(lanes<char>(e), inputs_[i], size_of(e.dtype()) * kLanes);
      return;
    }
    if (e.kind() == ExprKind::kBitcast)
      return void(std::memcpy(lanes<char>(e), lanes<char>(e.operand(0)), size_of(e.dtype()) * kLanes));
    if (e.kind() == ExprKind::kHostCall) {
      const int count = e->operand_count;
      for (int i = 0; i < kLanes; ++i)
        lanes<double>(e)[i] = host_function(e->integer, count, lanes<double>(e.operand(0))[i],
                                            count > 1 ? lanes<double>(e.operand(1))[i] : 0);
      return;
    }
    with_type(e.kind() == ExprKind::kSelect ? e.dtype() : e.operand(0).dtype(), [&](auto zero) {
      using T = decltype(zero);
      if (e.kind() == ExprKind::kCast)
        with_type(e.dtype(),
                  [&](auto to) { each<decltype(to)>(e, [&, a = lanes<T>(e.operand(0))](int i) { return a[i]; }); });
      else
        compute_typed<T>(e);
    });
  }

  template <class T, class F> void each(Expr e, F f) {
    T *result = lanes<T>(e);
    for (int i = 0; i < kLanes; ++i)
      result[i] = static_cast<T>(f(i));
  }

  template <class T> void compute_typed(Expr e) {
    const auto operand = [&](int i) { return i < e->operand_count ? lanes<T>(e.operand(i)) : nullptr; };
    const T *a = operand(0), *b = operand(1), *c = operand(2);
    switch (e.kind()) {
    case ExprKind::kSelect: {
      const bool *condition = lanes<bool>(e.operand(0));
      return each<T>(e, [=](int i) { return condition[i] ? b[i] : c[i]; });
    }
    case ExprKind::kEq: return each<bool>(e, [=](int i) { return a[i] == b[i]; });
    case ExprKind::kNe: return each<bool>(e, [=](int i) { return a[i] != b[i]; });
    case ExprKind::kLt: return each<bool>(e, [=](int i) { return a[i] < b[i]; });
    case ExprKind::kLe: return each<bool>(e, [=](int i) { return a[i] <= b[i]; });
    default: break;
    }
    if constexpr (std::is_floating_point_v<T>) {
      switch (e.kind()) {
      case ExprKind::kAdd: return each<T>(e, [=](int i) { return a[i] + b[i]; });
      case ExprKind::kSub: return each<T>(e, [=](int i) { return a[i] - b[i]; });
      case ExprKind::kMul: return each<T>(e, [=](int i) { return a[i] * b[i]; });
      case ExprKind::kDiv: return each<T>(e, [=](int i) { return a[i] / b[i]; });
      case ExprKind::kNeg: return each<T>(e, [=](int i) { return -a[i]; });
      case ExprKind::kAbs: return each<T>(e, [=](int i) { return std::abs(a[i]); });
      case ExprKind::kSqrt: return each<T>(e, [=](int i) { return std::sqrt(a[i]); });
      case ExprKind::kTrunc: return each<T>(e, [=](int i) { return std::trunc(a[i]); });
      case ExprKind::kRint: return each<T>(e, [=](int i) { return std::rint(a[i]); });
      case ExprKind::kFma: return fma_lanes(lanes<T>(e), a, b, c);
      default: break;
      }
    } else {
      using U = std::make_unsigned_t<std::conditional_t<std::is_same_v<T, bool>, char, T>>; // wraps
      switch (e.kind()) {
      case ExprKind::kAdd: return each<T>(e, [=](int i) { return U(a[i]) + U(b[i]); });
      case ExprKind::kSub: return each<T>(e, [=](int i) { return U(a[i]) - U(b[i]); });
      case ExprKind::kShl: return each<T>(e, [=](int i) { return U(a[i]) << b[i]; });
      case ExprKind::kShr: return each<T>(e, [=](int i) { return a[i] >> b[i]; });
      case ExprKind::kAnd: return each<T>(e, [=](int i) { return a[i] & b[i]; });
      case ExprKind::kOr: return each<T>(e, [=](int i) { return a[i] | b[i]; });
      case ExprKind::kXor: return each<T>(e, [=](int i) { return a[i] ^ b[i]; });
      case ExprKind::kNot: return each<T>(e, [=](int i) { return T(std::is_same_v<T, bool> ? 1 : -1) ^ a[i]; });
      default: break;
      }
    }
    throw std::logic_error("BlockEvaluator: " + print(e));
  }

  std::vector<const Var *> variables_;
  std::vector<const void *> inputs_;
  std::unordered_map<const ExprNode *, std::vector<uint64_t>> values_;
  std::vector<Expr> order_;
  int operations_ = 0;
};

} // namespace oxyfuel::testing
