// Text of kernels. `parse.cpp` reads it back to the same kernel.
#include <unordered_set>

#include "ir/expr_text.h"
#include "ir/loop/walk.h"

namespace oxyfuel::loop {

namespace {

/// Names of all variables and buffers, and the order of their declarations.
class Names {
public:
  Names(const Kernel &kernel, bool is_canonical) : is_canonical_(is_canonical) {
    for (const Buffer *buffer : kernel.buffers)
      declare(buffer);
    for (const Var *var : kernel.sizes)
      declare(var);
    for_each_statement(kernel.body, [&](const Statement &statement) {
      std::visit(Overloaded{[&](const For &loop) { declare(loop.var); }, [&](const Let &let) { declare(let.var); },
                            [&](const Local &local) { declare(local.buffer); },
                            [&](const TileContract &tile) {
                              declare(tile.row);
                              declare(tile.col);
                              declare(tile.k);
                            },
                            [](const auto &) {}},
                 statement.data);
    });
  }

  std::string of(const void *leaf, const std::string &name) const {
    const auto found = names_.find(leaf);
    return found == names_.end() ? name : found->second;
  }
  uint64_t order(const Var *var) const {
    const auto found = order_.find(var);
    return found == order_.end() ? order_.size() : found->second;
  }

private:
  void declare(const Var *var) {
    if (order_.emplace(var, order_.size()).second)
      add(var, is_canonical_ ? "v" + std::to_string(vars_++) : var->name);
  }
  void declare(const Buffer *buffer) {
    if (names_.count(buffer) == 0)
      add(buffer, is_canonical_ ? "b" + std::to_string(buffers_++) : buffer->name);
  }
  void add(const void *leaf, const std::string &wanted) {
    std::string base;
    for (char c : wanted)
      base += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
    if (base.empty() || std::isdigit(static_cast<unsigned char>(base[0])) != 0)
      base = "v" + base;
    std::string name = base;
    for (int suffix = 1; !taken_.insert(name).second; ++suffix)
      name = base + "_" + std::to_string(suffix);
    names_.emplace(leaf, name);
  }

  bool is_canonical_;
  int vars_ = 0, buffers_ = 0;
  std::unordered_map<const void *, std::string> names_;
  std::unordered_map<const Var *, uint64_t> order_;
  std::unordered_set<std::string> taken_;
};

class Printer {
public:
  Printer(const Kernel &kernel, bool is_canonical)
      : kernel_(kernel), is_canonical_(is_canonical), names_(kernel, is_canonical),
        exprs_({[this](const Var *var) { return names_.of(var, var->name); },
                [this](const Buffer *buffer) { return names_.of(buffer, buffer->name); },
                [this](const Var *var) { return names_.order(var); }}) {}

  std::string run() {
    out_ = "kernel @" + (is_canonical_ ? "kernel" : kernel_.name) + "(";
    const char *separator = "";
    for (const Buffer *buffer : kernel_.buffers) {
      out_ += separator + parameter(*buffer);
      separator = ", ";
    }
    separator = "; ";
    for (const Var *var : kernel_.sizes) {
      out_ += separator + name(var) + range(*var, 0);
      if (var->hint != 0 && !is_canonical_)
        out_ += " hint " + std::to_string(var->hint);
      separator = ", ";
    }
    out_ += ")";
    if (kernel_.grid)
      out_ += " grid (" + exprs_.text(kernel_.grid) + ")";
    if (kernel_.scratch_bytes != 0)
      out_ += " scratch " + std::to_string(kernel_.scratch_bytes);
    if (kernel_.grain != 1)
      out_ += " grain " + std::to_string(kernel_.grain);
    out_ += " {\n";
    block(kernel_.body, 1);
    return out_ + "}\n";
  }

private:
  std::string name(const Var *var) { return "%" + names_.of(var, var->name); }
  std::string name(const Buffer *buffer) { return "%" + names_.of(buffer, buffer->name); }

  /// " in [lower, upper)" when it is more than is known without it.
  std::string range(const Var &var, std::optional<int64_t> lower) {
    if (var.lower == lower && !var.upper)
      return "";
    return " in [" + (var.lower ? std::to_string(*var.lower) : "-inf") + ", " +
           (var.upper ? std::to_string(*var.upper) : "inf") + ")";
  }

  std::string parameter(const Buffer &buffer) {
    const char *kind = buffer.kind == Buffer::Kind::kInput    ? " in"
                       : buffer.kind == Buffer::Kind::kOutput ? " out"
                                                              : " inout";
    std::string text = name(&buffer) + ": " + std::string(name_of(buffer.dtype)) + kind;
    if (buffer.is_unaliased)
      text += " unaliased";
    if (buffer.alignment != 0)
      text += " align " + std::to_string(buffer.alignment);
    return text;
  }

