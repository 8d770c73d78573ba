// Text to Graph IR, by recursive descent. Reads what `print` writes; result types are written out in the text and
// compared with those that the operator infers.
#include <unordered_map>

#include "ir/graph/op_info.h"
#include "ir/graph/reader.h"

namespace oxyfuel::graph {

namespace {

class Parser {
public:
  Parser(const std::string &text, FindOp find_op) : reader_(text), find_op_(find_op) {}

  std::unique_ptr<Graph> run() {
    auto graph = std::make_unique<Graph>();
    parse_graph(*graph, true);
    if (!reader_.at_end())
      reader_.fail("expected the end of the text, found " + reader_.found());
    return graph;
  }

private:
  using Scope = std::unordered_map<std::string, Value *>;

  /// Bounds the depth of the recursion, so that no text overflows the stack.
  struct Nesting {
    explicit Nesting(Parser &parser) : parser(parser) {
      if (++parser.depth_ > 200)
        parser.reader_.fail("nested too deeply");
    }
    ~Nesting() { --parser.depth_; }
    Parser &parser;
  };

  // graph @name(inputs) symbols(…) { nodes, mutations, return }
  void parse_graph(Graph &graph, bool outermost) {
    Nesting nesting(*this);
    if (!reader_.accept_word("graph"))
      reader_.fail("expected \"graph\", found " + reader_.found());
    context_ = &graph.context();
    reader_.expect("@");
    graph.name = reader_.name("the name of the graph");
    // Ranges of symbols shape the sizes that use them, so their clause is read before the inputs.
    size_t inputs_at = reader_.position();
    reader_.skip_brackets();
    if (reader_.accept_word("symbols"))
      parse_symbols(graph, outermost);
    size_t body_at = reader_.position();
    reader_.rewind(inputs_at);
    Scope scope;
    parse_inputs(graph, scope);
    reader_.rewind(body_at);
    reader_.expect("{");
    for (;;) {
      if (reader_.accept_word("return"))
        break;
      if (reader_.accept_word("mutate"))
        parse_mutation(graph, scope);
      else
        parse_node(graph, scope);
    }
    if (reader_.peek() != '}')
      do {
        graph.outputs.push_back(parse_use(scope));
        graph.output_layouts.push_back(parse_layout());
      } while (reader_.accept(","));
    reader_.expect("}");
  }

  void parse_symbols(Graph &graph, bool outermost) {
    if (!outermost)
      reader_.fail("a region uses the symbols of the graph around it");
    reader_.expect("(");
    do {
      size_t at = reader_.position();
      std::string name = reader_.name("the name of a symbol");
      std::optional<int64_t> lower, upper;
      if (reader_.accept_word("in")) {
        reader_.expect("[");
        lower = parse_bound();
        reader_.expect(",");
        upper = parse_bound();
        reader_.expect(")");
      }
      Var *symbol = context_->new_var(name, DType::kI64, lower, upper);
      if (reader_.accept_word("hint"))
        symbol->hint = reader_.integer();
      if (!symbols_.emplace(name, symbol).second)
        reader_.fail_at(at, "symbol " + name + " is declared twice");
      graph.symbols.push_back(symbol);
    } while (reader_.accept(","));
    reader_.expect(")");
  }

  std::optional<int64_t> parse_bound() {
    Reader::Number number = reader_.number();
    return number.is_real ? std::nullopt : std::optional(number.integer);
  }

  void parse_inputs(Graph &graph, Scope &scope) {
    reader_.expect("(");
    if (reader_.accept(")"))
      return;
    do {
      std::string name = parse_new_name(scope);
      reader_.expect(":");
      Value *input = graph.add_input(parse_type(), name);
      input->layout = parse_layout();
      input->is_static = reader_.accept_word("static");
      scope[name] = input;
    } while (reader_.accept(","));
    reader_.expect(")");
  }

  std::string parse_new_name(const Scope &scope) {
    size_t at = reader_.position();
    reader_.expect("%");
    std::string name = reader_.name("the name of a value");
    if (scope.count(name))
      reader_.fail_at(at, "%" + name + " is defined twice");
    return name;
  }

  Value *parse_use(const Scope &scope) {
    if (reader_.accept_word("null"))
      return nullptr;
    size_t at = reader_.position();
    reader_.expect("%");
    std::string name = reader_.name("the name of a value");
    auto value = scope.find(name);
    if (value == scope.end())
      reader_.fail_at(at, "%" + name + " is not defined here");
    return value->second;
  }

