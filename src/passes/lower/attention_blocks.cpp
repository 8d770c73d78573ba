// Attention over blocks of queries. Lanes are queries wherever scores are concerned:
//
//   queries packed as Q[e][query]                            once a task
//   for each block of keys:
//     P[key][query] = sum over e of K[key][e] Q[e][query]    tiles of keys by vectors of queries; greatest score on the
//     way P = exp(P - greatest)                                  and its sum over keys O[query][e] = O * rescale + sum
//     over key of P[key][query] V[key][e]    tiles of queries by vectors of e
//
// Keys and values are read as they lie, P is held for one block of keys. When all keys are one block there is no
// rescaling, and O goes from registers to the result.
#include <algorithm>
#include <cmath>

#include "passes/lower/attention.h"
#include "support/error.h"

namespace oxyfuel {

namespace {

using loop::TileContract;

class Blocks : AttentionKernel {
public:
  Blocks(const AttentionPlan &plan, const AttentionSchedule &schedule, const Evaluator &evaluator)
      : AttentionKernel(plan, schedule, evaluator, "attention"), block_(schedule.queries),
        value_stride_((plan.value_size + width_ - 1) / width_ * width_) {
    auto keys = plan.keys.constant();
    is_single_ = keys && *keys <= schedule.keys;
  }

  void run(LoweredGroup &lowered) {
    ExprContext &program = plan_.batches.context();
    TaskAxes axes;
    Var *block = program.new_var("block", DType::kI64, 0);
    axes.vars = {plan_.batch, plan_.head, block};
    axes.extents = {plan_.batches, program.integer(plan_.heads), ceil_div(plan_.queries, block_)};
    Expr queries = frame_.emit(plan_.queries), keys = frame_.emit(plan_.keys);
    frame_.kernel().grain = schedule_.grain;
    run_tasks(frame_, axes, [&](const VarMap &places, const LaneBlock &) {
      VarMap at = places;
      at[plan_.key_head] =
          plan_.shared() == 1 ? at.at(plan_.head) : b_.let("h", floor_div(at.at(plan_.head), plan_.shared()));
      first_ = b_.let("q", places.at(block) * block_);
      auto count = plan_.queries.constant();
      count_ = count && *count % block_ == 0 ? integer(block_)
               : count && *count <= block_   ? integer(*count)
                                             : b_.let("m", min(integer(block_), queries - first_));
      Expr key_end = plan_.is_causal ? b_.let("end", min(keys, first_ + count_)) : keys;
      declare_scratch();
      pack_queries(at);
      start();
      if (is_single_)
        block_of_keys(at, integer(0), key_end);
      else
        b_.serial("keys", integer(0), key_end, schedule_.keys,
                  [&](Expr key) { block_of_keys(at, key, b_.let("n", min(integer(schedule_.keys), key_end - key))); });
      finish(at);
    });
    frame_.finish(lowered);
  }

private:
  void declare_scratch() {
    DType type = plan_.accumulator;
    int64_t padded = block_ + schedule_.value_rows; // tiles of results may reach past the last query
    q_ = b_.scratch("q", type, plan_.size * block_);
    p_ = b_.scratch("p", type, schedule_.keys * block_ + schedule_.value_rows);
    greatest_ = b_.scratch("greatest", type, padded);
    sum_ = b_.scratch("sum", type, padded);
    block_greatest_ = b_.scratch("block_greatest", type, block_);
    if (!is_single_) {
      rescale_ = b_.scratch("rescale", type, padded);
      out_ = b_.scratch("o", type, padded * value_stride_);
    }
    if (schedule_.copies_keys)
      keys_ = b_.scratch("k", type, schedule_.keys * plan_.size);
    if (schedule_.copies_values)
      values_ = b_.scratch("v", type, schedule_.keys * value_stride_);
  }

  /// Vectors of all queries of the task, unrolled; those below `count` valid.
  void each_query(Expr count, const std::function<void(Expr)> &f) {
    for (int64_t first = 0; first < block_; first += width_)
      lanes(integer(first), count, f);
  }

