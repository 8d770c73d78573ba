// Lowering of loops groups: pointwise, view, indexed and reduction operators over one domain become one kernel.
//
// Reductions are levels: a reduction that needs another's result runs a level later. For each place on the unfolded
// axes the kernel runs a loop over the folded axes for each level, then one that stores the results; values that cost
// much and are needed by several of these loops are kept in a row of scratch memory. So softmax and layer normalisation
// are one pass over memory. Lanes run along a folded axis (results are then a tree over lanes) or along an unfolded
// one.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "passes/graph/loop_domain.h"
#include "passes/lower/evaluate.h"
#include "schedule/loop_schedule.h"

namespace oxyfuel {

/// What a loops group computes, in the program's context; found by `analyse_loops`, emitted by LoopsEmitter.
struct LoopsPlan {
  struct Fold {
    const graph::Node *node;
    int level;
    DType accumulator;
    Expr element;  ///< of the accumulator's dtype
    Expr position; ///< argmax, argmin: the place along the folded axes
    Var *result;   ///< stands for the result
  };
  struct Root {
    int result; ///< of the group
    Extent extent;
    Expr element, store_index;
  };
  struct Row { ///< a value kept in scratch memory between the loops of a task
    const graph::Value *value;
    int level; ///< the loop that computes it
    Expr element;
    Var *kept; ///< stands for the value in later loops
  };
  LoopDomain domain;
  std::vector<Fold> folds;
  std::vector<Root> roots;
  std::vector<Row> rows;
  std::vector<std::vector<Evaluator::Check>> checks; ///< by level; the last entry is that of the roots
  int levels = 0;
  LoopProblem problem;
};

/// Finds levels, rows that are kept, and what the schedule has to know.
LoopsPlan analyse_loops(const graph::Node &group, Evaluator &evaluator, const Machine &machine);

} // namespace oxyfuel