  DType parse_dtype_name() {
    size_t at = reader_.position();
    std::string name = reader_.name("an element type");
    DType dtype;
    if (!parse_dtype(name, dtype))
      reader_.fail_at(at, "\"" + name + "\" is no element type");
    return dtype;
  }

  Type parse_type() {
    Type type;
    type.dtype = parse_dtype_name();
    type.shape = parse_sizes("[", "]");
    return type;
  }

  std::vector<Expr> parse_sizes(const char *open, const char *close) {
    std::vector<Expr> list;
    reader_.expect(open);
    if (reader_.accept(close))
      return list;
    do
      list.push_back(parse_size());
    while (reader_.accept(","));
    reader_.expect(close);
    return list;
  }

  Layout parse_layout() {
    Layout layout;
    if (reader_.accept_word("strides"))
      layout.strides = parse_sizes("(", ")");
    if (reader_.accept_word("offset")) {
      reader_.expect("(");
      layout.offset = parse_size();
      reader_.expect(")");
    }
    return layout;
  }

  void parse_mutation(Graph &graph, const Scope &scope) {
    size_t at = reader_.position();
    Mutation mutation;
    mutation.target = parse_use(scope);
    if (!mutation.target || mutation.target->producer)
      reader_.fail_at(at, "only an input can be mutated");
    reader_.expect("=");
    mutation.value = parse_use(scope);
    graph.mutations.push_back(mutation);
  }

  // %a: type layout, %b: type = op(%x, null) {name = value} loc("…")
  void parse_node(Graph &graph, Scope &scope) {
    std::vector<std::string> names;
    std::vector<Type> types;
    std::vector<Layout> layouts;
    size_t start = reader_.position();
    if (reader_.peek() == '%') {
      do {
        names.push_back(parse_new_name(scope));
        reader_.expect(":");
        types.push_back(parse_type());
        layouts.push_back(parse_layout());
      } while (reader_.accept(","));
      reader_.expect("=");
    }
    size_t op_at = reader_.position();
    std::string op_name = reader_.name("an operator");
    const OpInfo *op = find_op_(op_name);
    if (!op)
      reader_.fail_at(op_at, "there is no operator \"" + op_name + "\"");
    std::vector<Value *> operands;
    reader_.expect("(");
    if (!reader_.accept(")")) {
      do
        operands.push_back(parse_use(scope));
      while (reader_.accept(","));
      reader_.expect(")");
    }
    std::map<std::string, Attribute, std::less<>> attributes;
    if (reader_.accept("{")) {
      do {
        size_t at = reader_.position();
        std::string name = reader_.name("the name of an attribute");
        reader_.expect("=");
        if (!attributes.emplace(name, parse_attribute(graph)).second)
          reader_.fail_at(at, "attribute " + name + " is given twice");
      } while (reader_.accept(","));
      reader_.expect("}");
    }
    Location location;
    if (reader_.accept_word("loc")) {
      reader_.expect("(");
      location.place = reader_.string();
      if (reader_.accept(","))
        location.operation = reader_.integer();
      reader_.expect(")");
    }
    Node *node = add_node(graph, op, std::move(operands), std::move(attributes), types, op_at, start);
    node->location = std::move(location);
    for (size_t i = 0; i < names.size(); ++i) {
      Value *result = node->result(static_cast<int>(i));
      // A number is no name: it is given anew when the graph is printed.
      if (!std::isdigit(static_cast<unsigned char>(names[i][0])))
        result->name = names[i];
      result->layout = layouts[i];
      if (!scope.emplace(names[i], result).second)
        reader_.fail_at(start, "%" + names[i] + " is defined twice");
    }
  }

  Node *add_node(Graph &graph, const OpInfo *op, std::vector<Value *> operands,
                 std::map<std::string, Attribute, std::less<>> attributes, const std::vector<Type> &types, size_t op_at,
                 size_t start) {
    if (op->infer) {
      bool may_be_absent =
          op->kind == OpKind::kIndexed || op->kind == OpKind::kScatter || op->kind == OpKind::kAttention;
      for (size_t i = 0; i < operands.size(); ++i)
        if (!operands[i] && (i == 0 || !may_be_absent))
          reader_.fail_at(op_at, std::string(op->name) + " needs operand " + std::to_string(i));
      Node draft;
      draft.op = op;
      draft.operands = operands;
      draft.attributes = attributes;
      std::vector<Type> inferred;
      try {
        inferred = op->infer(draft, *context_);
      } catch (const std::exception &error) { // of the standard library too: operands that are not there
        reader_.fail_at(op_at, error.what());
      }
      if (inferred.size() != types.size())
        reader_.fail_at(start, std::string(op->name) + " has " + std::to_string(inferred.size()) + " results");
      for (size_t i = 0; i < types.size(); ++i)
        if (!agree(inferred[i], types[i]))
          reader_.fail_at(start, "type of result " + std::to_string(i) + ": " + std::string(op->name) + " gives " +
                                     print(inferred[i]));
    }
    return graph.add_typed(op, std::move(operands), std::move(attributes), types);
  }