  void pack_queries(const VarMap &at) {
    b_.serial("e", integer(0), integer(plan_.size), 1, [&](Expr e) {
      if (!count_.is_const(block_)) // lanes past the last query are computed with, and not stored
        each_query({}, [&](Expr query) { b_.store(q_, e * block_ + query, real(0)); });
      each_query(count_, [&](Expr query) {
        Expr element = frame_.emit(plan_.q, with(with(at, plan_.query, first_ + query), plan_.element, e));
        b_.store(q_, e * block_ + query, wide(element) * real(plan_.scale));
      });
    });
  }

  void start() {
    if (is_single_)
      return;
    each_query({}, [&](Expr query) {
      b_.store(greatest_, query, real(-INFINITY));
      b_.store(sum_, query, real(0));
    });
    b_.serial("i", integer(0), integer((block_ + schedule_.value_rows) * value_stride_), width_,
              [&](Expr i) { lanes(i, {}, [&](Expr place) { b_.store(out_, place, real(0)); }); });
  }

  void block_of_keys(const VarMap &at, Expr key, Expr count) {
    if (keys_)
      copy_rows(plan_.k, plan_.size, plan_.size, at, key, count, keys_);
    if (values_)
      copy_rows(plan_.v, plan_.value_size, value_stride_, at, key, count, values_);
    int64_t cols = int64_t{schedule_.score_cols} * width_;
    Expr used = ceil_div(count_, width_) * width_, rest = floor_mod(used, integer(cols));
    if (Expr whole = used - rest; !whole.is_const(0))
      b_.serial("c", integer(0), whole, cols, [&](Expr c) { column_tile(at, c, schedule_.score_cols, key, count); });
    if (!rest.is_const(0))
      b_.branch(integer(0) < rest, [&] { column_tile(at, b_.let("c", used - rest), 1, key, count); });
    weigh_values(at, key, count);
  }

  /// Scores of `vectors` vectors of queries from `c` on, turned into weights.
  void column_tile(const VarMap &at, Expr c, int vectors, Expr key, Expr count) {
    each_vector(c, vectors, [&](Expr query, int) { b_.store(block_greatest_, query, real(-INFINITY)); });
    int rows = schedule_.score_rows;
    Expr rest = floor_mod(count, integer(rows));
    if (Expr whole = count - rest; !whole.is_const(0))
      b_.serial("j", integer(0), whole, rows, [&](Expr j) { score_tile(at, c, vectors, rows, key, j); });
    if (!rest.is_const(0))
      b_.branch(integer(0) < rest, [&] {
        // The last tile overlaps the one before it; scores are the same twice.
        b_.branch(
            integer(rows) <= count, [&] { score_tile(at, c, vectors, rows, key, b_.let("j", count - rows)); },
            [&] { b_.serial("j", integer(0), count, 1, [&](Expr j) { score_tile(at, c, vectors, 1, key, j); }); });
      });
    weights(c, vectors, count);
  }

  void each_vector(Expr c, int vectors, const std::function<void(Expr, int)> &f) {
    for (int v = 0; v < vectors; ++v)
      b_.vector("v", integer(width_), width_, [&](Expr lane) { f(c + int64_t{v} * width_ + lane, v); });
  }

