// Attention of few queries, as in decoding: memory is what takes time, so keys and values are read once. The queries of
// all heads that share a key head are the rows of one task.
//
//   for each block of keys:
//     P[row][key] = sum over e of Q[row][e] K[key][e]     lanes along e, then a tree
//     P = exp(P - greatest)                               lanes along keys
//     O[row][e] = O * rescale + sum over key of P V[key][e]
//
// With few key heads the keys are split among tasks, whose parts a second kernel joins in order.
#include <algorithm>
#include <cmath>

#include "passes/lower/attention.h"
#include "support/error.h"

namespace oxyfuel {

namespace {

using loop::TileContract;

constexpr int64_t kPrefetchBytes = 8192;

class Rows : AttentionKernel {
public:
  Rows(const AttentionPlan &plan, const AttentionSchedule &schedule, const Evaluator &evaluator,
       const std::string &name)
      : AttentionKernel(plan, schedule, evaluator, name), queries_(*plan.queries.constant()),
        rows_(queries_ * plan.shared()), value_stride_((plan.value_size + width_ - 1) / width_ * width_),
        part_size_(value_stride_ + 2) {}

  void run(LoweredGroup &lowered) {
    TaskAxes axes = task_axes(true);
    if (schedule_.split) {
      ExprContext &program = plan_.batches.context();
      Expr parts = plan_.batches * axes.extents[2] * (plan_.key_heads * rows_ * part_size_);
      lowered.temporaries.push_back({plan_.accumulator, parts.is_empty() ? program.integer(0) : parts, false});
      parts_ = frame_.temporary(0, plan_.accumulator, true);
    }
    frame_.kernel().grain = schedule_.grain;
    Expr keys = frame_.emit(plan_.keys);
    run_tasks(frame_, axes, [&](const VarMap &at, const LaneBlock &) {
      Expr begin = integer(0), end = keys;
      if (schedule_.split) {
        begin = b_.let("begin", at.at(part_) * schedule_.split);
        end = b_.let("end", min(keys, begin + schedule_.split));
      }
      declare_scratch();
      start(at);
      b_.serial("keys", begin, end - begin, schedule_.keys, [&](Expr key) {
        Expr count = b_.let("n", min(integer(schedule_.keys), end - key));
        if (keys_)
          copy_rows(plan_.k, plan_.size, plan_.size, at, key, count, keys_);
        if (values_)
          copy_rows(plan_.v, plan_.value_size, value_stride_, at, key, count, values_);
        scores(at, key, count);
        for (int64_t row = 0; row < rows_; ++row)
          weights(at, row, key, count);
        weigh_values(at, key, count);
      });
      if (schedule_.split)
        store_part(at, frame_.emit(axes.extents[2]));
      else
        finish(at);
    });
    frame_.finish(lowered);
  }

  /// The kernel that joins the parts of a split.
  void join(LoweredGroup &lowered) {
    TaskAxes axes = task_axes(false);
    parts_ = frame_.temporary(0, plan_.accumulator, false);
    Expr count = frame_.emit(ceil_div(plan_.keys, schedule_.split));
    run_tasks(frame_, axes, [&](const VarMap &at, const LaneBlock &) {
      declare_results();
      Expr head = at.at(plan_.batch) * plan_.key_heads + at.at(plan_.key_head);
      for (int64_t row = 0; row < rows_; ++row) {
        auto part = [&](Expr i) { return ((head * count + i) * rows_ + row) * part_size_; };
        Buffer *best = b_.registers("best", plan_.accumulator, 1), *sum = b_.registers("sum", plan_.accumulator, 1);
        b_.store(best, integer(0), real(-INFINITY));
        b_.store(sum, integer(0), real(0));
        each_value(row, [&](Expr place, Expr) { b_.store(out_, place, real(0)); });
        b_.serial("i", integer(0), count, 1, [&](Expr i) {
          b_.store(best, integer(0), greater(load(best, integer(0)), load(parts_, part(i) + value_stride_)));
        });
        Expr taken = b_.let("taken", reference(load(best, integer(0))));
        b_.serial("i", integer(0), count, 1, [&](Expr i) {
          Expr weight = b_.let("w", exp(load(parts_, part(i) + value_stride_) - taken));
          b_.store(sum, integer(0), fma(load(parts_, part(i) + value_stride_ + 1), weight, load(sum, integer(0))));
          each_value(row, [&](Expr place, Expr e) {
            b_.store(out_, place, fma(load(parts_, part(i) + e), weight, load(out_, place)));
          });
        });
        b_.store(greatest_, integer(row), load(best, integer(0)));
        b_.store(sum_, integer(row), load(sum, integer(0)));
      }
      finish(at);
    });
    frame_.finish(lowered);
  }

private:
  TaskAxes task_axes(bool has_parts) {
    ExprContext &program = plan_.batches.context();
    TaskAxes axes;
    axes.vars = {plan_.batch, plan_.key_head};
    axes.extents = {plan_.batches, program.integer(plan_.key_heads)};
    if (has_parts && schedule_.split) {
      part_ = program.new_var("part", DType::kI64, 0);
      axes.vars.push_back(part_);
      axes.extents.push_back(ceil_div(plan_.keys, schedule_.split));
    }
    return axes;
  }

