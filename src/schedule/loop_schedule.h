// How a loops group runs: plain data with a text form. `choose` makes one from what the loops touch.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "schedule/machine.h"

namespace oxyfuel {

/// What to emit; axes are those of the group's domain.
struct LoopSchedule {
  std::vector<int> outer; ///< unfolded axes that make tasks, outermost first (the vector axis is not among them)
  std::vector<int>
      folded;           ///< folded axes that run as serial loops, outermost first (the vector axis is not among them)
  int vector_axis = -1; ///< -1: a domain without axes
  bool is_vector_folded = false; ///< lanes hold parts of one result, summed as a tree at the end
  int width = 1;                 ///< lanes
  int unroll = 1;                ///< vectors side by side, at most
  std::vector<int> level_unroll; ///< the same in each loop over a folded vector axis: by level, then that of the stores
  int64_t block = 1;             ///< elements of the vector axis that one task covers (unfolded vector axis)
  int64_t chunk = 0;             ///< steps after which partial results are added up; 0: never (short enough)
  int64_t grain = 1;             ///< tasks worth a claim
  int split_axis =
      -1; ///< a folded axis that is cut into `parts`, which are tasks of their own and are combined in order
  int parts = 1;

  /// For `explain` and tests.
  std::string text() const;
};

/// One load or store of the group's loops.
struct LoopAccess {
  std::vector<std::optional<int64_t>>
      strides; ///< in elements, one an axis; empty where not affine with constant stride
  int bytes = 4;
  bool is_store = false;
};

/// The group's loops as far as they decide a schedule. Lists have one entry an axis.
struct LoopProblem {
  std::vector<int64_t> extents; ///< at hints
  std::vector<bool> is_static;  ///< the extent is a constant
  std::vector<bool> is_folded;
  std::vector<LoopAccess> accesses;
  std::vector<bool> calls_functions; ///< of mathematics, by level, then the stores
  int lane_bytes = 4;                ///< of the element type that vectors are made for
  int cost = 1;                      ///< of one point, in additions
};

/// The cost model's choice; the same for the same problem and machine.
LoopSchedule choose(const LoopProblem &problem, const Machine &machine);

} // namespace oxyfuel
