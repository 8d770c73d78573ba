// The reference meaning of Loop IR. Each statement's expressions become one flat list of operations on numbered slots;
// statements stay a tree that is walked. Accesses to local buffers are checked against their size.
#include <cstring>

#include "ir/loop/walk.h"
#include "ir/scalar.h"
#include "support/error.h"

namespace oxyfuel::loop {

namespace {

struct Operation {
  ExprKind kind;
  DType result, operand;
  int count = 0;
  int sources[3] = {0, 0, 0};
  int leaf = 0; ///< slot of the variable or buffer
  int64_t host = 0;
  Scalar constant = {}; ///< kConst
};

/// Expressions that are evaluated together; `roots[i]` is the slot of the i-th.
struct Code {
  std::vector<Operation> operations;
  std::vector<int> roots;
};

/// A statement made ready. Which expressions `code` holds depends on the statement; contractions have one each for the
/// extent and column limit, for A and for B.
struct Step {
  const Statement *statement;
  Code code, a_code, b_code;
  int slots[4] = {-1, -1, -1, -1}; ///< variables and buffers of the statement
  std::vector<Step> body, else_body;
};

struct Memory {
  void *base = nullptr;
  int64_t size = 0; ///< elements; 0: not known
  std::unique_ptr<char[]> owned;
  std::string name;
};

class Interpreter {
public:
  explicit Interpreter(const Kernel &kernel) : kernel_(kernel) {}

  int32_t run(const std::vector<void *> &buffers, const std::vector<int64_t> &sizes) {
    OXYFUEL_CHECK(buffers.size() == kernel_.buffers.size() && sizes.size() == kernel_.sizes.size(),
                  "a kernel is run with the buffers and sizes of its signature");
    for (size_t i = 0; i < buffers.size(); ++i)
      memory_[static_cast<size_t>(slot_of(kernel_.buffers[i]))].base = buffers[i];
    for (size_t i = 0; i < sizes.size(); ++i)
      vars_[static_cast<size_t>(slot_of(kernel_.sizes[i]))].i = sizes[i];
    const std::vector<Step> steps = prepare(kernel_.body);
    return execute(steps);
  }

private:
  int slot_of(const Var *var) {
    const auto [found, is_new] = var_slots_.emplace(var, static_cast<int>(vars_.size()));
    if (is_new)
      vars_.emplace_back();
    return found->second;
  }
  int slot_of(const Buffer *buffer) {
    const auto [found, is_new] = buffer_slots_.emplace(buffer, static_cast<int>(memory_.size()));
    if (is_new) {
      memory_.emplace_back();
      memory_.back().name = buffer->name;
    }
    return found->second;
  }

  // Preparation.

  int add(Expr e, Code &code, std::unordered_map<const ExprNode *, int> &known) {
    if (const auto found = known.find(e.node()); found != known.end())
      return found->second;
    Operation operation{e.kind(), e.dtype(), e.dtype()};
    operation.count = e->operand_count;
    for (int i = 0; i < e->operand_count; ++i)
      operation.sources[i] = add(e.operand(i), code, known);
    if (e->operand_count != 0 && e.kind() != ExprKind::kSelect)
      operation.operand = e.operand(0).dtype();
    if (e.is_const())
      operation.constant = scalar_of(e);
    else if (e.kind() == ExprKind::kVar)
      operation.leaf = slot_of(e.var());
    else if (e.kind() == ExprKind::kLoad)
      operation.leaf = slot_of(e.buffer());
    else
      operation.host = e->integer;
    code.operations.push_back(operation);
    const int slot = static_cast<int>(code.operations.size()) - 1;
    known.emplace(e.node(), slot);
    return slot;
  }

  /// Empty expressions get slot -1.
  Code compile(std::initializer_list<Expr> exprs) {
    Code code;
    std::unordered_map<const ExprNode *, int> known;
    for (Expr e : exprs)
      code.roots.push_back(e ? add(e, code, known) : -1);
    if (values_.size() < code.operations.size())
      values_.resize(code.operations.size());
    return code;
  }

