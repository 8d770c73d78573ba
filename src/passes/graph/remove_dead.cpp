#include "passes/graph/remove_dead.h"

namespace oxyfuel::graph {

bool remove_dead(Graph &graph, PassContext &context) {
  if (!context.spend_fuel())
    return false;
  bool changed = graph.remove_dead();
  for (const auto &node : graph.nodes())
    for (const auto &[name, attribute] : node->attributes)
      if (auto region = std::get_if<std::shared_ptr<Graph>>(&attribute))
        changed |= remove_dead(**region, context);
  return changed;
}

} // namespace oxyfuel::graph