  void score_tile(const VarMap &at, Expr c, int vectors, int rows, Expr key, Expr j) {
    TileContract tile;
    tile.rows = rows;
    tile.cols = vectors * width_;
    tile.width = width_;
    tile.unroll = 4;
    tile.extent = integer(plan_.size);
    tile.acc = b_.registers("s", plan_.accumulator, int64_t{rows} * tile.cols);
    auto element = [&](int row, int v, Expr lane) { return lane + (int64_t{row} * tile.cols + int64_t{v} * width_); };
    for (int row = 0; row < rows; ++row)
      for (int v = 0; v < vectors; ++v)
        b_.vector("v", integer(width_), width_, [&](Expr lane) { b_.store(tile.acc, element(row, v, lane), real(0)); });
    b_.contract_vars(tile);
    Expr row = context().var(tile.row), col = context().var(tile.col), k = context().var(tile.k);
    Source a = keys_ ? Source{keys_, (j + row) * plan_.size + k}
                     : source(plan_.k, with(with(at, plan_.key, key + j + row), plan_.element, k));
    tile.a = a.buffer;
    tile.a_index = a.index;
    tile.b = q_;
    tile.b_index = k * block_ + c + col;
    b_.contract(tile);
    for (int v = 0; v < vectors; ++v) {
      auto store = [&](Expr lane) {
        Expr query = c + int64_t{v} * width_ + lane;
        Expr best = load(block_greatest_, query);
        for (int r = 0; r < rows; ++r) {
          VarMap here = with(with(at, plan_.query, first_ + query), plan_.key, key + j + r);
          Expr score = b_.let("score", masked(load(tile.acc, element(r, v, lane)), here));
          b_.store(p_, (j + r) * block_ + query, score);
          best = b_.let("best", greater(best, score));
        }
        b_.store(block_greatest_, query, best);
      };
      // A mask has no elements past the last query.
      Expr valid = plan_.mask ? min(integer(width_), count_ - c - int64_t{v} * width_) : integer(width_);
      if (count_.is_const(block_))
        valid = integer(width_);
      b_.vector("v", valid, width_, store);
    }
  }

  void weights(Expr c, int vectors, Expr count) {
    int64_t cols = int64_t{vectors} * width_;
    Buffer *reference_of = b_.registers("reference", plan_.accumulator, cols);
    Buffer *total = b_.registers("total", plan_.accumulator, cols);
    auto in_tile = [&](Expr query) { return query - c; };
    each_vector(c, vectors, [&](Expr query, int) {
      Expr best = load(block_greatest_, query);
      if (!is_single_)
        best = greater(load(greatest_, query), best);
      best = b_.let("best", best);
      Expr taken = b_.let("taken", reference(best));
      if (!is_single_)
        b_.store(rescale_, query, exp(load(greatest_, query) - taken));
      b_.store(greatest_, query, best);
      b_.store(reference_of, in_tile(query), taken);
      b_.store(total, in_tile(query), real(0));
    });
    b_.serial("j", integer(0), count, 1, [&](Expr j) {
      each_vector(c, vectors, [&](Expr query, int) {
        Expr place = j * block_ + query;
        Expr weight = b_.let("w", exp(load(p_, place) - load(reference_of, in_tile(query))));
        b_.store(p_, place, weight);
        b_.store(total, in_tile(query), load(total, in_tile(query)) + weight);
      });
    });
    each_vector(c, vectors, [&](Expr query, int) {
      Expr sum = load(total, in_tile(query));
      if (!is_single_)
        sum = fma(load(sum_, query), load(rescale_, query), sum);
      b_.store(sum_, query, sum);
    });
  }

  void weigh_values(const VarMap &at, Expr key, Expr count) {
    int64_t cols = int64_t{schedule_.value_vectors} * width_;
    for (int64_t e = 0; e < plan_.value_size; e += cols)
      b_.serial("r", integer(0), count_, schedule_.value_rows,
                [&](Expr r) { value_tile(at, r, e, std::min(cols, value_stride_ - e), key, count); });
  }

