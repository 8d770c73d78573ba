// Graph IR: building and changing. Uses are kept exact at every step: `Value::users` has one entry an operand use.
#include "ir/graph/graph.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/graph/op_info.h"
#include "support/error.h"

namespace oxyfuel::graph {

namespace {

std::string describe(const Node &node) {
  const std::string &place = node.location.place;
  return place.empty() ? std::string(node.op->name) : std::string(node.op->name) + " at " + place;
}

void remove_user(Value *value, Node *node) {
  auto at = std::find(value->users.begin(), value->users.end(), node);
  OXYFUEL_CHECK(at != value->users.end(), "operand does not know its user " + describe(*node));
  value->users.erase(at);
}

} // namespace

template <typename T> const T &Node::get(std::string_view name) const {
  auto at = attributes.find(name);
  OXYFUEL_CHECK(at != attributes.end(), "no attribute \"" + std::string(name) + "\" on " + describe(*this));
  const T *value = std::get_if<T>(&at->second);
  OXYFUEL_CHECK(value, "attribute \"" + std::string(name) + "\" of " + describe(*this) + " has another type");
  return *value;
}

template <typename T> T Node::get_or(std::string_view name, T otherwise) const {
  return has(name) ? get<T>(name) : otherwise;
}

#define OXYFUEL_ATTRIBUTE(...)                                                                                         \
  template const __VA_ARGS__ &Node::get<__VA_ARGS__>(std::string_view) const;                                          \
  template __VA_ARGS__ Node::get_or<__VA_ARGS__>(std::string_view, __VA_ARGS__) const;
OXYFUEL_ATTRIBUTE(int64_t)
OXYFUEL_ATTRIBUTE(double)
OXYFUEL_ATTRIBUTE(bool)
OXYFUEL_ATTRIBUTE(std::string)
OXYFUEL_ATTRIBUTE(DType)
OXYFUEL_ATTRIBUTE(Expr)
OXYFUEL_ATTRIBUTE(std::vector<Expr>)
OXYFUEL_ATTRIBUTE(std::vector<int64_t>)
OXYFUEL_ATTRIBUTE(std::vector<double>)
OXYFUEL_ATTRIBUTE(std::shared_ptr<Graph>)
#undef OXYFUEL_ATTRIBUTE

Graph::Graph() : context_(std::make_shared<ExprContext>()) {}
Graph::Graph(std::shared_ptr<ExprContext> context) : context_(std::move(context)) {}
Graph::~Graph() = default;

Value *Graph::add_input(Type type, std::string name) {
  auto value = std::make_unique<Value>();
  value->type = std::move(type);
  value->index = static_cast<int>(inputs_.size());
  value->name = std::move(name);
  inputs_.push_back(std::move(value));
  return inputs_.back().get();
}

Node *Graph::add(const OpInfo *op, std::vector<Value *> operands,
                 std::map<std::string, Attribute, std::less<>> attributes, const Node *before) {
  OXYFUEL_CHECK(op && op->infer, "operator without type rule: give the result types");
  // `infer` sees a node that is not in the graph yet, so a refusal leaves the graph as it was.
  Node draft;
  draft.op = op;
  draft.operands = operands;
  draft.attributes = attributes;
  std::vector<Type> types = op->infer(draft, *context_);
  return add_typed(op, std::move(operands), std::move(attributes), std::move(types), before);
}

Node *Graph::add_typed(const OpInfo *op, std::vector<Value *> operands,
                       std::map<std::string, Attribute, std::less<>> attributes, std::vector<Type> types,
                       const Node *before) {
  auto node = std::make_unique<Node>();
  node->op = op;
  node->operands = std::move(operands);
  node->attributes = std::move(attributes);
  for (Type &type : types) {
    auto result = std::make_unique<Value>();
    result->type = std::move(type);
    result->producer = node.get();
    result->index = static_cast<int>(node->results.size());
    node->results.push_back(std::move(result));
  }
  for (Value *operand : node->operands)
    if (operand)
      operand->users.push_back(node.get());
  auto at = nodes_.end();
  if (before) {
    at = std::find_if(nodes_.begin(), nodes_.end(), [&](const auto &other) { return other.get() == before; });
    OXYFUEL_CHECK(at != nodes_.end(), "insertion before a node of another graph");
  }
  return nodes_.insert(at, std::move(node))->get();
}

void Graph::set_operand(Node *node, int i, Value *value) {
  OXYFUEL_CHECK(i >= 0 && i < static_cast<int>(node->operands.size()), "no such operand of " + describe(*node));
  if (Value *old = node->operands[i])
    remove_user(old, node);
  node->operands[i] = value;
  if (value)
    value->users.push_back(node);
}

void Graph::replace_uses(Value *from, Value *to) {
  if (from == to)
    return;
  for (Node *user : from->users) {
    std::replace(user->operands.begin(), user->operands.end(), from, to);
    to->users.push_back(user);
  }
  from->users.clear();
  std::replace(outputs.begin(), outputs.end(), from, to);
  for (Mutation &mutation : mutations)
    if (mutation.value == from)
      mutation.value = to;
}

void Graph::erase(Node *node) {
  for (const auto &result : node->results)
    OXYFUEL_CHECK(!is_used(result.get()), "erasing " + describe(*node) + ", which is used");
  for (Value *operand : node->operands)
    if (operand)
      remove_user(operand, node);
  auto at = std::find_if(nodes_.begin(), nodes_.end(), [&](const auto &other) { return other.get() == node; });
  OXYFUEL_CHECK(at != nodes_.end(), "erasing a node of another graph");
  nodes_.erase(at);
}

bool Graph::is_used(const Value *value) const {
  return !value->users.empty() || std::find(outputs.begin(), outputs.end(), value) != outputs.end() ||
         std::any_of(mutations.begin(), mutations.end(), [&](const Mutation &m) { return m.value == value; });
}

bool Graph::remove_dead() {
  std::unordered_set<const Value *> kept(outputs.begin(), outputs.end());
  for (const Mutation &mutation : mutations)
    kept.insert(mutation.value);
  bool changed = false;
  for (size_t i = nodes_.size(); i-- > 0;) {
    Node *node = nodes_[i].get();
    bool used = std::any_of(node->results.begin(), node->results.end(),
                            [&](const auto &result) { return !result->users.empty() || kept.count(result.get()); });
    if (used || has_effect(*node))
      continue;
    for (Value *operand : node->operands)
      if (operand)
        remove_user(operand, node);
    nodes_[i].reset();
    changed = true;
  }
  if (changed)
    std::erase(nodes_, nullptr);
  return changed;
}

void Graph::sort() {
  std::unordered_map<const Node *, size_t> position;
  for (size_t i = 0; i < nodes_.size(); ++i)
    position[nodes_[i].get()] = i;
  // A node with an effect also waits for the one before it.
  std::unordered_map<const Node *, Node *> effect_before;
  Node *last_effect = nullptr;
  for (const auto &node : nodes_)
    if (has_effect(*node)) {
      effect_before[node.get()] = last_effect;
      last_effect = node.get();
    }

  enum class State : uint8_t { kNew, kOpen, kDone };
  std::vector<State> state(nodes_.size(), State::kNew);
  std::vector<size_t> order, stack;
  for (size_t first = 0; first < nodes_.size(); ++first) {
    stack.push_back(first);
    while (!stack.empty()) {
      size_t at = stack.back();
      Node *node = nodes_[at].get();
      if (state[at] != State::kNew) {
        stack.pop_back();
        if (state[at] == State::kOpen)
          order.push_back(at);
        state[at] = State::kDone;
        continue;
      }
      state[at] = State::kOpen;
      auto wait_for = [&](const Node *producer) {
        size_t other = position.at(producer);
        OXYFUEL_CHECK(state[other] != State::kOpen, "cycle through " + describe(*node));
        if (state[other] == State::kNew)
          stack.push_back(other);
      };
      // Pushed last is placed first: operand 0's producer comes before operand 1's.
      for (size_t i = node->operands.size(); i-- > 0;)
        if (node->operands[i] && node->operands[i]->producer)
          wait_for(node->operands[i]->producer);
      if (auto effect = effect_before.find(node); effect != effect_before.end() && effect->second)
        wait_for(effect->second);
    }
  }
  std::vector<std::unique_ptr<Node>> sorted;
  for (size_t i : order)
    sorted.push_back(std::move(nodes_[i]));
  nodes_ = std::move(sorted);
}

std::vector<Expr> contiguous_strides(ExprContext &context, const std::vector<Expr> &shape) {
  std::vector<int> order(shape.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = static_cast<int>(i);
  return ordered_strides(context, shape, order);
}

std::vector<Expr> ordered_strides(ExprContext &context, const std::vector<Expr> &shape, const std::vector<int> &order) {
  OXYFUEL_CHECK(order.size() == shape.size(), "an order names every dimension once");
  std::vector<Expr> strides(shape.size());
  Expr stride = context.integer(1);
  for (size_t i = order.size(); i-- > 0;) {
    strides[order[i]] = stride;
    stride = stride * shape[order[i]];
  }
  return strides;
}

Expr element_count(ExprContext &context, const std::vector<Expr> &shape) {
  Expr count = context.integer(1);
  for (Expr size : shape)
    count = count * size;
  return count;
}

bool agree(const Type &a, const Type &b) {
  if (a.dtype != b.dtype || a.rank() != b.rank())
    return false;
  for (int i = 0; i < a.rank(); ++i)
    if (a.shape[i] != b.shape[i] && (a.shape[i] - b.shape[i]).constant().value_or(0) != 0)
      return false;
  return true;
}

bool has_effect(const Node &node) {
  if (node.has("effect"))
    return node.get<bool>("effect");
  if (node.op->has_effect)
    return true;
  for (const auto &[name, attribute] : node.attributes)
    if (auto region = std::get_if<std::shared_ptr<Graph>>(&attribute))
      for (const auto &inner : (*region)->nodes())
        if (has_effect(*inner))
          return true;
  return false;
}

} // namespace oxyfuel::graph
