// Chooses the lowering of a group by its kind.
#include "passes/lower/lower.h"

#include "support/error.h"

namespace oxyfuel {

LoweredGroup lower_group(const graph::Node &group, const Machine &machine) {
  struct Lowering {
    const char *kind;
    LoweredGroup (*lower)(const graph::Node &, const Machine &);
  };
  static constexpr Lowering lowerings[] = {{"loops", lower_loops},         {"contraction", lower_contraction},
                                           {"attention", lower_attention}, {"scatter", lower_scatter},
                                           {"scan", lower_scan},           {"sort", lower_sort}};
  const std::string &kind = group.get<std::string>("kind");
  for (const Lowering &lowering : lowerings)
    if (kind == lowering.kind)
      return lowering.lower(group, machine);
  throw InternalError("a group of unknown kind " + kind);
}

} // namespace oxyfuel
