// Evaluates an expression many times over, at other values of its variables: the inner step of the interpreter.
#pragma once

#include <functional>
#include <unordered_map>
#include <vector>

#include "ir/expr.h"
#include "ir/scalar.h"

namespace oxyfuel {

/// Elements in memory that loads of a buffer read.
struct MemoryView {
  const void *data = nullptr;
  int64_t count = 0;
};

/// An expression bound to the places where its variables' values and its buffers' elements lie. Only what the value
/// depends on is computed: the branch of a select that is not taken reads nothing.
class Evaluation {
public:
  /// `variable` gives the place of a variable's value, which is read at each call.
  using FindVariable = std::function<const Scalar *(const Var *)>;
  using FindMemory = std::function<MemoryView(const Buffer *)>;
  Evaluation(Expr root, const FindVariable &variable, const FindMemory &memory);

  Scalar operator()();
  DType dtype() const { return root_.dtype(); }

private:
  struct Step {
    Expr expression;
    int operands[3] = {-1, -1, -1};
    const Scalar *variable = nullptr;
    MemoryView memory;
    Scalar value;
    uint64_t round = 0; ///< the call in which `value` was computed
  };
  int add(Expr e, const FindVariable &variable, const FindMemory &memory);
  const Scalar &value_of(int step);
  Scalar load(const Step &step);

  Expr root_;
  std::vector<Step> steps_;
  std::unordered_map<const ExprNode *, int> places_;
  uint64_t round_ = 0;
};

} // namespace oxyfuel