  std::vector<Step> prepare(const Block &block) {
    std::vector<Step> steps;
    for (const std::unique_ptr<Statement> &statement : block) {
      Step step{statement.get(), {}, {}, {}, {-1, -1, -1, -1}, {}, {}};
      std::visit([&](const auto &s) { prepare(s, step); }, statement->data);
      steps.push_back(std::move(step));
    }
    return steps;
  }
  void prepare(const For &loop, Step &step) {
    step.code = compile({loop.begin, loop.extent});
    step.slots[0] = slot_of(loop.var);
    step.body = prepare(loop.body);
  }
  void prepare(const Store &store, Step &step) {
    step.code = compile({store.index, store.value, store.mask});
    step.slots[0] = slot_of(store.buffer);
  }
  void prepare(const Let &let, Step &step) {
    step.code = compile({let.value});
    step.slots[0] = slot_of(let.var);
  }
  void prepare(const If &branch, Step &step) {
    step.code = compile({branch.condition});
    step.body = prepare(branch.then_body);
    step.else_body = prepare(branch.else_body);
  }
  void prepare(const Local &local, Step &step) { step.slots[0] = slot_of(local.buffer); }
  void prepare(const Check &check, Step &step) { step.code = compile({check.condition}); }
  void prepare(const TileContract &tile, Step &step) {
    step.code = compile({tile.extent, tile.b_col_limit});
    step.a_code = compile({tile.a_index});
    step.b_code = compile({tile.b_index});
    step.slots[0] = slot_of(tile.acc);
    step.slots[1] = slot_of(tile.row);
    step.slots[2] = slot_of(tile.col);
    step.slots[3] = slot_of(tile.k);
    slot_of(tile.a);
    slot_of(tile.b);
  }

  // Evaluation.

  Memory &checked(int slot, int64_t index) {
    Memory &memory = memory_[static_cast<size_t>(slot)];
    if (memory.base == nullptr || (memory.size != 0 && (index < 0 || index >= memory.size)))
      throw InternalError(
          "kernel @" + kernel_.name + " reads or writes %" + memory.name + "[" + std::to_string(index) + "], which " +
          (memory.base == nullptr ? "is not declared there" : "has " + std::to_string(memory.size) + " elements"));
    return memory;
  }

  void evaluate(const Code &code) {
    Scalar *values = values_.data();
    for (size_t i = 0; i < code.operations.size(); ++i) {
      const Operation &operation = code.operations[i];
      switch (operation.kind) {
      case ExprKind::kConst: values[i] = operation.constant; break;
      case ExprKind::kVar: values[i] = vars_[static_cast<size_t>(operation.leaf)]; break;
      case ExprKind::kLoad:
        if (operation.count > 1 && values[operation.sources[1]].i == 0) {
          values[i] = Scalar{.z = {0, 0}};
        } else {
          const int64_t index = values[operation.sources[0]].i;
          values[i] = load_scalar(checked(operation.leaf, index).base, index, operation.result);
        }
        break;
      default: {
        Scalar operands[3] = {};
        for (int k = 0; k < operation.count; ++k)
          operands[k] = values[operation.sources[k]];
        values[i] =
            apply(operation.kind, operation.result, operation.operand, operands, operation.count, operation.host);
      }
      }
    }
  }
  Scalar root(const Code &code, size_t i) const { return values_[static_cast<size_t>(code.roots[i])]; }

  int32_t execute(const std::vector<Step> &steps) {
    for (const Step &step : steps)
      if (const int32_t status = std::visit([&](const auto &s) { return execute(s, step); }, step.statement->data);
          status != 0)
        return status;
    return 0;
  }

  int32_t execute(const For &loop, const Step &step) {
    evaluate(step.code);
    const int64_t begin = root(step.code, 0).i, extent = root(step.code, 1).i;
    for (int64_t offset = 0; offset < extent; offset += loop.step) {
      vars_[static_cast<size_t>(step.slots[0])].i = begin + offset;
      if (const int32_t status = execute(step.body); status != 0)
        return status;
    }
    return 0;
  }

