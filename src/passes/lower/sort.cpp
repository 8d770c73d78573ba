// Sorts along an axis, stable, O(n log n); the other axes are tasks.
//
// Elements become integer keys in whose order they sort (NaN last, -0 equal to 0; complemented when descending). A key
// of up to 32 bits and its place share one 64-bit word, so that no two are equal and a swap moves one word; wider keys
// have their places in an array of their own. Runs of a few vectors are sorted by counting, for each key, how many go
// before it; then runs are merged bottom up, back and forth between two halves of memory. Values are read again at
// their sorted places.
#include <algorithm>

#include "ops/op.h"
#include "passes/lower/tasks.h"
#include "support/error.h"

namespace oxyfuel {

namespace {

using VarMap = KernelFrame::VarMap;

constexpr int64_t kRun = 16;                 // keys sorted by counting, which takes the square of their number
constexpr int64_t kLongestRun = 64;          // for an axis no longer than this, counting is all
constexpr int64_t kScratchBytes = 128 << 10; // words of a line that still fit beside other data in the second cache
constexpr int kMostMerges = 40;

/// Greater for what sorts later; of 32 bits or fewer as a value, whatever the type, when `x` is.
Expr key_of(Expr x) {
  DType type = x.dtype();
  if (type == DType::kF16 || type == DType::kBF16)
    return key_of(cast(x, DType::kF32));
  if (is_float(type)) {
    DType integer = type == DType::kF32 ? DType::kI32 : DType::kI64;
    ExprContext &context = x.context();
    int64_t most = integer == DType::kI32 ? INT32_MAX : INT64_MAX;
    Expr bits = bitcast(x + x.like(0), integer); // -0 + 0 is +0
    Expr sign = shr(bits, context.integer(integer == DType::kI32 ? 31 : 63, integer));
    bits = bits ^ (sign & context.integer(most, integer));
    return cast(select(is_nan(x), context.integer(most, integer), bits), DType::kI64);
  }
  if (type == DType::kU64)
    return bitcast(x, DType::kI64) ^ x.context().integer(INT64_MIN);
  return cast(x, DType::kI64);
}

bool is_narrow(DType type) { return size_of(type) <= 4; }

class SortLowering {
public:
  SortLowering(const graph::Node &group, const Machine &machine)
      : group_(group), region_(region_of(group)), anchor_(anchor_of(group, OpKind::kSort)), node_(*anchor_.node),
        context_(const_cast<graph::Graph &>(region_).context()), evaluator_(region_), frame_(group, "sort"),
        b_(frame_.builder()), lanes_(std::max(1, machine.lanes(8))) {
    const graph::Type &x = node_.operands[0]->type;
    int64_t axis = node_.get<int64_t>("axis");
    for (int i = 0; i < x.rank(); ++i)
      index_.push_back((i == axis ? sorted_ : axes_).add(context_, x.shape[i]));
    extent_ = x.shape[axis];
    is_packed_ = is_narrow(x.dtype);
    auto length = extent_.constant();
    run_ = length && *length <= kLongestRun ? std::max<int64_t>(1, *length) : kRun;
    run_ = (run_ + lanes_ - 1) / lanes_ * lanes_;
  }

  LoweredGroup run() {
    frame_.use_inputs(evaluator_);
    value_ = evaluator_.element(node_.operands[0], index_);
    checks_ = evaluator_.take_checks();
    Expr key = key_of(value_);
    if (node_.get_or<bool>("descending", false))
      key = key.like(-1) - key;
    n_ = frame_.emit(extent_);
    declare_words();
    int64_t length = hint_of(extent_).value_or(256);
    frame_.kernel().grain = grain_of(length * 16);
    run_tasks(frame_, axes_, [&](const VarMap &vars, const LaneBlock &) {
      make_buffers(vars);
      write_keys(vars, key);
      sort_runs();
      merge_runs();
      write_results(vars);
    });
    lowered_.schedule = "sort {run = " + std::to_string(run_) + ", lanes = " + std::to_string(lanes_) +
                        (is_packed_ ? ", packed" : "") + (in_scratch_ ? ", scratch" : "") + "}";
    frame_.finish(lowered_);
    return std::move(lowered_);
  }

private:
  ExprContext &context() { return frame_.context(); }
  Expr integer(int64_t value) { return context().integer(value); }

