// The Builder, and scratch memory.
#include <algorithm>

#include "ir/loop/walk.h"
#include "support/error.h"

namespace oxyfuel::loop {

void set_loop_range(Var &var, Expr begin, Expr extent) {
  var.lower = range_of(begin).lower;
  const Expr end = begin + extent;
  const std::optional<int64_t> greatest = range_of(end).upper;
  var.upper = greatest;
  if (end->is_index && !end.is_const())
    var.upper_expr = end.node();
  var.is_index = end->is_index && begin->is_index;
  if (!var.is_index && var.lower && var.upper)
    var.is_index = true; // bounds that do not wrap
}

void Builder::loop(For::Kind kind, const std::string &name, Expr begin, Expr extent, int64_t step, int width,
                   const std::function<void(Expr)> &body) {
  OXYFUEL_CHECK(begin.dtype() == DType::kI64 && extent.dtype() == DType::kI64, "loop bounds are i64");
  Var *var = context().new_var(name.empty() ? "v" + std::to_string(next_name_++) : name);
  set_loop_range(*var, begin, extent);
  if (kind == For::Kind::kVector) { // lanes past the extent compute too, unseen
    var->upper = width;
  }
  For loop;
  loop.kind = kind;
  loop.var = var;
  loop.begin = begin;
  loop.extent = extent;
  loop.step = step;
  loop.width = width;
  block_->push_back(std::make_unique<Statement>(Statement{std::move(loop)}));
  Block *outer = block_;
  block_ = &std::get<For>(outer->back()->data).body;
  body(context().var(var));
  block_ = outer;
}

void Builder::task(const std::string &name, Expr extent, const std::function<void(Expr)> &body) {
  kernel_.grid = extent;
  loop(For::Kind::kTask, name, context().integer(0), extent, 1, 1, body);
}

void Builder::serial(const std::string &name, Expr begin, Expr extent, int64_t step,
                     const std::function<void(Expr)> &body) {
  loop(For::Kind::kSerial, name, begin, extent, step, 1, body);
}

void Builder::unroll(const std::string &name, int64_t extent, const std::function<void(Expr)> &body) {
  loop(For::Kind::kUnroll, name, context().integer(0), context().integer(extent), 1, 1, body);
}

void Builder::vector(const std::string &name, Expr extent, int width, const std::function<void(Expr)> &body) {
  loop(For::Kind::kVector, name, context().integer(0), extent, 1, width, body);
}

void Builder::store(const Buffer *buffer, Expr index, Expr value, Expr mask) {
  OXYFUEL_CHECK(value.dtype() == buffer->dtype, "a store of " + std::string(name_of(value.dtype())) + " into %" +
                                                    buffer->name + ": " + std::string(name_of(buffer->dtype)));
  if (mask && mask.is_const()) {
    if (mask.is_const(0))
      return;
    mask = {};
  }
  block_->push_back(std::make_unique<Statement>(Statement{Store{buffer, index, value, mask}}));
}

Expr Builder::let(const std::string &name, Expr value) {
  if (value.is_const() || value.kind() == ExprKind::kVar)
    return value;
  Var *var = context().new_var(name.empty() ? "v" + std::to_string(next_name_++) : name, value.dtype());
  const Range range = range_of(value);
  if (is_integer(value.dtype()) && value.dtype() != DType::kU64) {
    var->lower = range.lower;
    if (range.upper && *range.upper != INT64_MAX)
      var->upper = *range.upper + 1;
  }
  var->is_index = value->is_index || (value.dtype() == DType::kI64 && var->lower && var->upper);
  block_->push_back(std::make_unique<Statement>(Statement{Let{var, value}}));
  return context().var(var);
}

void Builder::branch(Expr condition, const std::function<void()> &then_body, const std::function<void()> &else_body) {
  if (condition.is_const()) {
    if (condition.is_const(1))
      then_body();
    else if (else_body)
      else_body();
    return;
  }
  block_->push_back(std::make_unique<Statement>(Statement{If{condition, {}, {}}}));
  Block *outer = block_;
  If &branch = std::get<If>(outer->back()->data);
  block_ = &branch.then_body;
  then_body();
  if (else_body) {
    block_ = &branch.else_body;
    else_body();
  }
  block_ = outer;
}

Buffer *Builder::registers(const std::string &name, DType dtype, int64_t size) {
  Buffer *buffer = context().new_buffer(name, dtype);
  buffer->kind = Buffer::Kind::kRegister;
  buffer->size = size;
  buffer->is_unaliased = true;
  block_->push_back(std::make_unique<Statement>(Statement{Local{buffer}}));
  return buffer;
}

Buffer *Builder::scratch(const std::string &name, DType dtype, int64_t size) {
  Buffer *buffer = context().new_buffer(name, dtype);
  buffer->kind = Buffer::Kind::kScratch;
  buffer->size = size;
  buffer->is_unaliased = true;
  buffer->alignment = 64;
  block_->push_back(std::make_unique<Statement>(Statement{Local{buffer}}));
  return buffer;
}

void Builder::check(Expr condition, int status) {
  if (!condition.is_const(1))
    block_->push_back(std::make_unique<Statement>(Statement{Check{condition, status}}));
}

void Builder::contract_vars(TileContract &contract) {
  contract.row = context().new_var("row", DType::kI64, 0, contract.rows);
  contract.col = context().new_var("col", DType::kI64, 0, contract.cols);
  contract.k = context().new_var("k");
  set_loop_range(*contract.k, context().integer(0), contract.extent);
}

void Builder::contract(TileContract contract) {
  OXYFUEL_CHECK(contract.row != nullptr && contract.col != nullptr && contract.k != nullptr,
                "a contraction without variables: call contract_vars first");
  block_->push_back(std::make_unique<Statement>(Statement{std::move(contract)}));
}

Buffer *Builder::parameter(const std::string &name, DType dtype, Buffer::Kind kind) {
  Buffer *buffer = context().new_buffer(name, dtype);
  buffer->kind = kind;
  kernel_.buffers.push_back(buffer);
  return buffer;
}

Var *Builder::size(const std::string &name) {
  Var *var = context().new_var(name, DType::kI64, 0);
  kernel_.sizes.push_back(var);
  return var;
}

static void assign_block(Block &block, int64_t used, int64_t &most) {
  for (const std::unique_ptr<Statement> &statement : block) {
    if (auto *local = std::get_if<Local>(&statement->data); local && local->buffer->kind == Buffer::Kind::kScratch) {
      constexpr int64_t kAlignment = 64;
      const int64_t bytes = local->buffer->size * static_cast<int64_t>(size_of(local->buffer->dtype));
      local->buffer->scratch_offset = used;
      used += (bytes + kAlignment - 1) / kAlignment * kAlignment;
      most = std::max(most, used);
    }
    for_each_block(*statement, [&](Block &inner) { assign_block(inner, used, most); });
  }
}

void assign_scratch(Kernel &kernel) {
  kernel.scratch_bytes = 0;
  assign_block(kernel.body, 0, kernel.scratch_bytes);
}

} // namespace oxyfuel::loop
