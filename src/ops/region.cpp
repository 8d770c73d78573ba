// Operators that hold graphs, and operators that PyTorch runs. Their nodes are made with given result types.
#include "ops/table.h"

namespace oxyfuel {

namespace {

constexpr OpInfo region(std::string_view name, OpKind kind, std::string_view doc, bool has_effect = false) {
  OpInfo info;
  info.name = name, info.kind = kind, info.doc = doc, info.has_effect = has_effect, info.cost = 1000;
  return info;
}

constexpr OpInfo kOps[] = {
    region("group", OpKind::kRegion,
           "a fused kernel: the graph `region` on the operands; `kind` says how it is lowered"),
    region("cond", OpKind::kRegion,
           "operand 0 (bool, rank 0) chooses the graph `then` or `else`, run on the other operands"),
    region("while", OpKind::kRegion,
           "carried operands through the graph `body` while the graph `condition` gives true"),
    region("extern", OpKind::kExtern, "`target` in PyTorch; order among externs is kept, never dropped", true),
    region("extern_pure", OpKind::kExtern, "`target` in PyTorch, without effects: dropped when unused"),
};

} // namespace

OpTable region_ops() { return {kOps, {}}; }

} // namespace oxyfuel