  /// Memory of the words: of the worker for short lines of known length, else temporaries of two halves a line.
  void declare_words() {
    auto length = extent_.constant();
    int64_t arrays = is_packed_ ? 1 : 2;
    in_scratch_ = length && 2 * *length * 8 * arrays <= kScratchBytes;
    if (in_scratch_)
      return;
    Expr elements = extent_ * 2;
    for (Expr extent : axes_.extents)
      elements = elements * extent;
    for (int64_t i = 0; i < arrays; ++i)
      lowered_.temporaries.push_back({DType::kI64, elements, false});
    keys_ = temporary(0);
    places_ = is_packed_ ? nullptr : temporary(1);
  }
  Buffer *temporary(int i) {
    Buffer *buffer = frame_.temporary(i, DType::kI64, true);
    buffer->kind = Buffer::Kind::kInOut;
    return buffer;
  }

  void make_buffers(const VarMap &vars) {
    base_ = integer(0);
    if (in_scratch_) {
      int64_t elements = std::max<int64_t>(1, 2 * *extent_.constant());
      keys_ = b_.scratch("keys", DType::kI64, elements);
      places_ = is_packed_ ? nullptr : b_.scratch("places", DType::kI64, elements);
      return;
    }
    for (size_t i = 0; i < axes_.vars.size(); ++i)
      base_ = base_ * frame_.emit(axes_.extents[i]) + vars.at(axes_.vars[i]);
    base_ = b_.let("line", base_ * (n_ * 2));
  }

  /// `f(place)` for all places of the line, in vectors.
  void each_place(const std::function<void(Expr)> &f) {
    b_.serial("i", integer(0), n_, lanes_,
              [&](Expr i) { b_.vector("v", min(integer(lanes_), n_ - i), lanes_, [&](Expr lane) { f(i + lane); }); });
  }

  VarMap at(const VarMap &vars, Expr place) {
    VarMap inner = vars;
    if (!sorted_.vars.empty())
      inner[sorted_.vars[0]] = place;
    return inner;
  }

  void write_keys(const VarMap &vars, Expr key) {
    each_place([&](Expr place) {
      VarMap inner = at(vars, place);
      for (const auto &check : checks_)
        b_.check(frame_.emit(check.condition, inner), check.status);
      Expr word = frame_.emit(key, inner);
      if (is_packed_)
        word = word * (int64_t{1} << 32) + place;
      b_.store(keys_, base_ + place, word);
      if (places_)
        b_.store(places_, base_ + place, place);
    });
  }

  /// Runs of the first half, sorted into the second.
  void sort_runs() {
    b_.serial("run", integer(0), n_, run_, [&](Expr start) {
      Expr count = b_.let("count", min(integer(run_), n_ - start));
      Buffer *rank = b_.registers("rank", DType::kI64, run_);
      auto each = [&](const std::function<void(Expr)> &f) {
        for (int64_t first = 0; first < run_; first += lanes_)
          b_.vector("v", min(integer(lanes_), count - first), lanes_, [&](Expr lane) { f(lane + first); });
      };
      each([&](Expr lane) { b_.store(rank, lane, integer(0)); });
      b_.serial("j", integer(0), count, 1, [&](Expr j) {
        Expr other = b_.let("other", context().load(keys_, base_ + start + j));
        each([&](Expr lane) {
          Expr mine = context().load(keys_, base_ + start + lane);
          Expr is_before = other < mine;
          if (!is_packed_)
            is_before = is_before || (eq(other, mine) && j < lane);
          b_.store(rank, lane, context().load(rank, lane) + cast(is_before, DType::kI64));
        });
      });
      each([&](Expr lane) {
        Expr to = base_ + n_ + start + context().load(rank, lane);
        b_.store(keys_, to, context().load(keys_, base_ + start + lane));
        if (places_)
          b_.store(places_, to, context().load(places_, base_ + start + lane));
      });
    });
  }

