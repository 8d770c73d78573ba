// Graph IR to text. The text is a function of the graph alone: attributes come in the order of their names, terms of a
// size in the order of their texts, and unnamed values are numbered in order of appearance.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "ir/graph/op_info.h"
#include "ir/graph/text.h"
#include "support/error.h"

namespace oxyfuel::graph {

namespace {

/// Gives names that nobody else has.
class Names {
public:
  std::string unique(const std::string &wanted) {
    std::string name = wanted;
    for (int suffix = 1; !taken_.insert(name).second; ++suffix)
      name = wanted + "." + std::to_string(suffix);
    return name;
  }

private:
  std::unordered_set<std::string> taken_;
};

bool is_name(const std::string &name) {
  return !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0])) &&
         std::all_of(name.begin(), name.end(), is_name_character);
}

class Printer {
public:
  explicit Printer(bool canonical) : canonical_(canonical) {}

  std::string run(const Graph &graph) {
    for (const Var *symbol : graph.symbols)
      name_symbol(symbol);
    print_graph(graph, 0, true);
    return text_ + "\n";
  }

private:
  struct Scope {
    std::unordered_map<const Value *, std::string> names;
    Names taken;
    int next = 0;
  };

  const std::string &name_symbol(const Var *symbol) {
    auto at = symbols_.find(symbol);
    if (at == symbols_.end()) {
      std::string wanted = canonical_ ? "n" + std::to_string(symbols_.size()) : symbol->name;
      at = symbols_.emplace(symbol, symbol_names_.unique(wanted)).first;
      symbol_order_.push_back(symbol);
    }
    return at->second;
  }

  std::string size(Expr e) {
    std::vector<const Var *> vars;
    collect_vars(e, vars);
    for (const Var *var : vars)
      name_symbol(var);
    return print_size(e, [&](const Var *var) { return name_symbol(var); });
  }

  std::string sizes(const std::vector<Expr> &list) {
    std::string text;
    for (Expr e : list)
      text += (text.empty() ? "" : ", ") + size(e);
    return text;
  }

  std::string type(const Type &type) { return std::string(name_of(type.dtype)) + "[" + sizes(type.shape) + "]"; }

  std::string layout(const Layout &layout) {
    std::string text;
    if (!layout.strides.empty())
      text += " strides(" + sizes(layout.strides) + ")";
    if (layout.offset)
      text += " offset(" + size(layout.offset) + ")";
    return text;
  }

  std::string define(const Value *value, Scope &scope) {
    std::string name = canonical_ || !is_name(value->name) ? std::to_string(scope.next++) : value->name;
    name = scope.taken.unique(name);
    scope.names[value] = name;
    return "%" + name + ": " + type(value->type) + layout(value->layout);
  }

  static std::string use(const Value *value, const Scope &scope) {
    if (!value)
      return "null";
    auto at = scope.names.find(value);
    // Printing is for debugging too: a broken graph still prints.
    return at == scope.names.end() ? "%<undefined>" : "%" + at->second;
  }

  std::string symbol_clause(size_t first) {
    std::string text;
    for (size_t i = first; i < symbol_order_.size(); ++i) {
      const Var *symbol = symbol_order_[i];
      text += (i == first ? "" : ", ") + symbols_.at(symbol);
      if (symbol->lower || symbol->upper)
        text += " in [" + (symbol->lower ? std::to_string(*symbol->lower) : "-inf") + ", " +
                (symbol->upper ? std::to_string(*symbol->upper) : "inf") + ")";
      if (symbol->hint)
        text += " hint " + std::to_string(symbol->hint);
    }
    return text.empty() ? text : " symbols(" + text + ")";
  }

