// ATen overloads into Graph IR. The Python importer walks the FX graph and calls `import_aten` once a node; a rule
// builds nodes with GraphBuilder and returns the results. A rule that cannot (an argument combination that it does not
// know) throws UnsupportedError: the importer then makes an extern node.
#pragma once

#include <complex>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <variant>

#include "ops/op.h"

namespace oxyfuel {

/// An argument of an ATen call as the importer gives it. Schema defaults are filled in; keyword arguments follow in
/// schema order.
struct AtenArgument {
  // Expr: a symbolic integer. A symbolic float is a Value of rank 0. Layouts, devices and memory formats are none.
  std::variant<std::monostate, graph::Value *, int64_t, double, bool, std::string, DType, Expr, std::complex<double>,
               std::vector<AtenArgument>>
      data;
  bool is_none() const { return std::holds_alternative<std::monostate>(data); }
};

/// Expression of result types from PyTorch's own fake tensors, so that a rule need not repeat type promotion.
struct AtenCall {
  std::string overload; ///< "aten.add.Tensor"
  std::vector<AtenArgument> arguments;
  /// Of the results in order. Where the overload returns None the type means nothing and the rule gives a null value.
  std::vector<graph::Type> results;
  std::vector<std::vector<Expr>> result_strides; ///< as eager gives them
  graph::Location location;
  /// Strides that a value has in eager, empty when the importer does not know: as_strided and bit views look at
  /// storage.
  std::function<std::vector<Expr>(const graph::Value *)> strides_of;

  // Accessors; UnsupportedError when the argument is of another kind.
  graph::Value *value(int i) const;
  graph::Value *value_or_null(int i) const;
  graph::Value *tensor_or_null(int i) const;       ///< the same, also null when the argument is a number
  std::vector<graph::Value *> values(int i) const; ///< TensorList; null entries for None
  int64_t integer(int i) const;
  Expr size(int i, ExprContext &context) const; ///< int or SymInt
  double number(int i) const;                   ///< int, float or bool
  bool boolean(int i) const;
  std::string text(int i) const;
  std::vector<int64_t> integers(int i) const;
  std::vector<Expr> sizes(int i, ExprContext &context) const;
  std::optional<DType> dtype(int i) const;
  bool has(int i) const { return i < static_cast<int>(arguments.size()) && !arguments[i].is_none(); }
};

/// Builds nodes for rules; every node made gets the call's location.
class GraphBuilder {
public:
  GraphBuilder(graph::Graph &graph, graph::Location location) : graph_(graph), location_(std::move(location)) {}
  graph::Graph &graph() { return graph_; }
  ExprContext &context() { return graph_.context(); }
  const graph::Location &location() const { return location_; }

  graph::Value *make(std::string_view op, std::vector<graph::Value *> operands,
                     std::map<std::string, graph::Attribute, std::less<>> attributes = {});
  graph::Node *make_node(std::string_view op, std::vector<graph::Value *> operands,
                         std::map<std::string, graph::Attribute, std::less<>> attributes = {});
  /// Pointwise: operands broadcast, computed in `compute` (op-math inside), result of dtype `result`.
  graph::Value *pointwise(std::string_view op, std::vector<graph::Value *> operands, DType compute, DType result,
                          std::map<std::string, graph::Attribute, std::less<>> attributes = {});
  /// Rank-0 constants. Of a floating dtype they are kept exactly in op-math precision when used in half-precision
  /// arithmetic.
  graph::Value *scalar(double value, DType dtype);
  graph::Value *scalar_integer(int64_t value, DType dtype);
  graph::Value *scalar_complex(std::complex<double> value, DType dtype);
  /// A number argument (or a rank-0 Value) as a constant; floating ones as `scalar` makes them.
  graph::Value *number(const AtenArgument &argument, DType dtype);
  graph::Value *scalar_size(Expr value, DType dtype); ///< a symbolic integer as a tensor of rank 0
  graph::Value *full(std::vector<Expr> shape, graph::Value *scalar);
  graph::Value *cast(graph::Value *x, DType dtype);
  graph::Value *permute(graph::Value *x, std::vector<int64_t> dims);
  graph::Value *reshape(graph::Value *x, std::vector<Expr> shape);
  graph::Value *expand(graph::Value *x, std::vector<Expr> shape); ///< numpy rules, aligned at the right
  graph::Value *slice(graph::Value *x, int axis, Expr start, Expr length, int64_t step = 1);
  graph::Value *squeeze(graph::Value *x, int axis);
  graph::Value *unsqueeze(graph::Value *x, int axis);
  /// op: "sum", "prod", "max", "min", "any", "all", "argmax", "argmin". Axes non-negative. Result dtype `result`.
  graph::Value *reduce(std::string_view op, graph::Value *x, std::vector<int64_t> axes, bool keep, DType result);
  graph::Value *matmul(graph::Value *a, graph::Value *b, DType result);

private:
  graph::Graph &graph_;
  graph::Location location_;
};

using AtenBuild = std::vector<graph::Value *> (*)(GraphBuilder &b, const AtenCall &call);

struct AtenRule {
  std::string_view overload;
  AtenBuild build;
};

/// The rule for an overload, or null.
const AtenRule *find_rule(std::string_view overload);
std::vector<const AtenRule *> all_rules();
/// Runs the rule and checks that what it built has the types in `call.results` (dtype, rank, sizes where both are
/// constant): UnsupportedError otherwise. Empty when no rule exists.
std::optional<std::vector<graph::Value *>> import_aten(graph::Graph &graph, const AtenCall &call);

} // namespace oxyfuel
