// Storage of expressions: nodes in a bump arena, found again by hash. Ids count up, so every order made from them is
// the same in every run.
#include <bit>
#include <deque>

#include "ir/expr_internal.h"
#include "ir/loop/loop.h"
#include "ir/scalar.h"

namespace oxyfuel {

namespace {

uint64_t mix(uint64_t hash, uint64_t value) {
  hash ^= value;
  hash *= 0x9e3779b97f4a7c15ull;
  return hash ^ (hash >> 29);
}

/// Depends on ids, not on addresses, except for `ref`, which only picks the slot.
uint64_t hash_of(const ExprNode &node) {
  uint64_t hash = mix(static_cast<uint64_t>(node.kind) << 8 | static_cast<uint64_t>(node.dtype), 0x51ull);
  hash = mix(hash, static_cast<uint64_t>(node.integer));
  hash = mix(hash, reinterpret_cast<uintptr_t>(node.ref));
  for (int i = 0; i < node.operand_count; ++i)
    hash = mix(hash, node.operands[i]->id + 1u);
  return hash;
}

bool same(const ExprNode &a, const ExprNode &b) {
  return a.kind == b.kind && a.dtype == b.dtype && a.operand_count == b.operand_count && a.integer == b.integer &&
         a.ref == b.ref && a.operands[0] == b.operands[0] && a.operands[1] == b.operands[1] &&
         a.operands[2] == b.operands[2];
}

bool stays_index(ExprKind kind) {
  switch (kind) {
  case ExprKind::kAdd:
  case ExprKind::kSub:
  case ExprKind::kMul:
  case ExprKind::kDiv:
  case ExprKind::kRem:
  case ExprKind::kFloorDiv:
  case ExprKind::kFloorMod:
  case ExprKind::kMin:
  case ExprKind::kMax:
  case ExprKind::kNeg:
  case ExprKind::kAbs:
  case ExprKind::kSelect:
  case ExprKind::kCast:
  case ExprKind::kEq:
  case ExprKind::kNe:
  case ExprKind::kLt:
  case ExprKind::kLe:
  case ExprKind::kAnd:
  case ExprKind::kOr:
  case ExprKind::kXor:
  case ExprKind::kNot: return true;
  default: return false;
  }
}

bool index_flag(const ExprNode &node) {
  if (node.dtype != DType::kI64 && node.dtype != DType::kBool)
    return false;
  if (node.kind == ExprKind::kConst)
    return true;
  if (node.kind == ExprKind::kVar)
    return static_cast<const Var *>(node.ref)->is_index;
  if (!stays_index(node.kind))
    return false;
  for (int i = 0; i < node.operand_count; ++i)
    if (!node.operands[i]->is_index)
      return false;
  return true;
}

} // namespace

struct ExprContext::State {
  static constexpr size_t kChunk = 512;
  std::vector<std::unique_ptr<ExprNode[]>> chunks;
  size_t used = kChunk;                ///< of the last chunk
  std::vector<const ExprNode *> nodes; ///< by id
  std::vector<uint32_t> table;         ///< open addressing, id + 1; the size is a power of two
  std::vector<Range> ranges;           ///< by id, where has_range
  std::vector<bool> has_range;
  std::deque<Var> vars;
  std::deque<Buffer> buffers;