  int32_t execute(const Store &store, const Step &step) {
    evaluate(step.code);
    if (step.code.roots[2] >= 0 && root(step.code, 2).i == 0)
      return 0;
    const int64_t index = root(step.code, 0).i;
    store_scalar(checked(step.slots[0], index).base, index, store.buffer->dtype, root(step.code, 1));
    return 0;
  }

  int32_t execute(const Let &, const Step &step) {
    evaluate(step.code);
    vars_[static_cast<size_t>(step.slots[0])] = root(step.code, 0);
    return 0;
  }

  int32_t execute(const If &, const Step &step) {
    evaluate(step.code);
    return execute(root(step.code, 0).i != 0 ? step.body : step.else_body);
  }

  /// Fresh memory full of ones: NaN in floats, so that a read before the first write shows.
  int32_t execute(const Local &local, const Step &step) {
    Memory &memory = memory_[static_cast<size_t>(step.slots[0])];
    const size_t bytes = static_cast<size_t>(local.buffer->size) * size_of(local.buffer->dtype);
    if (memory.owned == nullptr)
      memory.owned = std::make_unique<char[]>(bytes);
    std::memset(memory.owned.get(), 0xff, bytes);
    memory.base = memory.owned.get();
    memory.size = local.buffer->size;
    return 0;
  }

  int32_t execute(const Check &check, const Step &step) {
    evaluate(step.code);
    return root(step.code, 0).i != 0 ? 0 : check.status;
  }

  int32_t execute(const TileContract &tile, const Step &step) {
    evaluate(step.code);
    const int64_t extent = root(step.code, 0).i;
    const int64_t limit = step.code.roots[1] >= 0 ? root(step.code, 1).i : tile.cols;
    const DType type = tile.acc->dtype;
    const bool is_depth = tile.lanes == TileContract::Lanes::kDepth;
    const int a_slot = slot_of(tile.a), b_slot = slot_of(tile.b);
    Scalar &row = vars_[static_cast<size_t>(step.slots[1])], &col = vars_[static_cast<size_t>(step.slots[2])];
    Scalar &depth = vars_[static_cast<size_t>(step.slots[3])];
    std::vector<Scalar> b_row(static_cast<size_t>(tile.cols));
    for (int64_t k = 0; k < extent; ++k) {
      for (int c = 0; c < tile.cols; ++c) {
        b_row[static_cast<size_t>(c)] = Scalar{.i = 0};
        if (c >= limit)
          continue;
        depth.i = k / tile.depth_pack;
        col.i = c;
        evaluate(step.b_code);
        const int64_t index = root(step.b_code, 0).i * tile.depth_pack + k % tile.depth_pack;
        b_row[static_cast<size_t>(c)] =
            convert(load_scalar(checked(b_slot, index).base, index, tile.b->dtype), tile.b->dtype, type);
      }
      depth.i = k;
      for (int r = 0; r < tile.rows; ++r) {
        row.i = r;
        evaluate(step.a_code);
        const int64_t a_index = root(step.a_code, 0).i;
        const Scalar a =
            convert(load_scalar(checked(a_slot, a_index).base, a_index, tile.a->dtype), tile.a->dtype, type);
        for (int c = 0; c < tile.cols; ++c) {
          int64_t index = int64_t{r} * tile.cols + c;
          if (is_depth)
            index = index * tile.width + k % tile.width;
          void *acc = checked(step.slots[0], index).base;
          const Scalar operands[3] = {a, b_row[static_cast<size_t>(c)], load_scalar(acc, index, type)};
          store_scalar(acc, index, type, apply(ExprKind::kFma, type, type, operands, 3));
        }
      }
    }
    return 0;
  }

  const Kernel &kernel_;
  std::unordered_map<const Var *, int> var_slots_;
  std::unordered_map<const Buffer *, int> buffer_slots_;
  std::vector<Scalar> vars_;
  std::vector<Memory> memory_;
  std::vector<Scalar> values_;
};

} // namespace

int32_t interpret(const Kernel &kernel, const std::vector<void *> &buffers, const std::vector<int64_t> &sizes) {
  return Interpreter(kernel).run(buffers, sizes);
}

} // namespace oxyfuel::loop
