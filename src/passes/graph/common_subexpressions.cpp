// A key spells a node out as bytes; expressions are interned and operands already merged, so their addresses stand for
// them.
#include "passes/graph/common_subexpressions.h"

#include <type_traits>
#include <unordered_map>

#include "ops/op.h"

namespace oxyfuel::graph {

namespace {

class Key {
public:
  explicit Key(const Node &node) {
    add(node.op);
    for (const Value *operand : node.operands)
      add(operand);
    for (const auto &[name, attribute] : node.attributes) {
      add_text(name);
      add(attribute.index());
      std::visit([&](const auto &value) { add_attribute(value); }, attribute);
    }
    for (const auto &result : node.results) {
      add(result->type.dtype);
      add_list(result->type.shape);
      add_list(result->layout.strides);
      add(result->layout.offset.node());
    }
  }
  std::string bytes;

private:
  template <typename T> void add(const T &value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes.append(reinterpret_cast<const char *>(&value), sizeof(T));
  }
  template <typename T> void add_list(const std::vector<T> &list) {
    add(list.size());
    for (const T &value : list)
      add(value);
  }
  void add_text(const std::string &text) {
    add(text.size());
    bytes += text;
  }
  template <typename T> void add_attribute(const T &value) { add(value); }
  template <typename T> void add_attribute(const std::vector<T> &list) { add_list(list); }
  void add_attribute(const std::string &text) { add_text(text); }
  void add_attribute(const std::shared_ptr<Graph> &region) { add(region.get()); }
};

} // namespace

bool common_subexpressions(Graph &graph, PassContext &context) {
  std::unordered_map<std::string, Node *> seen;
  bool changed = false;
  for (const auto &node : graph.nodes()) {
    for (const auto &[name, attribute] : node->attributes)
      if (auto region = std::get_if<std::shared_ptr<Graph>>(&attribute))
        changed |= common_subexpressions(**region, context);
    if (node->op->name == "copy" || node->op->kind == OpKind::kExtern || node->op->kind == OpKind::kRegion ||
        has_effect(*node))
      continue;
    auto [at, is_new] = seen.emplace(Key(*node).bytes, node.get());
    if (is_new || !context.spend_fuel())
      continue;
    for (size_t i = 0; i < node->results.size(); ++i)
      graph.replace_uses(node->results[i].get(), at->second->results[i].get());
    changed = true;
  }
  return graph.remove_dead() || changed;
}

} // namespace oxyfuel::graph
