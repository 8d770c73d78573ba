// The rules of Loop IR. The first broken one becomes an InternalError that shows the statement.
#include <unordered_set>

#include "ir/loop/walk.h"
#include "support/error.h"

namespace oxyfuel::loop {

namespace {

class Verifier {
public:
  explicit Verifier(const Kernel &kernel) : kernel_(kernel) {}

  void run() {
    require(kernel_.context != nullptr, "a kernel without a context");
    for (const Buffer *buffer : kernel_.buffers) {
      require(buffer->kind != Buffer::Kind::kRegister && buffer->kind != Buffer::Kind::kScratch, "local buffer %",
              buffer->name, " among the parameters");
      require(buffers_.insert(buffer).second, "parameter %", buffer->name, " occurs twice");
    }
    for (const Var *var : kernel_.sizes) {
      require(var->dtype == DType::kI64, "size %", var->name, " is not i64");
      require(vars_.insert(var).second, "size %", var->name, " occurs twice");
    }
    require(!kernel_.body.empty(), "a kernel without a task loop");
    const auto *task = std::get_if<For>(&kernel_.body.back()->data);
    require(task != nullptr && task->kind == For::Kind::kTask, "the last statement of a kernel is its task loop");
    for (size_t i = 0; i + 1 < kernel_.body.size(); ++i)
      require(std::holds_alternative<Local>(kernel_.body[i]->data), "only local buffers come before the task loop");
    require(!kernel_.grid.is_empty(), "a kernel without a grid");
    check_expr(kernel_.grid);
    require(task->begin.is_const(0) && task->step == 1 && always_equal(task->extent, kernel_.grid),
            "the task loop runs over the grid");
    block(kernel_.body, 0);
  }

private:
  static std::string text(std::string_view part) { return std::string(part); }
  static std::string text(Expr part) { return print(part); }

  /// The message is put together only when it is needed.
  template <class... Parts> void require(bool holds, const Parts &...parts) {
    if (holds)
      return;
    Error::Parts places;
    places.where = "kernel @" + kernel_.name;
    places.found = current_ == nullptr ? "" : describe(*current_);
    throw InternalError("broken Loop IR: " + (text(parts) + ...), places);
  }

  static std::string describe(const Statement &statement) {
    return std::visit(
        Overloaded{[](const For &loop) { return "loop %" + (loop.var ? loop.var->name : "?"); },
                   [](const Store &store) {
                     return "%" + (store.buffer ? store.buffer->name : "?") + "[" + print(store.index) +
                            "] = " + print(store.value);
                   },
                   [](const Let &let) { return "let %" + (let.var ? let.var->name : "?") + " = " + print(let.value); },
                   [](const If &branch) { return "if " + print(branch.condition); },
                   [](const Local &local) { return "local %" + (local.buffer ? local.buffer->name : "?"); },
                   [](const Check &check) { return "check " + print(check.condition); },
                   [](const TileContract &tile) { return "contract %" + (tile.acc ? tile.acc->name : "?"); }},
        statement.data);
  }

  void check_expr(Expr e) {
    std::unordered_set<const ExprNode *> seen;
    check_node(e, seen);
  }

  void check_node(Expr e, std::unordered_set<const ExprNode *> &seen) {
    if (!seen.insert(e.node()).second)
      return;
    require(&e.context() == kernel_.context.get(), "an expression of another context: ", e);
    for (int i = 0; i < e->operand_count; ++i)
      check_node(e.operand(i), seen);
    if (e.kind() == ExprKind::kVar) {
      require(vars_.count(e.var()) != 0, "%", e.var()->name, " is used outside of its scope");
      require(e.dtype() == e.var()->dtype, "%", e.var()->name, " changed its type");
    } else if (e.kind() == ExprKind::kLoad) {
      require(e.dtype() == e.buffer()->dtype, "%", e.buffer()->name, " changed its type");
      if (e->operand_count > 1)
        require(is_bool(e.operand(1).dtype()), "the mask of a load is bool: ", e);
      check_access(e.buffer(), e.operand(0), e->operand_count > 1);
    } else {
      check_types(e);
    }
  }