  Attribute parse_attribute(Graph &graph) {
    char c = reader_.peek();
    if (c == '"')
      return reader_.string();
    if (c == '[')
      return parse_integers();
    if (reader_.at_number()) {
      Reader::Number number = reader_.number();
      return number.is_real ? Attribute(number.real) : Attribute(number.integer);
    }
    if (reader_.accept_word("true"))
      return true;
    if (reader_.accept_word("false"))
      return false;
    if (reader_.accept_word("sizes"))
      return parse_sizes("(", ")");
    if (reader_.accept_word("size")) {
      reader_.expect("(");
      Expr e = parse_size();
      reader_.expect(")");
      return e;
    }
    if (reader_.accept_word("reals")) {
      std::vector<double> list;
      reader_.expect("(");
      if (!reader_.accept(")")) {
        do
          list.push_back(reader_.number().real);
        while (reader_.accept(","));
        reader_.expect(")");
      }
      return list;
    }
    if (reader_.peek_name() == "graph") {
      auto region = std::make_shared<Graph>(graph.shared_context());
      parse_graph(*region, false);
      return region;
    }
    return parse_dtype_name();
  }

  std::vector<int64_t> parse_integers() {
    std::vector<int64_t> list;
    reader_.expect("[");
    if (reader_.accept("]"))
      return list;
    do
      list.push_back(reader_.integer());
    while (reader_.accept(","));
    reader_.expect("]");
    return list;
  }

  // sum := ['-'] product (('+' | '-') product)*
  Expr parse_size() {
    // A minus before digits belongs to the number, so that the least integer can be written.
    bool negative = !reader_.at_number() && reader_.accept("-");
    Expr sum = parse_product();
    if (negative)
      sum = -sum;
    for (;;) {
      if (reader_.accept("+"))
        sum = sum + parse_product();
      else if (reader_.accept("-"))
        sum = sum - parse_product();
      else
        return sum;
    }
  }

  Expr parse_product() {
    Expr product = parse_primary();
    while (reader_.accept("*"))
      product = product * parse_primary();
    return product;
  }

  Expr parse_primary() {
    Nesting nesting(*this);
    if (reader_.accept("(")) {
      Expr inner = parse_size();
      reader_.expect(")");
      return inner;
    }
    if (reader_.at_number()) {
      Reader::Number number = reader_.number();
      DType dtype = reader_.accept(":") ? parse_dtype_name() : number.is_real ? DType::kF64 : DType::kI64;
      return number.is_real || is_float(dtype) ? context_->real(number.real, dtype)
                                               : context_->integer(number.integer, dtype);
    }
    size_t at = reader_.position();
    std::string name = reader_.name("a size");
    if (name == "true" || name == "false")
      return context_->boolean(name == "true");
    if (reader_.peek() == '(')
      return parse_function(name, at);
    auto symbol = symbols_.find(name);
    if (symbol == symbols_.end())
      reader_.fail_at(at, "symbol " + name + " is not declared in symbols(…)");
    return context_->var(symbol->second);
  }

  Expr parse_function(const std::string &name, size_t at) {
    std::vector<Expr> arguments = parse_sizes("(", ")");
    DType dtype;
    if (parse_dtype(name, dtype) && arguments.size() == 1)
      return cast(arguments[0], dtype);
    ExprKind kind;
    if (!find_size_function(name, kind) || arguments.empty() || arguments.size() > 3)
      reader_.fail_at(at, "there is no function " + name + " of " + std::to_string(arguments.size()) + " arguments");
    bool is_comparison =
        kind == ExprKind::kEq || kind == ExprKind::kNe || kind == ExprKind::kLt || kind == ExprKind::kLe;
    dtype = is_comparison ? DType::kBool : arguments.back().dtype();
    return context_->make(kind, dtype, arguments);
  }

  Reader reader_;
  FindOp find_op_;
  ExprContext *context_ = nullptr;
  int depth_ = 0;
  std::unordered_map<std::string, Var *> symbols_;
};

} // namespace

std::unique_ptr<Graph> parse(const std::string &text, FindOp find_op) { return Parser(text, find_op).run(); }

} // namespace oxyfuel::graph