  State() : table(1024, 0) {}
  Expr intern(ExprContext &context, const ExprNode &key);
  void grow();
};

void ExprContext::State::grow() {
  std::vector<uint32_t> larger(table.size() * 2, 0);
  for (const ExprNode *node : nodes) {
    size_t slot = hash_of(*node) & (larger.size() - 1);
    while (larger[slot] != 0)
      slot = (slot + 1) & (larger.size() - 1);
    larger[slot] = node->id + 1;
  }
  table = std::move(larger);
}

Expr ExprContext::State::intern(ExprContext &context, const ExprNode &key) {
  if ((nodes.size() + 1) * 2 > table.size())
    grow();
  size_t slot = hash_of(key) & (table.size() - 1);
  for (; table[slot] != 0; slot = (slot + 1) & (table.size() - 1)) {
    const ExprNode *found = nodes[table[slot] - 1];
    if (same(*found, key))
      return Expr(found);
  }
  if (used == kChunk) {
    chunks.push_back(std::make_unique<ExprNode[]>(kChunk));
    used = 0;
  }
  ExprNode *node = &chunks.back()[used++];
  *node = key;
  node->id = static_cast<uint32_t>(nodes.size());
  node->context = &context;
  node->is_index = index_flag(*node);
  nodes.push_back(node);
  table[slot] = node->id + 1;
  return Expr(node);
}

ExprContext::ExprContext() : state_(std::make_unique<State>()) {}
ExprContext::~ExprContext() = default;

Expr ExprInterner::intern(ExprContext &context, ExprKind kind, DType dtype, std::span<const Expr> operands,
                          int64_t integer, const void *ref) {
  OXYFUEL_CHECK(operands.size() <= 3, "an expression has at most three operands");
  ExprNode key{};
  key.kind = kind;
  key.dtype = dtype;
  key.operand_count = static_cast<uint8_t>(operands.size());
  key.integer = integer;
  key.ref = ref;
  for (size_t i = 0; i < operands.size(); ++i) {
    OXYFUEL_CHECK(operands[i] && operands[i]->context == &context, "operand of another context");
    key.operands[i] = operands[i].node();
  }
  return context.state_->intern(context, key);
}

Expr ExprInterner::intern_real(ExprContext &context, double value, DType dtype) {
  if (value != value) // one NaN: payloads are not part of the language
    value = std::bit_cast<double>(0x7ff8000000000000ull);
  return intern(context, ExprKind::kConst, dtype, {}, std::bit_cast<int64_t>(value));
}

bool ExprInterner::find_range(const ExprNode *node, Range &range) {
  const ExprContext::State &state = *node->context->state_;
  if (node->id >= state.has_range.size() || !state.has_range[node->id])
    return false;
  range = state.ranges[node->id];
  return true;
}

void ExprInterner::keep_range(const ExprNode *node, const Range &range) {
  ExprContext::State &state = *node->context->state_;
  if (state.has_range.size() <= node->id) {
    state.ranges.resize(state.nodes.size());
    state.has_range.resize(state.nodes.size(), false);
  }
  state.ranges[node->id] = range;
  state.has_range[node->id] = true;
}

Expr ExprContext::integer(int64_t value, DType dtype) {
  OXYFUEL_CHECK(is_integer(dtype) || is_bool(dtype), "an integer constant has an integer type");
  return ExprInterner::intern(*this, ExprKind::kConst, dtype, {}, wrap(value, dtype));
}

Expr ExprContext::real(double value, DType dtype) {
  OXYFUEL_CHECK(is_float(dtype), "a real constant has a float type");
  return ExprInterner::intern_real(*this, round_to(value, dtype), dtype);
}

Expr ExprContext::boolean(bool value) { return integer(value ? 1 : 0, DType::kBool); }

Expr ExprContext::constant(double value, DType dtype) {
  if (is_complex(dtype))
    return oxyfuel::intern(*this, ExprKind::kComplex, dtype, {real(value, real_of(dtype)), real(0, real_of(dtype))});
  if (is_float(dtype))
    return real(value, dtype);
  if (is_bool(dtype))
    return boolean(value != 0);
  return integer(dtype == DType::kU64 && value >= 0x1p63 ? static_cast<int64_t>(static_cast<uint64_t>(value))
                                                         : static_cast<int64_t>(value),
                 dtype);
}

Expr ExprContext::var(const Var *var) { return ExprInterner::intern(*this, ExprKind::kVar, var->dtype, {}, 0, var); }

Expr ExprContext::load(const Buffer *buffer, Expr index, Expr mask) {
  OXYFUEL_CHECK(index.dtype() == DType::kI64, "the index of a load is i64");
  if (mask && mask.is_const()) {
    if (mask.is_const(0))
      return constant(0, buffer->dtype);
    mask = {};
  }
  if (mask.is_empty())
    return ExprInterner::intern(*this, ExprKind::kLoad, buffer->dtype, std::span<const Expr>(&index, 1), 0, buffer);
  OXYFUEL_CHECK(is_bool(mask.dtype()), "the mask of a load is bool");
  const Expr operands[] = {index, mask};
  return ExprInterner::intern(*this, ExprKind::kLoad, buffer->dtype, operands, 0, buffer);
}

Var *ExprContext::new_var(std::string name, DType dtype, std::optional<int64_t> lower, std::optional<int64_t> upper) {
  Var &var = state_->vars.emplace_back();
  var.name = std::move(name);
  var.dtype = dtype;
  var.lower = lower;
  var.upper = upper;
  return &var;
}

Buffer *ExprContext::new_buffer(std::string name, DType dtype) {
  Buffer &buffer = state_->buffers.emplace_back();
  buffer.name = std::move(name);
  buffer.dtype = dtype;
  return &buffer;
}

size_t ExprContext::node_count() const { return state_->nodes.size(); }

Expr Expr::like(double value) const { return context().constant(value, dtype()); }

bool Expr::is_const(int64_t value) const { return is_const() && !is_float(dtype()) && node_->integer == value; }

std::optional<int64_t> Expr::constant() const {
  if (!is_const() || is_float(dtype()))
    return {};
  return node_->integer;
}

} // namespace oxyfuel