  /// The head and query of a row.
  VarMap at_row(const VarMap &at, int64_t row) {
    VarMap result = at;
    result[plan_.head] = at.at(plan_.key_head) * plan_.shared() + row / queries_;
    result[plan_.query] = integer(row % queries_);
    return result;
  }

  void declare_results() {
    out_ = b_.scratch("o", plan_.accumulator, rows_ * value_stride_);
    greatest_ = b_.scratch("greatest", plan_.accumulator, rows_);
    sum_ = b_.scratch("sum", plan_.accumulator, rows_);
  }

  void declare_scratch() {
    declare_results();
    q_ = b_.scratch("q", plan_.accumulator, rows_ * plan_.size);
    p_ = b_.scratch("p", plan_.accumulator, rows_ * schedule_.keys);
    rescale_ = b_.scratch("rescale", plan_.accumulator, rows_);
    keys_ = schedule_.copies_keys ? b_.scratch("k", plan_.accumulator, schedule_.keys * plan_.size) : nullptr;
    values_ = schedule_.copies_values ? b_.scratch("v", plan_.accumulator, schedule_.keys * value_stride_) : nullptr;
  }

  /// `f(place in O, e)` for vectors of a row of O, padding included.
  void each_value(int64_t row, const std::function<void(Expr, Expr)> &f) {
    for (int64_t first = 0; first < value_stride_; first += width_)
      lanes(integer(first), {}, [&](Expr e) { f(e + row * value_stride_, e); });
  }

  void start(const VarMap &at) {
    for (int64_t row = 0; row < rows_; ++row) {
      VarMap here = at_row(at, row);
      for (int64_t first = 0; first < plan_.size; first += width_)
        lanes(integer(first), integer(plan_.size), [&](Expr e) {
          Expr element = frame_.emit(plan_.q, with(here, plan_.element, e));
          b_.store(q_, e + row * plan_.size, wide(element) * real(plan_.scale));
        });
      b_.store(greatest_, integer(row), real(-INFINITY));
      b_.store(sum_, integer(row), real(0));
      each_value(row, [&](Expr place, Expr) { b_.store(out_, place, real(0)); });
    }
  }

  void scores(const VarMap &at, Expr key, Expr count) {
    auto tiles = [&](Expr j, int cols) {
      for (int64_t row = 0; row < rows_; row += schedule_.score_rows)
        score_tile(at, row, static_cast<int>(std::min<int64_t>(schedule_.score_rows, rows_ - row)), key, j, cols);
    };
    int cols = schedule_.score_cols;
    Expr rest = floor_mod(count, integer(cols)), whole = count - rest;
    if (!whole.is_const(0))
      b_.serial("j", integer(0), whole, cols, [&](Expr j) { tiles(j, cols); });
    if (!rest.is_const(0))
      b_.serial("j", whole, rest, 1, [&](Expr j) { tiles(j, 1); });
  }