  void check_types(Expr e) {
    switch (e.kind()) {
    case ExprKind::kCast:
    case ExprKind::kReal:
    case ExprKind::kImag:
    case ExprKind::kComplex:
    case ExprKind::kConst: return;
    case ExprKind::kBitcast:
      require(size_of(e.dtype()) == size_of(e.operand(0).dtype()), "bitcast changes the size: ", e);
      return;
    case ExprKind::kEq:
    case ExprKind::kNe:
    case ExprKind::kLt:
    case ExprKind::kLe:
      require(is_bool(e.dtype()) && e.operand(0).dtype() == e.operand(1).dtype(),
              "a comparison of different types: ", e);
      return;
    case ExprKind::kHostCall:
      require(e.dtype() == DType::kF64 && e.operand(0).dtype() == DType::kF64, "host functions are f64: ", e);
      return;
    default: break;
    }
    require(!is_complex(e.dtype()), "complex arithmetic is expanded by the builders: ", e);
    for (int i = e.kind() == ExprKind::kSelect ? 1 : 0; i < e->operand_count; ++i)
      require(e.operand(i).dtype() == e.dtype(), "operand and result types differ: ", e);
    const bool is_integral = e.kind() == ExprKind::kFloorDiv || e.kind() == ExprKind::kFloorMod ||
                             e.kind() == ExprKind::kMin || e.kind() == ExprKind::kMax || e.kind() == ExprKind::kShl ||
                             e.kind() == ExprKind::kShr;
    const bool is_bitwise = e.kind() == ExprKind::kAnd || e.kind() == ExprKind::kOr || e.kind() == ExprKind::kXor ||
                            e.kind() == ExprKind::kNot;
    require(!(is_integral || is_bitwise) || !is_float(e.dtype()), "an integer operation on floats: ", e);
    require(is_bitwise || e.kind() == ExprKind::kSelect || !is_bool(e.dtype()), "arithmetic on bool: ", e);
    if (e.kind() >= ExprKind::kExp || e.kind() == ExprKind::kSqrt)
      require(is_float(e.dtype()), "a function of reals on ", name_of(e.dtype()), ": ", e);
  }

  void check_access(const Buffer *buffer, Expr index, bool is_masked) {
    require(buffers_.count(buffer) != 0, "buffer %", buffer->name, " is used outside of its scope");
    require(index.dtype() == DType::kI64, "the index into %", buffer->name, " is i64: ", index);
    if (buffer->size == 0 || buffer->kind < Buffer::Kind::kRegister || !is_reached_)
      return;
    const Range range = range_of(index);
    require(is_masked || !range.lower || *range.lower < buffer->size, "index past the end of %", buffer->name);
    require(is_masked || !range.upper || *range.upper >= 0, "index before the start of %", buffer->name);
    if (buffer->kind == Buffer::Kind::kRegister && vector_ != nullptr) {
      const std::optional<int64_t> stride = stride_in(index, vector_->var);
      require(stride == 0 || stride == 1, "registers %", buffer->name, " are indexed by the lane or not at all");
    }
  }

  void check_index(Expr e, const char *what) {
    require(!e.is_empty() && e.dtype() == DType::kI64, what, " is an i64 expression");
    check_expr(e);
  }

  void declare(const Var *var) {
    require(var != nullptr, "a statement without its variable");
    require(vars_.insert(var).second, "%", var->name, " is defined twice in one scope");
  }

  void block(const Block &statements, int depth) {
    const std::unordered_set<const Var *> outer_vars = vars_;
    const std::unordered_set<const Buffer *> outer_buffers = buffers_;
    for (const std::unique_ptr<Statement> &statement : statements) {
      current_ = statement.get();
      std::visit([&](const auto &s) { check(s, depth); }, statement->data);
    }
    vars_ = outer_vars;
    buffers_ = outer_buffers;
  }

  void check(const For &loop, int depth) {
    require(loop.var != nullptr && loop.var->dtype == DType::kI64, "a loop has an i64 variable");
    require(vector_ == nullptr, "a loop inside a vector loop");
    check_index(loop.begin, "the begin of a loop");
    check_index(loop.extent, "the extent of a loop");
    require(loop.step > 0, "a loop's step is positive");
    require((loop.kind == For::Kind::kTask) == (depth == 0), "the task loop is outermost, and no other loop is");
    if (loop.kind == For::Kind::kUnroll)
      require(loop.extent.is_const(), "an unrolled loop has a constant extent");
    if (loop.kind == For::Kind::kVector) {
      require(loop.begin.is_const(0) && loop.step == 1, "a vector loop begins at 0 with step 1");
      require(loop.width >= 1, "a vector loop has at least one lane");
      const Range extent = range_of(loop.extent);
      require(!extent.lower || *extent.lower <= loop.width, "a vector loop's extent is at most its width");
      vector_ = &loop;
    }
    declare(loop.var);
    const bool was_reached = is_reached_;
    const Range extent = range_of(loop.extent);
    is_reached_ = is_reached_ && (!extent.upper || *extent.upper > 0);
    block(loop.body, depth + 1);
    is_reached_ = was_reached;
    vars_.erase(loop.var);
    vector_ = nullptr;
  }