  void line(int depth, const std::string &text) {
    out_ += std::string(2 * static_cast<size_t>(depth), ' ') + text + "\n";
  }

  void block(const Block &statements, int depth) {
    for (const std::unique_ptr<Statement> &statement : statements) {
      std::vector<Expr> roots;
      for_each_expr(*statement, [&](const Expr &e) { roots.push_back(e); });
      for (const std::string &definition : exprs_.abbreviate(roots))
        line(depth, definition);
      std::visit([&](const auto &s) { print(s, depth); }, statement->data);
      exprs_.forget();
    }
  }

  std::string interval(Expr begin, Expr extent) {
    const Expr end = begin + extent;
    const std::string first = " in [" + exprs_.text(begin) + ", ";
    if (end - begin == extent)
      return first + exprs_.text(end) + ")";
    return first + "+ " + exprs_.text(extent) + ")"; // a sum that wraps does not give the extent back
  }

  void print(const For &loop, int depth) {
    std::string text = loop.kind == For::Kind::kTask ? "task " : "for ";
    text += name(loop.var) + interval(loop.begin, loop.extent);
    if (loop.step != 1)
      text += " step " + std::to_string(loop.step);
    if (loop.kind == For::Kind::kUnroll)
      text += " unroll";
    if (loop.kind == For::Kind::kVector)
      text += " vector " + std::to_string(loop.width);
    line(depth, text + " {");
    exprs_.forget();
    block(loop.body, depth + 1);
    line(depth, "}");
  }

  void print(const Store &store, int depth) {
    std::string text = name(store.buffer) + "[" + exprs_.text(store.index);
    if (store.mask)
      text += " ? " + exprs_.text(store.mask);
    line(depth, text + "] = " + exprs_.text(store.value));
  }

  void print(const Let &let, int depth) {
    const Var &var = *let.var;
    std::string text = "let ";
    if (var.is_index && !let.value->is_index && var.dtype == DType::kI64)
      text += "index ";
    text += name(let.var);
    if (is_integer(var.dtype) && (var.lower || var.upper))
      text += range(var, {});
    line(depth, text + " = " + exprs_.text(let.value));
  }

  void print(const If &branch, int depth) {
    line(depth, "if " + exprs_.text(branch.condition) + " {");
    exprs_.forget();
    block(branch.then_body, depth + 1);
    if (!branch.else_body.empty()) {
      line(depth, "} else {");
      block(branch.else_body, depth + 1);
    }
    line(depth, "}");
  }

  void print(const Local &local, int depth) {
    const Buffer &buffer = *local.buffer;
    const bool is_scratch = buffer.kind == Buffer::Kind::kScratch;
    std::string text = (is_scratch ? "scratch " : "local ") + name(&buffer) + ": " +
                       std::string(name_of(buffer.dtype)) + "[" + std::to_string(buffer.size) + "]";
    if (is_scratch && buffer.scratch_offset != 0)
      text += " at " + std::to_string(buffer.scratch_offset);
    line(depth, text);
  }

  void print(const Check &check, int depth) {
    line(depth, "check " + exprs_.text(check.condition) + " else " + std::to_string(check.status));
  }

  void print(const TileContract &tile, int depth) {
    const bool is_columns = tile.lanes == TileContract::Lanes::kColumns;
    line(depth, "contract " + name(tile.acc) + "[" + name(tile.row) + " in " + std::to_string(tile.rows) + ", " +
                    name(tile.col) + " in " + std::to_string(tile.cols) + "] over " + name(tile.k) + " in [0, " +
                    exprs_.text(tile.extent) + ")" + (is_columns ? " columns " : " depth ") +
                    std::to_string(tile.width) + (tile.unroll != 1 ? " unroll " + std::to_string(tile.unroll) : "") +
                    (tile.depth_pack != 1 ? " pack " + std::to_string(tile.depth_pack) : "") +
                    (tile.prefetch_distance != 0 ? " prefetch " + std::to_string(tile.prefetch_distance) : "") + " {");
    line(depth + 1, name(tile.a) + "[" + exprs_.text(tile.a_index) + "]");
    line(depth + 1, name(tile.b) + "[" + exprs_.text(tile.b_index) + "]" +
                        (tile.b_col_limit ? " limit " + exprs_.text(tile.b_col_limit) : ""));
    line(depth, "}");
  }

  const Kernel &kernel_;
  bool is_canonical_;
  Names names_;
  ExprPrinter exprs_;
  std::string out_;
};

} // namespace

std::string print(const Kernel &kernel, bool canonical) { return Printer(kernel, canonical).run(); }

} // namespace oxyfuel::loop
