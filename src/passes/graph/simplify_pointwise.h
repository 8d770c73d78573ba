// The rules of `canonicalise` for pointwise operators and constants.
#pragma once

#include "ir/graph/graph.h"

namespace oxyfuel::graph {

/// The value that may stand for the result of `node`, new nodes being put before it; null when no rule applies.
Value *simplify_pointwise(Graph &graph, Node &node);

/// Lets a pointwise node read its operands from before an expand where the type of its result stays as it is.
bool drop_broadcasts(Graph &graph, Node &node);

/// Whether a cast from `from` to `to` keeps every value.
bool is_exact_cast(DType from, DType to);

} // namespace oxyfuel::graph
