// Graph IR: a program as operators on whole tensors, in single static assignment, functional, with symbolic sizes.
//
//   graph @main(%x: f32[s0, 512] strides(512, 1), %w: f32[512, 512] static) symbols(s0 in [2, inf) hint 32) {
//     %1: f32[512, 512] = permute(%w) {dims = [1, 0]}
//     %2: f32[s0, 512] = matmul(%x, %1)
//     %3: f32[s0, 512] = gelu(%2) {approximate = "none"} loc("model.py:12")
//     return %3
//   }
//
// What an operator means is in its OpInfo (op_info.h). After `fuse`, nodes of the operator `group` hold a region: a
// graph of its own whose inputs are the node's operands; each group becomes kernels.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/expr.h"

namespace oxyfuel {
struct OpInfo;
}

namespace oxyfuel::graph {

class Graph;
struct Node;

struct Type {
  DType dtype = DType::kF32;
  std::vector<Expr> shape;
  int rank() const { return static_cast<int>(shape.size()); }
};

/// Where the elements of a materialised value lie: element index = offset + sum of index[i] * strides[i].
/// Empty strides: not decided yet (row-major when the plan is made).
struct Layout {
  std::vector<Expr> strides;
  Expr offset; ///< empty: 0
};

/// A result of a node, or an input of the graph (then `producer` is null).
struct Value {
  Type type;
  Layout layout;
  Node *producer = nullptr;
  int index = 0; ///< among the producer's results, or the graph's inputs
  std::string name;
  std::vector<Node *> users; ///< one entry an operand use
  bool is_static = false;    ///< inputs: a weight or buffer of the model, worth preparing ahead
};

using Attribute = std::variant<int64_t, double, bool, std::string, DType, Expr, std::vector<Expr>, std::vector<int64_t>,
                               std::vector<double>, std::shared_ptr<Graph>>;

/// Where a node comes from.
struct Location {
  std::string place;      ///< in the user's program: "file.py:12 in forward"; empty: unknown
  int64_t operation = -1; ///< the importer's number of the operator that became the node; -1: none
};

struct Node {
  const OpInfo *op = nullptr;
  std::vector<Value *> operands; ///< null for an optional operand that is absent
  std::map<std::string, Attribute, std::less<>> attributes;
  std::vector<std::unique_ptr<Value>> results;
  Location location;

  Value *result(int i = 0) const { return results[i].get(); }
  bool has(std::string_view name) const { return attributes.find(name) != attributes.end(); }
  /// The attribute; InternalError when it is absent or of another type.
  template <typename T> const T &get(std::string_view name) const;
  template <typename T> T get_or(std::string_view name, T otherwise) const;
};

/// An input written in place when the program ends (eager's mutation of an argument): input `target` takes `value`.
struct Mutation {
  Value *target = nullptr;
  Value *value = nullptr;
};

class Graph {
public:
  Graph();
  ~Graph();
  Graph(const Graph &) = delete;
  Graph &operator=(Graph &&) = default; ///< nothing may point into the graph that was here

  std::string name = "main";
  ExprContext &context() { return *context_; }
  const std::shared_ptr<ExprContext> &shared_context() const { return context_; }
  /// Regions share the context of the graph that holds them.
  explicit Graph(std::shared_ptr<ExprContext> context);

  std::vector<Var *> symbols; ///< size symbols, in the order of the program's plan
  const std::vector<std::unique_ptr<Value>> &inputs() const { return inputs_; }
  const std::vector<std::unique_ptr<Node>> &nodes() const { return nodes_; } ///< in execution order
  std::vector<Value *> outputs;                                              ///< null: the program returns None there
  std::vector<Layout> output_layouts; ///< strides that the caller expects; empty strides: free
  std::vector<Mutation> mutations;

  Value *add_input(Type type, std::string name);
  /// Appends (or inserts before `before`) a node; infers and sets the types of its results; CompileError on bad
  /// operands.
  Node *add(const OpInfo *op, std::vector<Value *> operands,
            std::map<std::string, Attribute, std::less<>> attributes = {}, const Node *before = nullptr);
  /// The same with given result types (group, extern, and what `infer` cannot know).
  Node *add_typed(const OpInfo *op, std::vector<Value *> operands,
                  std::map<std::string, Attribute, std::less<>> attributes, std::vector<Type> types,
                  const Node *before = nullptr);
  void set_operand(Node *node, int i, Value *value);
  void replace_uses(Value *from, Value *to); ///< in nodes, outputs and mutations
  void erase(Node *node);                    ///< its results must be unused
  bool is_used(const Value *value) const;    ///< by a node, an output or a mutation
  /// Drops nodes whose results nobody uses and that have no effect; true when any went.
  bool remove_dead();
  /// Brings nodes into an order where producers come first, keeping the present order where possible.
  void sort();

private:
  std::shared_ptr<ExprContext> context_;
  std::vector<std::unique_ptr<Value>> inputs_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

/// Row-major strides of a shape.
std::vector<Expr> contiguous_strides(ExprContext &context, const std::vector<Expr> &shape);
/// Strides of a shape laid out in the given order of dimensions, outermost first.
std::vector<Expr> ordered_strides(ExprContext &context, const std::vector<Expr> &shape, const std::vector<int> &order);
Expr element_count(ExprContext &context, const std::vector<Expr> &shape);

/// The same element type and rank, and no dimension whose sizes provably differ.
bool agree(const Type &a, const Type &b);

/// Never dropped, and kept in order with others that have effects: its operator says so, its attribute "effect" does
/// (which wins), or a node in one of its regions has one.
bool has_effect(const Node &node);

/// Text form; `canonical` renames values in order of appearance and leaves locations out (equal groups have equal
/// texts).
std::string print(const Graph &graph, bool canonical = false);
/// "f32[s0, 512]".
std::string print(const Type &type);
/// Finds an operator by its name; null when there is none.
using FindOp = const OpInfo *(*)(std::string_view name);
/// Parses one graph. Throws CompileError with line and column. With the op table of ops/op.h: `parse(text)`.
std::unique_ptr<Graph> parse(const std::string &text, FindOp find_op);
/// Throws InternalError naming the first broken rule (order, types as inferred, uses, layouts).
void verify(const Graph &graph);

} // namespace oxyfuel::graph