  /// How often runs must be merged until one is left.
  Expr merges() {
    Expr count = integer(0);
    auto most = range_of(n_).upper;
    for (int i = 0; i < kMostMerges && (!most || run_ << i < *most); ++i)
      count = count + cast(integer(run_ << i) < n_, DType::kI64);
    return count;
  }

  /// The half that holds the runs after `turns` merges.
  Expr half(Expr turns) { return base_ + n_ * (integer(1) - floor_mod(turns, 2)); }

  void merge_runs() {
    b_.serial("merge", integer(0), merges(), 1, [&](Expr turn) {
      Expr from = b_.let("from", half(turn)), to = b_.let("to", half(turn + 1));
      Expr width = b_.let("width", shl(integer(run_), turn));
      Expr pairs = floor_div(n_ + width * 2 - 1, width * 2);
      b_.serial("pair", integer(0), pairs, 1, [&](Expr pair) {
        Expr low = b_.let("low", pair * (width * 2)), middle = b_.let("middle", min(low + width, n_));
        merge(from, to, low, middle, b_.let("high", min(low + width * 2, n_)));
      });
    });
  }

  /// [low, middle) and [middle, high) into [low, high) of the other half, without branches.
  void merge(Expr from, Expr to, Expr low, Expr middle, Expr high) {
    Expr zero = integer(0);
    Buffer *left = b_.registers("left", DType::kI64, 1), *right = b_.registers("right", DType::kI64, 1);
    b_.store(left, zero, low);
    b_.store(right, zero, middle);
    b_.serial("k", low, high - low, 1, [&](Expr k) {
      Expr i = b_.let("i", context().load(left, zero)), j = b_.let("j", context().load(right, zero));
      // Past their ends both read what is there, and do not count.
      Expr at_left = b_.let("at_left", from + min(i, middle - 1)),
           at_right = b_.let("at_right", from + min(j, high - 1));
      Expr a = b_.let("a", context().load(keys_, at_left)), c = b_.let("c", context().load(keys_, at_right));
      Expr goes_left = b_.let("goes_left", i < middle && (high <= j || a <= c));
      b_.store(keys_, to + k, select(goes_left, a, c));
      if (places_)
        b_.store(places_, to + k, context().load(places_, select(goes_left, at_left, at_right)));
      Expr step = cast(goes_left, DType::kI64);
      b_.store(left, zero, i + step);
      b_.store(right, zero, j + (integer(1) - step));
    });
  }

  void write_results(const VarMap &vars) {
    Expr sorted = b_.let("sorted", half(merges()));
    each_place([&](Expr place) {
      Expr from = context().load(places_ ? places_ : keys_, sorted + place);
      if (is_packed_)
        from = from & integer(0xFFFFFFFF);
      from = b_.let("from", from);
      VarMap to = at(vars, place);
      for (int i : {0, 1}) {
        int result = anchor_.result(i);
        if (result < 0)
          continue;
        const graph::Value &value = *group_.result(result);
        Expr element = i == 0 ? frame_.emit(value_, at(vars, from)) : from;
        b_.store(frame_.result(result), frame_.emit(flat_index(context_, value.type, value.layout, index_), to),
                 element);
      }
    });
  }

  const graph::Node &group_;
  const graph::Graph &region_;
  Anchor anchor_;
  const graph::Node &node_;
  ExprContext &context_;
  Evaluator evaluator_;
  KernelFrame frame_;
  loop::Builder &b_;
  LoweredGroup lowered_;
  TaskAxes axes_, sorted_;
  std::vector<Expr> index_;
  std::vector<Evaluator::Check> checks_;
  Expr extent_, value_; ///< in the program's context
  Expr n_, base_;       ///< in the kernel's: length of a line, its first word
  Buffer *keys_ = nullptr, *places_ = nullptr;
  int64_t run_ = kRun;
  int lanes_;
  bool is_packed_ = false, in_scratch_ = false;
};

} // namespace

LoweredGroup lower_sort(const graph::Node &group, const Machine &machine) { return SortLowering(group, machine).run(); }

} // namespace oxyfuel
