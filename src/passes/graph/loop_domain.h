// The iteration space of a loops group: its axes, which of them reductions fold, and how values relate to it.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ir/graph/graph.h"

namespace oxyfuel {

/// Axes of a group. With reductions in the group: the shape of what they fold, and the axes that they fold. Otherwise
/// the shape of the results.
struct LoopDomain {
  std::vector<Expr> extents;
  std::vector<bool> is_folded;
  std::vector<Var *> vars; ///< one an axis, in the program's context
  std::vector<Expr> index; ///< the vars as expressions

  int rank() const { return static_cast<int>(extents.size()); }
  /// Whether any axis is folded.
  bool has_folds() const;
};

/// Finds the domain from the nodes of a region; empty when its reductions (or, without reductions, its results) do not
/// share one.
std::optional<LoopDomain> find_domain(ExprContext &context, std::span<const graph::Node *const> nodes,
                                      std::span<const graph::Value *const> results);

enum class Extent : uint8_t { kFull, kOuter }; ///< a value has all axes of the domain, or those that are not folded
struct Placement {
  Extent extent;
  std::vector<Expr> index; ///< of the value, at the domain's vars
};
/// How a value of that shape is read at the domain's own place: identity (kFull), or identity with folded axes left out
/// or of size 1 (kOuter). Empty when the shape fits neither.
std::optional<Placement> place(const LoopDomain &domain, ExprContext &context, const std::vector<Expr> &shape);

/// Whether every read of the group's own reductions by `results` is at the domain's own place, so that one pass over
/// the outer axes computes all.
bool reads_reductions_in_place(const LoopDomain &domain, std::span<const graph::Node *const> nodes,
                               std::span<const graph::Value *const> results);

} // namespace oxyfuel