  void value_tile(const VarMap &at, Expr r, int64_t e, int64_t cols, Expr key, Expr count) {
    int rows = schedule_.value_rows;
    TileContract tile;
    tile.rows = rows;
    tile.cols = static_cast<int>(cols);
    tile.width = width_;
    tile.unroll = 2;
    tile.extent = count;
    tile.acc = b_.registers("o", plan_.accumulator, rows * cols);
    auto each = [&](int row, const std::function<void(Expr, Expr)> &f) {
      for (int64_t first = 0; first < cols; first += width_)
        b_.vector("v", integer(width_), width_, [&](Expr lane) { f(lane + first, lane + (row * cols + first)); });
    };
    for (int row = 0; row < rows; ++row) {
      Expr rescale = is_single_ ? Expr() : b_.let("rescale", load(rescale_, r + row));
      each(row, [&](Expr col, Expr acc) {
        b_.store(tile.acc, acc, is_single_ ? real(0) : load(out_, (r + row) * value_stride_ + e + col) * rescale);
      });
    }
    b_.contract_vars(tile);
    Expr row = context().var(tile.row), col = context().var(tile.col), k = context().var(tile.k);
    tile.a = p_;
    tile.a_index = k * block_ + r + row;
    Source source_of_b = values_ ? Source{values_, k * value_stride_ + e + col}
                                 : source(plan_.v, with(with(at, plan_.key, key + k), plan_.element, col + e));
    tile.b = source_of_b.buffer;
    tile.b_index = source_of_b.index;
    if (!values_ && plan_.value_size - e < cols)
      tile.b_col_limit = integer(plan_.value_size - e);
    b_.contract(tile);
    if (!is_single_) {
      for (int i = 0; i < rows; ++i)
        each(i,
             [&](Expr column, Expr acc) { b_.store(out_, (r + i) * value_stride_ + e + column, load(tile.acc, acc)); });
      return;
    }
    auto store = [&](int i) {
      Expr inverse = inverse_sum(r + i);
      for (int64_t first = 0; first < cols; first += width_)
        lanes(integer(first), integer(plan_.value_size - e),
              [&](Expr column) { store_result(at, r + i, column + e, load(tile.acc, column + i * cols) * inverse); });
    };
    b_.branch(
        r + rows <= count_,
        [&] {
          for (int i = 0; i < rows; ++i)
            store(i);
        },
        [&] {
          for (int i = 0; i < rows; ++i)
            b_.branch(r + i < count_, [&] { store(i); });
        });
  }

  Expr inverse_sum(Expr query) {
    Expr sum = b_.let("sum", load(sum_, query));
    return b_.let("inverse", select(eq(sum, real(0)), real(0), real(1) / sum));
  }

  void store_result(const VarMap &at, Expr query, Expr e, Expr value) {
    Buffer *out = frame_.result(plan_.anchor.result(0));
    Expr place = frame_.emit(plan_.out_index, with(with(at, plan_.query, first_ + query), plan_.element, e));
    b_.store(out, place, value.dtype() == out->dtype ? value : cast(value, out->dtype));
  }

  void finish(const VarMap &at) {
    if (!is_single_)
      b_.serial("r", integer(0), count_, 1, [&](Expr r) {
        Expr inverse = inverse_sum(r);
        for (int64_t first = 0; first < plan_.value_size; first += width_)
          lanes(integer(first), integer(plan_.value_size),
                [&](Expr e) { store_result(at, r, e, load(out_, r * value_stride_ + e) * inverse); });
      });
    if (plan_.logsumexp_index.is_empty())
      return;
    Buffer *result = frame_.result(plan_.anchor.result(1));
    each_query(count_, [&](Expr query) {
      Expr sum = load(sum_, query);
      Expr value = select(eq(sum, real(0)), real(0), load(greatest_, query) + log(sum));
      b_.store(result, frame_.emit(plan_.logsumexp_index, with(at, plan_.query, first_ + query)), value);
    });
  }

  int64_t block_, value_stride_;
  bool is_single_ = false; ///< one block of keys
  Expr first_, count_;     ///< queries of the task
  Buffer *q_ = nullptr, *p_ = nullptr, *greatest_ = nullptr, *sum_ = nullptr, *block_greatest_ = nullptr;
  Buffer *rescale_ = nullptr, *out_ = nullptr, *keys_ = nullptr, *values_ = nullptr;
};

} // namespace

void emit_attention_blocks(const AttentionPlan &plan, const AttentionSchedule &schedule, const Evaluator &evaluator,
                           LoweredGroup &lowered) {
  Blocks(plan, schedule, evaluator).run(lowered);
}

} // namespace oxyfuel