  void score_tile(const VarMap &at, int64_t first_row, int rows, Expr key, Expr j, int cols) {
    TileContract tile;
    tile.lanes = TileContract::Lanes::kDepth;
    tile.rows = rows;
    tile.cols = cols;
    tile.width = width_;
    tile.unroll = 2;
    tile.extent = integer(plan_.size);
    int64_t sums = int64_t{rows} * cols;
    tile.acc = b_.registers("s", plan_.accumulator, sums * width_);
    for (int64_t i = 0; i < sums; ++i)
      b_.vector("v", integer(width_), width_, [&](Expr lane) { b_.store(tile.acc, lane + i * width_, real(0)); });
    b_.contract_vars(tile);
    Expr row = context().var(tile.row), col = context().var(tile.col), k = context().var(tile.k);
    tile.a = q_;
    tile.a_index = (row + first_row) * plan_.size + k;
    Source b = keys_ ? Source{keys_, (j + col) * plan_.size + k}
                     : source(plan_.k, with(with(at, plan_.key, key + j + col), plan_.element, k));
    tile.b = b.buffer;
    tile.b_index = b.index;
    tile.prefetch_distance = keys_ ? 0 : prefetch_distance(plan_.k);
    b_.contract(tile);
    for (int64_t i = 0; i < sums; ++i) {
      tree(tile.acc, i * width_, [](Expr a, Expr c) { return a + c; });
      b_.store(p_, integer((first_row + i / cols) * schedule_.keys + i % cols) + j,
               load(tile.acc, integer(i * width_)));
    }
  }

  /// Folds a vector of registers from `base` on into its first element.
  void tree(const Buffer *registers, int64_t base, const std::function<Expr(Expr, Expr)> &combine) {
    for (int half = width_ / 2; half >= 1; half /= 2) {
      auto step = [&](Expr lane) {
        b_.store(registers, lane + base, combine(load(registers, lane + base), load(registers, lane + (base + half))));
      };
      if (half == 1)
        step(integer(0));
      else
        b_.vector("v", integer(half), half, step);
    }
  }

  /// In elements, of whole keys: so much computation lies between the loads of a key and the next that the processor
  /// does not look far enough ahead by itself.
  int64_t prefetch_distance(Expr operand) const {
    std::optional<int64_t> stride = stride_in(operand.operand(0), plan_.key);
    if (!stride || *stride <= 0)
      return 0;
    int64_t bytes = *stride * static_cast<int64_t>(size_of(operand.dtype()));
    return (kPrefetchBytes + bytes - 1) / bytes * *stride;
  }

  void weights(const VarMap &at, int64_t row, Expr key, Expr count) {
    VarMap here = at_row(at, row);
    Buffer *best = b_.registers("best", plan_.accumulator, width_),
           *total = b_.registers("total", plan_.accumulator, width_);
    auto whole = [&](const std::function<void(Expr)> &f) { b_.vector("v", integer(width_), width_, f); };
    auto sweep = [&](const std::function<void(Expr, Expr)> &f) { // (key in the block, lane)
      b_.serial("j", integer(0), count, width_, [&](Expr j) {
        b_.vector("v", min(integer(width_), count - j), width_, [&](Expr lane) { f(j + lane, lane); });
      });
    };
    whole([&](Expr lane) {
      b_.store(best, lane, real(-INFINITY));
      b_.store(total, lane, real(0));
    });
    sweep([&](Expr j, Expr lane) {
      Expr place = j + row * schedule_.keys, score = load(p_, place);
      if (plan_.mask) {
        score = b_.let("score", masked(score, with(here, plan_.key, key + j)));
        b_.store(p_, place, score);
      }
      b_.store(best, lane, greater(load(best, lane), score));
    });
    tree(best, 0, greater);
    Expr before = b_.let("before", load(greatest_, integer(row)));
    Expr after = b_.let("after", greater(before, load(best, integer(0)))), taken = b_.let("taken", reference(after));
    Expr rescale = b_.let("rescale", exp(before - taken));
    sweep([&](Expr j, Expr lane) {
      Expr place = j + row * schedule_.keys, weight = b_.let("w", exp(load(p_, place) - taken));
      b_.store(p_, place, weight);
      b_.store(total, lane, load(total, lane) + weight);
    });
    tree(total, 0, [](Expr a, Expr c) { return a + c; });
    b_.store(greatest_, integer(row), after);
    b_.store(rescale_, integer(row), rescale);
    b_.store(sum_, integer(row), fma(load(sum_, integer(row)), rescale, load(total, integer(0))));
  }

  void weigh_values(const VarMap &at, Expr key, Expr count) {
    int64_t cols = int64_t{schedule_.value_vectors} * width_;
    for (int64_t e = 0; e < plan_.value_size; e += cols)
      for (int64_t row = 0; row < rows_; row += schedule_.value_rows)
        value_tile(at, row, static_cast<int>(std::min<int64_t>(schedule_.value_rows, rows_ - row)), e,
                   std::min(cols, value_stride_ - e), key, count);
  }

