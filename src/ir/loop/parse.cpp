// Reads the text of a kernel.
//
//   kernel    := "kernel" @name "(" parameters ["; " sizes] ")" ["grid" "(" e ")"] ["scratch" n] ["grain" n] block
//   parameter := %name ":" dtype ("in" | "out" | "inout") ["unaliased"] ["align" n]
//   size      := %name ["in" range] ["hint" n]
//   statement := ("task" | "for") %v "in" "[" e "," ["+"] e ")" ["step" n] ["unroll" | "vector" n] block
//              | %buffer "[" e ["?" mask] "]" "=" e
//              | "let" ["index"] %v ["in" range] "=" e
//              | "if" e block ["else" block]
//              | ("local" | "scratch") %buffer ":" dtype "[" n "]" ["at" n]
//              | "check" e "else" n
//              | "contract" %acc "[" %row "in" n "," %col "in" n "]" "over" %k "in" "[" 0 "," e ")" ("columns" |
//              "depth") n
//                ["unroll" n] ["pack" n] ["prefetch" n] "{" %a "[" e "]" %b "[" e "]" ["limit" e] "}"
//              | $n "=" e        an abbreviation, not a statement
#include "ir/expr_parse.h"
#include "ir/loop/walk.h"
#include "support/error.h"

namespace oxyfuel::loop {

namespace {

class Parser {
public:
  explicit Parser(const std::string &text)
      : lexer_(text), kernel_(std::make_unique<Kernel>()),
        exprs_(lexer_, *kernel_->context,
               {[this](std::string_view name) { return find(vars_, name); },
                [this](std::string_view name) -> const Buffer * { return find(buffers_, name); }}) {}

  std::unique_ptr<Kernel> run() {
    lexer_.expect("kernel");
    kernel_->name = lexer_.expect(Lexer::Kind::kSymbol, "the name of the kernel, as in @name").text;
    lexer_.expect("(");
    if (lexer_.peek().kind == Lexer::Kind::kVariable)
      do
        parameter();
      while (lexer_.accept(","));
    if (lexer_.accept(";"))
      do
        size();
      while (lexer_.accept(","));
    lexer_.expect(")");
    if (lexer_.accept("grid")) {
      lexer_.expect("(");
      kernel_->grid = exprs_.parse_index();
      lexer_.expect(")");
    }
    if (lexer_.accept("scratch"))
      kernel_->scratch_bytes = lexer_.integer();
    if (lexer_.accept("grain"))
      kernel_->grain = lexer_.integer();
    block(kernel_->body);
    if (lexer_.peek().kind != Lexer::Kind::kEnd)
      lexer_.fail("expected the end of the text, found " + lexer_.found());
    return std::move(kernel_);
  }

private:
  template <class T> using Scope = std::unordered_map<std::string, T *>;
  template <class T> static T *find(const Scope<T> &scope, std::string_view name) {
    const auto found = scope.find(std::string(name));
    return found == scope.end() ? nullptr : found->second;
  }

  std::string new_name() {
    const Lexer::Token token = lexer_.expect(Lexer::Kind::kVariable, "a new name, as in %i");
    std::string name(token.text);
    if (vars_.count(name) != 0 || buffers_.count(name) != 0)
      lexer_.fail_at(token.position, "%" + name + " is defined already");
    return name;
  }
  Var *new_var(const std::string &name, DType dtype = DType::kI64) {
    return vars_[name] = kernel_->context->new_var(name, dtype);
  }
  Buffer *new_buffer(const std::string &name, DType dtype) {
    return buffers_[name] = kernel_->context->new_buffer(name, dtype);
  }
  const Buffer *known_buffer() {
    const Lexer::Token token = lexer_.expect(Lexer::Kind::kVariable, "a buffer");
    const Buffer *buffer = find(buffers_, token.text);
    if (buffer == nullptr)
      lexer_.fail_at(token.position, "unknown buffer %" + std::string(token.text));
    return buffer;
  }

  int positive(const char *what) {
    const size_t position = lexer_.peek().position;
    const int64_t value = lexer_.integer();
    if (value <= 0 || value > (1 << 30))
      lexer_.fail_at(position, std::string(what) + " is positive and small, found " + std::to_string(value));
    return static_cast<int>(value);
  }

