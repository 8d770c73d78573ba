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

/// An expression bound to the places where its variables' values and its buffers' elements lie. Only what the value depends on is
/// computed: the branch of a select that is not taken reads nothing.
class Evaluation {
public:
  /// `variable` gives the place of a variable's value, which is read at each call.
  Evaluation(Expr root, const std::function<const Scalar *(const Var *)> &variable,
             const std::function<MemoryView(const Buffer *)> &memory);

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
  int add(Expr e);
  const Scalar &value_of(int step);
  Scalar load(const Step &step);

  Expr root_;
  const std::function<const Scalar *(const Var *)> &variable_;
  const std::function<MemoryView(const Buffer *)> &memory_;
  std::vector<Step> steps_;
  std::unordered_map<const ExprNode *, int> places_;
  uint64_t round_ = 0;
};

} // namespace oxyfuel