  void check(const Store &store, int) {
    require(store.buffer != nullptr && store.index && store.value, "a store has a buffer, an index and a value");
    check_expr(store.index);
    check_expr(store.value);
    if (store.mask) {
      check_expr(store.mask);
      require(is_bool(store.mask.dtype()), "the mask of a store is bool");
    }
    check_access(store.buffer, store.index, !store.mask.is_empty());
    require(store.buffer->kind != Buffer::Kind::kInput, "a store into the input %", store.buffer->name);
    require(store.value.dtype() == store.buffer->dtype, "a store of ", name_of(store.value.dtype()), " into ",
            std::string(name_of(store.buffer->dtype)));
  }

  void check(const Let &let, int) {
    require(let.var != nullptr && let.value, "a let has a variable and a value");
    check_expr(let.value);
    require(let.var->dtype == let.value.dtype(), "a variable has the type of its value");
    declare(let.var);
  }

  void check(const If &branch, int depth) {
    require(vector_ == nullptr, "a branch inside a vector loop: masks and selects take its place");
    require(depth > 0, "a branch outside of the task loop");
    require(branch.condition && is_bool(branch.condition.dtype()), "the condition of a branch is bool");
    check_expr(branch.condition);
    block(branch.then_body, depth + 1);
    block(branch.else_body, depth + 1);
  }

  void check(const Local &local, int) {
    require(local.buffer != nullptr, "a declaration without a buffer");
    require(vector_ == nullptr, "a buffer declared inside a vector loop");
    require(local.buffer->kind == Buffer::Kind::kRegister || local.buffer->kind == Buffer::Kind::kScratch,
            "a declared buffer is a register or scratch buffer");
    require(local.buffer->size > 0, "a declared buffer has a size");
    require(buffers_.insert(local.buffer).second, "a buffer is declared twice in one scope");
  }

  void check(const Check &check, int) {
    require(check.condition && is_bool(check.condition.dtype()), "the condition of a check is bool");
    require(check.status != 0, "a check's status is not that of success");
    check_expr(check.condition);
  }

  void check(const TileContract &tile, int) {
    require(tile.acc != nullptr && tile.a != nullptr && tile.b != nullptr, "a contraction has three buffers");
    require(vector_ == nullptr, "a contraction inside a vector loop");
    require(tile.acc->kind == Buffer::Kind::kRegister, "a contraction adds to a register buffer");
    require(buffers_.count(tile.acc) != 0 && buffers_.count(tile.a) != 0 && buffers_.count(tile.b) != 0,
            "a contraction uses a buffer outside of its scope");
    require(tile.rows > 0 && tile.cols > 0 && tile.width > 0 && tile.unroll > 0,
            "the sizes of a contraction are positive");
    require(tile.depth_pack == 1 || tile.depth_pack == 2 || tile.depth_pack == 4, "depth_pack is 1, 2 or 4");
    const bool is_depth = tile.lanes == TileContract::Lanes::kDepth;
    require(!is_depth || tile.depth_pack == 1, "lanes along the depth read unpacked operands");
    const int64_t size = static_cast<int64_t>(tile.rows) * tile.cols * (is_depth ? tile.width : 1);
    require(tile.acc->size >= size, "the accumulator holds the tile: ", std::to_string(size), " elements");
    check_index(tile.extent, "the extent of a contraction");
    for (const Var *var : {tile.row, tile.col, tile.k})
      declare(var);
    check_index(tile.a_index, "the index into A");
    check_index(tile.b_index, "the index into B");
    require(!depends_on(tile.a_index, tile.col), "the index into A does not depend on the column");
    require(!depends_on(tile.b_index, tile.row), "the index into B does not depend on the row");
    if (is_depth)
      require(stride_in(tile.a_index, tile.k) == 1 && stride_in(tile.b_index, tile.k) == 1,
              "lanes along the depth read A and B with stride 1");
    else
      require(stride_in(tile.b_index, tile.col) == 1, "lanes along the columns read B with stride 1");
    for (const Var *var : {tile.row, tile.col, tile.k})
      vars_.erase(var);
    if (tile.b_col_limit)
      check_index(tile.b_col_limit, "the column limit");
  }

  const Kernel &kernel_;
  const For *vector_ = nullptr;
  /// No loop around is known to be empty: what ranges say of an empty loop's variable means nothing.
  bool is_reached_ = true;
  std::unordered_set<const Var *> vars_;
  std::unordered_set<const Buffer *> buffers_;
  const Statement *current_ = nullptr;
};

} // namespace

void verify(const Kernel &kernel) { Verifier(kernel).run(); }

} // namespace oxyfuel::loop