  void range(Var &var) {
    lexer_.expect("[");
    const int64_t lower = lexer_.integer(true);
    lexer_.expect(",");
    const int64_t upper = lexer_.integer(true);
    lexer_.expect(")");
    var.lower = lower == INT64_MIN ? std::nullopt : std::optional(lower);
    var.upper = upper == INT64_MAX ? std::nullopt : std::optional(upper);
  }

  void parameter() {
    const std::string name = new_name();
    lexer_.expect(":");
    Buffer *buffer = new_buffer(name, lexer_.dtype());
    if (lexer_.accept("in"))
      buffer->kind = Buffer::Kind::kInput;
    else if (lexer_.accept("out"))
      buffer->kind = Buffer::Kind::kOutput;
    else if (lexer_.accept("inout"))
      buffer->kind = Buffer::Kind::kInOut;
    else
      lexer_.fail("expected in, out or inout, found " + lexer_.found());
    buffer->is_unaliased = lexer_.accept("unaliased");
    if (lexer_.accept("align"))
      buffer->alignment = lexer_.integer();
    kernel_->buffers.push_back(buffer);
  }

  void size() {
    Var *var = new_var(new_name());
    var->lower = 0;
    if (lexer_.accept("in"))
      range(*var);
    if (lexer_.accept("hint"))
      var->hint = lexer_.integer();
    kernel_->sizes.push_back(var);
  }

  void block(Block &statements) {
    const Scope<Var> outer_vars = vars_;
    const Scope<Buffer> outer_buffers = buffers_;
    lexer_.expect("{");
    while (!lexer_.accept("}"))
      if (!exprs_.definition())
        statement(statements);
    vars_ = outer_vars;
    buffers_ = outer_buffers;
  }

  void statement(Block &block) {
    const auto add = [&](auto data) { block.push_back(std::make_unique<Statement>(Statement{std::move(data)})); };
    if (lexer_.peek().kind == Lexer::Kind::kVariable)
      add(store());
    else if (lexer_.at("task") || lexer_.at("for"))
      add(loop());
    else if (lexer_.accept("let"))
      add(let());
    else if (lexer_.accept("if"))
      add(branch());
    else if (lexer_.at("local") || lexer_.at("scratch"))
      add(local());
    else if (lexer_.accept("check"))
      add(check());
    else if (lexer_.accept("contract"))
      add(contract());
    else
      lexer_.fail("expected a statement, found " + lexer_.found());
  }

  Store store() {
    Store store;
    store.buffer = known_buffer();
    lexer_.expect("[");
    store.index = exprs_.parse_index();
    if (lexer_.accept("?"))
      store.mask = boolean("the mask of a store");
    lexer_.expect("]");
    lexer_.expect("=");
    const size_t position = lexer_.peek().position;
    store.value = exprs_.parse();
    if (store.value.dtype() != store.buffer->dtype)
      lexer_.fail_at(position, "a store of " + std::string(name_of(store.value.dtype())) + " into %" +
                                   store.buffer->name + ": " + std::string(name_of(store.buffer->dtype)));
    return store;
  }

  Expr boolean(const char *what) {
    const size_t position = lexer_.peek().position;
    const Expr e = exprs_.parse();
    if (!is_bool(e.dtype()))
      lexer_.fail_at(position, std::string(what) + " is bool, found " + std::string(name_of(e.dtype())));
    return e;
  }

  For loop() {
    For loop;
    loop.kind = lexer_.next().text == "task" ? For::Kind::kTask : For::Kind::kSerial;
    const std::string name = new_name();
    lexer_.expect("in");
    lexer_.expect("[");
    loop.begin = exprs_.parse_index();
    lexer_.expect(",");
    const bool is_extent = lexer_.accept("+");
    const Expr end = exprs_.parse_index();
    loop.extent = is_extent ? end : end - loop.begin;
    lexer_.expect(")");
    if (lexer_.accept("step"))
      loop.step = positive("a step");
    if (lexer_.accept("unroll"))
      loop.kind = For::Kind::kUnroll;
    if (lexer_.accept("vector")) {
      loop.kind = For::Kind::kVector;
      loop.width = positive("a width");
    }
    loop.var = new_var(name);
    set_loop_range(*loop.var, loop.begin, loop.extent);
    if (loop.kind == For::Kind::kVector)
      loop.var->upper = loop.width;
    block(loop.body);
    vars_.erase(name);
    return loop;
  }

