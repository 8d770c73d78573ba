// Views that are nothing but other strides over the same memory.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph/graph.h"

namespace oxyfuel::graph {

/// `value` as elements of `base`'s memory: element index = offset + sum of index[i] * strides[i].
struct StridedView {
  Value *base = nullptr; ///< an input of the graph or a result of a node that is not a view
  Expr offset;
  std::vector<Expr> strides;
};

/// Follows view operators from `value` up to what they look at. Empty when their index maps are not affine over the
/// base's layout (row-major where that is not decided). A value that is no view is its own base.
std::optional<StridedView> as_strided(ExprContext &context, Value *value);

/// The value that `value` is a view of, however oddly; itself when its producer is no view.
Value *view_base(Value *value);

/// e(v + 1) - e(v) when that does not depend on v; empty otherwise.
std::optional<Expr> stride_along(Expr e, const Var *v);

} // namespace oxyfuel::graph