  void value_tile(const VarMap &at, int64_t first_row, int rows, int64_t e, int64_t cols, Expr key, Expr count) {
    TileContract tile;
    tile.rows = rows;
    tile.cols = static_cast<int>(cols);
    tile.width = width_;
    tile.unroll = 4;
    tile.extent = count;
    tile.acc = b_.registers("o", plan_.accumulator, rows * cols);
    auto each = [&](const std::function<void(Expr, Expr, int64_t)> &f) { // (register, place in O, row)
      for (int row = 0; row < rows; ++row)
        for (int64_t first = 0; first < cols; first += width_)
          b_.vector("v", integer(width_), width_, [&](Expr lane) {
            f(lane + (row * cols + first), lane + ((first_row + row) * value_stride_ + e + first), first_row + row);
          });
    };
    each([&](Expr acc, Expr place, int64_t row) {
      b_.store(tile.acc, acc, load(out_, place) * load(rescale_, integer(row)));
    });
    b_.contract_vars(tile);
    Expr row = context().var(tile.row), col = context().var(tile.col), k = context().var(tile.k);
    tile.a = p_;
    tile.a_index = (row + first_row) * schedule_.keys + k;
    Source b = values_ ? Source{values_, k * value_stride_ + e + col}
                       : source(plan_.v, with(with(at, plan_.key, key + k), plan_.element, col + e));
    tile.b = b.buffer;
    tile.b_index = b.index;
    tile.prefetch_distance = values_ ? 0 : prefetch_distance(plan_.v);
    if (!values_ && plan_.value_size - e < cols)
      tile.b_col_limit = integer(plan_.value_size - e);
    b_.contract(tile);
    each([&](Expr acc, Expr place, int64_t) { b_.store(out_, place, load(tile.acc, acc)); });
  }

  void store_part(const VarMap &at, Expr parts) {
    Expr head = at.at(plan_.batch) * plan_.key_heads + at.at(plan_.key_head);
    Expr first = b_.let("part", (head * parts + at.at(part_)) * (rows_ * part_size_));
    for (int64_t row = 0; row < rows_; ++row) {
      each_value(row, [&](Expr place, Expr e) { b_.store(parts_, first + row * part_size_ + e, load(out_, place)); });
      b_.store(parts_, first + (row * part_size_ + value_stride_), load(greatest_, integer(row)));
      b_.store(parts_, first + (row * part_size_ + value_stride_ + 1), load(sum_, integer(row)));
    }
  }

  void finish(const VarMap &at) {
    Buffer *out = frame_.result(plan_.anchor.result(0));
    for (int64_t row = 0; row < rows_; ++row) {
      VarMap here = at_row(at, row);
      Expr sum = b_.let("sum", load(sum_, integer(row)));
      Expr inverse = b_.let("inverse", select(eq(sum, real(0)), real(0), real(1) / sum));
      for (int64_t first = 0; first < plan_.value_size; first += width_)
        lanes(integer(first), integer(plan_.value_size), [&](Expr e) {
          Expr value = load(out_, e + row * value_stride_) * inverse;
          b_.store(out, frame_.emit(plan_.out_index, with(here, plan_.element, e)),
                   value.dtype() == out->dtype ? value : cast(value, out->dtype));
        });
      if (plan_.logsumexp_index)
        b_.store(frame_.result(plan_.anchor.result(1)), frame_.emit(plan_.logsumexp_index, here),
                 select(eq(sum, real(0)), real(0), load(greatest_, integer(row)) + log(sum)));
    }
  }

  int64_t queries_, rows_, value_stride_, part_size_;
  Var *part_ = nullptr;
  Buffer *q_ = nullptr, *p_ = nullptr, *greatest_ = nullptr, *sum_ = nullptr, *rescale_ = nullptr, *out_ = nullptr;
  Buffer *keys_ = nullptr, *values_ = nullptr, *parts_ = nullptr;
};

} // namespace

void emit_attention_rows(const AttentionPlan &plan, const AttentionSchedule &schedule, const Evaluator &evaluator,
                         LoweredGroup &lowered) {
  Rows(plan, schedule, evaluator, "attention_rows").run(lowered);
  if (schedule.split)
    Rows(plan, schedule, evaluator, "attention_join").join(lowered);
}

} // namespace oxyfuel
