// The grouping that fuse.cpp decides on; fuse_build.cpp turns it into group nodes.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/graph/graph.h"

namespace oxyfuel::graph {

/// Nodes that become one group node.
struct FusionGroup {
  std::string kind = "loops";
  std::vector<Node *> nodes;  ///< that it computes, latest first
  std::vector<Value *> roots; ///< that get memory, latest first
  Node *anchor = nullptr;     ///< the contraction, attention, … of kinds other than "loops"
  int first = 0;              ///< place of its earliest node in the order of execution
};

/// What fuse.cpp decided.
struct Fusion {
  std::vector<std::unique_ptr<FusionGroup>> groups;
  /// Nodes that every group which reads them computes for itself.
  std::unordered_set<Node *> repeated;
};

/// Operators that live in every region that reads them: views, constants.
bool is_free(const Node &node);

/// Replaces the grouped nodes by group nodes and sorts the graph.
void build_groups(Graph &graph, const Fusion &fusion);

} // namespace oxyfuel::graph
