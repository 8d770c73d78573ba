// Lowering of attention groups: scores, softmax and weighted sum of values in one kernel, with no matrix of scores in
// memory.
//
// For each query the kernel keeps the greatest score so far, the sum of exp(score - greatest) and the sum of values
// weighted by the same; when a later block of keys has a greater score, both sums are rescaled. So memory is linear in
// the number of keys. There are two forms, chosen by schedule/attention_schedule.h: attention_blocks.cpp and
// attention_rows.cpp.
//
// As in eager, a query that may attend to no key gets zeros, and logsumexp 0.
#pragma once

#include <cmath>
#include <vector>

#include "passes/lower/tasks.h"
#include "schedule/attention_schedule.h"

namespace oxyfuel {

/// What the group computes, in the program's context.
struct AttentionPlan {
  const graph::Node *group = nullptr;
  Anchor anchor;
  Expr batches, queries, keys;
  int64_t heads = 1, key_heads = 1, size = 0, value_size = 0;
  int64_t shared() const { return heads / key_heads; } ///< query heads a key head
  DType accumulator = DType::kF32;
  double scale = 1;
  bool is_causal = false;

  /// Places, which the elements below are built of.
  Var *batch = nullptr, *head = nullptr, *key_head = nullptr, *query = nullptr, *key = nullptr, *element = nullptr;
  Expr q, k, v;                    ///< elements of operands in their own types; k and v at key_head
  Expr mask;                       ///< bool or a number to add; empty: none
  Expr out_index, logsumexp_index; ///< flat, in the results; logsumexp_index may be empty
};

/// What both forms share: tiles, copies, results.
class AttentionKernel {
public:
  using VarMap = KernelFrame::VarMap;

  AttentionKernel(const AttentionPlan &plan, const AttentionSchedule &schedule, const Evaluator &evaluator,
                  const std::string &name)
      : plan_(plan), schedule_(schedule), frame_(*plan.group, name), b_(frame_.builder()), width_(schedule.width) {
    frame_.use_inputs(evaluator);
  }

protected:
  /// Where a tile reads: an element of a buffer as a function of places.
  struct Source {
    const Buffer *buffer;
    Expr index;
  };

  ExprContext &context() { return frame_.context(); }
  Expr integer(int64_t value) { return context().integer(value); }
  Expr real(double value) { return context().real(value, plan_.accumulator); }
  Expr wide(Expr e) { return e.dtype() == plan_.accumulator ? e : cast(e, plan_.accumulator); }
  Expr load(const Buffer *buffer, Expr index) { return context().load(buffer, index); }

  /// A vector loop over lanes [first, first + width), those below `count` valid (all when it is empty).
  void lanes(Expr first, Expr count, const std::function<void(Expr)> &f);
  /// The operand's element at places of the kernel, as a place in memory.
  Source source(Expr operand, const VarMap &at);
  /// `count` rows of an operand, converted, into scratch memory of rows of `stride` elements.
  void copy_rows(Expr operand, int64_t size, int64_t stride, const VarMap &at, Expr first_key, Expr count,
                 const Buffer *into);
  /// The score with the mask's part, at places; `score` is already scaled.
  Expr masked(Expr score, const VarMap &at);
  /// The greater; NaN in `candidate` is left to the sums, which it reaches as well.
  static Expr greater(Expr best, Expr candidate) { return select(best < candidate, candidate, best); }
  /// What scores are taken relative to: the greatest one, 0 where all are masked.
  Expr reference(Expr greatest) { return select(eq(greatest, real(-INFINITY)), real(0), greatest); }
  VarMap with(const VarMap &at, const Var *var, Expr place) {
    VarMap result = at;
    result[var] = place;
    return result;
  }

  const AttentionPlan &plan_;
  const AttentionSchedule &schedule_;
  KernelFrame frame_;
  loop::Builder &b_;
  int width_;
};

void emit_attention_blocks(const AttentionPlan &plan, const AttentionSchedule &schedule, const Evaluator &evaluator,
                           LoweredGroup &lowered);
void emit_attention_rows(const AttentionPlan &plan, const AttentionSchedule &schedule, const Evaluator &evaluator,
                         LoweredGroup &lowered);

} // namespace oxyfuel