  Let let() {
    const bool is_index = lexer_.accept("index");
    const std::string name = new_name();
    Var bounds;
    if (lexer_.accept("in"))
      range(bounds);
    lexer_.expect("=");
    Let let;
    let.value = exprs_.parse();
    let.var = new_var(name, let.value.dtype());
    let.var->lower = bounds.lower;
    let.var->upper = bounds.upper;
    let.var->is_index = is_index || let.value->is_index;
    return let;
  }

  If branch() {
    If branch;
    branch.condition = boolean("the condition of a branch");
    block(branch.then_body);
    if (lexer_.accept("else"))
      block(branch.else_body);
    return branch;
  }

  Local local() {
    const bool is_scratch = lexer_.next().text == "scratch";
    const std::string name = new_name();
    lexer_.expect(":");
    Buffer *buffer = new_buffer(name, lexer_.dtype());
    buffer->kind = is_scratch ? Buffer::Kind::kScratch : Buffer::Kind::kRegister;
    buffer->is_unaliased = true;
    buffer->alignment = is_scratch ? 64 : 0;
    lexer_.expect("[");
    buffer->size = positive("a size");
    lexer_.expect("]");
    if (lexer_.accept("at"))
      buffer->scratch_offset = lexer_.integer();
    return Local{buffer};
  }

  Check check() {
    Check check;
    check.condition = boolean("the condition of a check");
    lexer_.expect("else");
    check.status = positive("a status");
    return check;
  }

  TileContract contract() {
    TileContract tile;
    tile.acc = known_buffer();
    lexer_.expect("[");
    const std::string row = new_name();
    lexer_.expect("in");
    tile.rows = positive("a number of rows");
    lexer_.expect(",");
    const std::string col = new_name();
    lexer_.expect("in");
    tile.cols = positive("a number of columns");
    lexer_.expect("]");
    lexer_.expect("over");
    const std::string depth = new_name();
    lexer_.expect("in");
    lexer_.expect("[");
    if (lexer_.integer() != 0)
      lexer_.fail("the depth of a contraction begins at 0");
    lexer_.expect(",");
    tile.extent = exprs_.parse_index();
    lexer_.expect(")");
    if (lexer_.accept("depth"))
      tile.lanes = TileContract::Lanes::kDepth;
    else
      lexer_.expect("columns");
    tile.width = positive("a width");
    if (lexer_.accept("unroll"))
      tile.unroll = positive("an unroll count");
    if (lexer_.accept("pack"))
      tile.depth_pack = positive("a pack");
    if (lexer_.accept("prefetch"))
      tile.prefetch_distance = lexer_.integer();
    tile.row = new_var(row);
    tile.col = new_var(col);
    tile.k = new_var(depth);
    tile.row->lower = tile.col->lower = 0;
    tile.row->upper = tile.rows;
    tile.col->upper = tile.cols;
    set_loop_range(*tile.k, kernel_->context->integer(0), tile.extent);
    lexer_.expect("{");
    operand(tile.a, tile.a_index);
    operand(tile.b, tile.b_index);
    for (const std::string &name : {row, col, depth})
      vars_.erase(name);
    if (lexer_.accept("limit"))
      tile.b_col_limit = exprs_.parse_index();
    lexer_.expect("}");
    return tile;
  }

  void operand(const Buffer *&buffer, Expr &index) {
    buffer = known_buffer();
    lexer_.expect("[");
    index = exprs_.parse_index();
    lexer_.expect("]");
  }

  Lexer lexer_;
  std::unique_ptr<Kernel> kernel_;
  Scope<Var> vars_;
  Scope<Buffer> buffers_;
  ExprParser exprs_;
};

} // namespace

std::unique_ptr<Kernel> parse(const std::string &text) { return Parser(text).run(); }

} // namespace oxyfuel::loop