  void print_graph(const Graph &graph, int indent, bool outermost) {
    Scope scope;
    std::string header = "graph @" + (canonical_ || !is_name(graph.name) ? "main" : graph.name) + "(";
    for (const auto &input : graph.inputs()) {
      header += input->index ? ", " : "";
      header += define(input.get(), scope) + (input->is_static ? " static" : "");
    }
    text_ += header + ")";
    size_t clause_at = text_.size();
    std::string margin(indent + 2, ' ');
    text_ += " {\n";
    for (const auto &node : graph.nodes())
      print_node(*node, scope, indent + 2);
    for (const Mutation &mutation : graph.mutations)
      text_ += margin + "mutate " + use(mutation.target, scope) + " = " + use(mutation.value, scope) + "\n";
    text_ += margin + "return";
    for (size_t i = 0; i < graph.outputs.size(); ++i) {
      text_ += (i ? ", " : " ") + use(graph.outputs[i], scope);
      if (i < graph.output_layouts.size())
        text_ += layout(graph.output_layouts[i]);
    }
    text_ += "\n" + std::string(indent, ' ') + "}";
    // A region uses the symbols of the graph around it; printed alone it declares those that occur.
    if (outermost)
      text_.insert(clause_at, symbol_clause(0));
  }

  void print_node(const Node &node, Scope &scope, int indent) {
    text_ += std::string(indent, ' ');
    for (const auto &result : node.results)
      text_ += (result->index ? ", " : "") + define(result.get(), scope);
    text_ += (node.results.empty() ? "" : " = ") + std::string(node.op->name) + "(";
    for (size_t i = 0; i < node.operands.size(); ++i)
      text_ += (i ? ", " : "") + use(node.operands[i], scope);
    text_ += ")";
    const char *separator = " {";
    for (const auto &[name, attribute] : node.attributes) {
      text_ += separator + name + " = ";
      separator = ", ";
      print_attribute(attribute, indent);
    }
    text_ += node.attributes.empty() ? "" : "}";
    if (const Location &at = node.location; !canonical_ && (!at.place.empty() || at.operation >= 0))
      text_ += " loc(" + quote(at.place) + (at.operation < 0 ? "" : ", " + std::to_string(at.operation)) + ")";
    text_ += "\n";
  }

  void print_attribute(const Attribute &attribute, int indent) {
    if (auto integer = std::get_if<int64_t>(&attribute))
      text_ += std::to_string(*integer);
    else if (auto real = std::get_if<double>(&attribute))
      text_ += print_real(*real);
    else if (auto boolean = std::get_if<bool>(&attribute))
      text_ += *boolean ? "true" : "false";
    else if (auto string = std::get_if<std::string>(&attribute))
      text_ += quote(*string);
    else if (auto dtype = std::get_if<DType>(&attribute))
      text_ += name_of(*dtype);
    else if (auto expression = std::get_if<Expr>(&attribute))
      text_ += "size(" + size(*expression) + ")";
    else if (auto list = std::get_if<std::vector<Expr>>(&attribute))
      text_ += "sizes(" + sizes(*list) + ")";
    else if (auto integers = std::get_if<std::vector<int64_t>>(&attribute))
      text_ += "[" + join(*integers, [](int64_t value) { return std::to_string(value); }) + "]";
    else if (auto reals = std::get_if<std::vector<double>>(&attribute))
      text_ += "reals(" + join(*reals, print_real) + ")";
    else
      print_graph(*std::get<std::shared_ptr<Graph>>(attribute), indent, false);
  }

  template <typename T, typename F> static std::string join(const std::vector<T> &list, F print_one) {
    std::string text;
    for (const T &value : list)
      text += (text.empty() ? "" : ", ") + print_one(value);
    return text;
  }

  bool canonical_;
  std::string text_;
  std::unordered_map<const Var *, std::string> symbols_;
  std::vector<const Var *> symbol_order_;
  Names symbol_names_;
};

} // namespace

std::string print(const Type &type) {
  std::string text;
  for (Expr e : type.shape)
    text += (text.empty() ? "" : ", ") + print_size(e, [](const Var *symbol) { return symbol->name; });
  return std::string(name_of(type.dtype)) + "[" + text + "]";
}

std::string print(const Graph &graph, bool canonical) { return Printer(canonical).run(graph); }

} // namespace oxyfuel::graph
