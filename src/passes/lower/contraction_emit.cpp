// The product: tasks over batches, rows and panels; in each a few register tiles, each followed by its epilogue.
//
// Rows of the innermost row axis are cut evenly when their number is known (128 rows at most 14 high are 8 tiles of 13
// and 2 of 12); else into full tiles and, for the rest, tiles of 8, 4, 2 and 1. Columns past the last one are zeros in
// panels and are masked off where B is read as it lies.
#include <algorithm>

#include "ops/op.h"
#include "passes/lower/contraction.h"
#include "support/error.h"

namespace oxyfuel {
namespace {

using loop::TileContract;
using VarMap = KernelFrame::VarMap;
using Kind = ContractionSchedule::Kind;

/// Nodes of an epilogue up to which it is copied out for each row; longer ones run as a loop over rows of the tile in
/// memory.
constexpr size_t kUnrolledNodes = 24;

/// Of the epilogue; functions count as what they become.
size_t count_nodes(const ContractionPlan &plan) {
  constexpr size_t kFunctionNodes = 20;
  size_t count = 0;
  std::vector<Expr> stack;
  for (const auto &root : plan.roots)
    stack.push_back(root.element);
  std::unordered_map<const ExprNode *, bool> seen;
  while (!stack.empty()) {
    Expr e = stack.back();
    stack.pop_back();
    if (!seen.emplace(e.node(), true).second)
      continue;
    count += e.kind() >= ExprKind::kExp && e.kind() <= ExprKind::kHostCall ? kFunctionNodes : 1;
    for (int i = 0; i < e->operand_count; ++i)
      stack.push_back(e.operand(i));
  }
  return count;
}

class ContractionEmitter {
public:
  ContractionEmitter(const graph::Node &group, const Evaluator &evaluator, const ContractionPlan &plan,
                     const ContractionSchedule &schedule)
      : plan_(plan), schedule_(schedule), frame_(group, std::string(plan.node->op->name)), builder_(frame_.builder()) {
    frame_.use_inputs(evaluator);
    a_ = source(plan.a);
    b_ = source(plan.b);
    accumulator_ = plan.accumulator;
    is_plain_ = plan.is_plain();
    is_staged_ = is_depth() || sums_in_chunks() || count_nodes(plan) > kUnrolledNodes ||
                 std::any_of(plan.roots.begin(), plan.roots.end(), [&](const auto &root) {
                   return stride_in(root.store_index, plan.col.var) != 1; // a store of each lane for itself is long too
                 });
  }

  void run(LoweredGroup &lowered) {
    frame_.kernel().grain = schedule_.grain;
    rows_ = emit(plan_.rows.back().extent);
    cols_ = emit(plan_.col.extent);
    outer_rows_ = context().integer(1);
    for (size_t i = 0; i + 1 < plan_.rows.size(); ++i)
      outer_rows_ = outer_rows_ * emit(plan_.rows[i].extent);
    tiles_ = ceil_div(rows_, schedule_.rows);
    std::vector<Expr> extents;
    for (const ContractionAxis &axis : plan_.batch)
      extents.push_back(emit(axis.extent));
    Expr row_blocks = ceil_div(outer_rows_, schedule_.outer_rows), tile_blocks = ceil_div(tiles_, schedule_.row_tiles);
    Expr panels = ceil_div(cols_, block());
    size_t first = extents.size();
    if (schedule_.is_panel_outer)
      extents.insert(extents.end(), {panels, row_blocks, tile_blocks});
    else
      extents.insert(extents.end(), {row_blocks, tile_blocks, panels});
    Expr tasks = context().integer(1);
    for (Expr extent : extents)
      tasks = tasks * extent;
    builder_.task("t", tasks, [&](Expr task) {
      std::vector<Expr> places(extents.size());
      Expr rest = task;
      for (size_t i = extents.size(); i-- > 0;) {
        places[i] = builder_.let("p", i == 0 ? rest : floor_mod(rest, extents[i]));
        if (i > 0)
          rest = floor_div(rest, extents[i]);
      }
      VarMap vars;
      for (size_t i = 0; i < plan_.batch.size(); ++i)
        vars[plan_.batch[i].var] = places[i];
      bool outer = schedule_.is_panel_outer;
      emit_task(vars, places[first + (outer ? 1 : 0)], places[first + (outer ? 2 : 1)],
                places[first + (outer ? 0 : 2)]);
    });
    frame_.finish(lowered);
  }

private:
  ExprContext &context() { return frame_.context(); }
  Expr emit(Expr e, const VarMap &vars = {}) { return frame_.emit(e, vars); }
  Expr number(int64_t value) { return context().integer(value); }

  Buffer *source(const ContractionOperand &operand) {
    if (operand.source.kind == BufferReference::Kind::kOperand)
      return frame_.operand(operand.source.index);
    Buffer *buffer = frame_.temporary(operand.source.index, operand.dtype, false);
    buffer->is_unaliased = true;
    buffer->alignment = 64;
    return buffer;
  }

  void emit_task(VarMap &vars, Expr row_block, Expr tile_block, Expr panel) {
    panel_ = panel;
    Expr first_row = row_block * schedule_.outer_rows, first_tile = tile_block * schedule_.row_tiles;
    Expr row_count = schedule_.outer_rows == 1 ? number(1) : min(number(schedule_.outer_rows), outer_rows_ - first_row);
    Expr tile_count = schedule_.row_tiles == 1 ? number(1) : min(number(schedule_.row_tiles), tiles_ - first_tile);
    auto loop = [&](const char *name, Expr begin, Expr count, const std::function<void(Expr)> &body) {
      if (count.is_const(1))
        return body(begin);
      builder_.serial(name, begin, count, 1, body);
    };
    auto each_tile = [&](const std::function<void(Expr tile, Expr number_in_task)> &body) {
      loop("q", first_row, row_count, [&](Expr q) {
        Expr rest = q;
        for (size_t i = plan_.rows.size() - 1; i-- > 0;) {
          Expr extent = emit(plan_.rows[i].extent);
          vars[plan_.rows[i].var] = builder_.let("q", i == 0 ? rest : floor_mod(rest, extent));
          if (i > 0)
            rest = floor_div(rest, extent);
        }
        loop("m", first_tile, tile_count,
             [&](Expr tile) { body(tile, (q - first_row) * schedule_.row_tiles + tile - first_tile); });
      });
    };
    if (schedule_.is_depth_outer && sums_in_chunks())
      return emit_depth_outer(vars, each_tile);
    each_tile([&](Expr tile, Expr) {
      if (is_staged_)
        stage_ = builder_.scratch("tile", accumulator_, schedule_.rows * block());
      emit_rows(vars, tile);
    });
  }

  /// Chunk by chunk of the depth, so that a chunk of B serves all tiles of the task while it is in the cache; the sums
  /// of all tiles lie in the stage meanwhile.
  void emit_depth_outer(VarMap &vars, const std::function<void(const std::function<void(Expr, Expr)> &)> &each_tile) {
    int64_t size = schedule_.rows * schedule_.cols, count = schedule_.outer_rows * schedule_.row_tiles;
    stage_ = builder_.scratch("sums", accumulator_, size * count);
    builder_.serial("z", number(0), number(size * count), schedule_.width, [&](Expr start) {
      builder_.vector("v", number(schedule_.width), schedule_.width,
                      [&](Expr lane) { builder_.store(stage_, start + lane, context().constant(0, accumulator_)); });
    });
    Expr column = panel_ * schedule_.cols;
    each_chunk(vars, [&](const Sum &sum) {
      each_tile([&](Expr tile, Expr place) {
        place_rows(tile, [&](Expr start, int64_t height) {
          start_ = start, height_ = height;
          add_chunk(place * size + start * schedule_.cols, [&](Buffer *acc) { sum(acc, column); });
        });
      });
    });
    each_tile([&](Expr tile, Expr place) { emit_stage(vars, place_rows(tile, nullptr), place * size); });
  }

  bool is_depth() const { return schedule_.kind == Kind::kDepth; }
  /// Columns of a task.
  int64_t block() const { return is_depth() ? schedule_.column_block : schedule_.cols; }

  /// The rows of tile number `tile`. Its sums go through memory when the epilogue is long, so that it exists once.
  void emit_rows(const VarMap &vars, Expr tile) {
    Expr count = place_rows(tile, [&](Expr start, int64_t height) { emit_tile(vars, start, height); });
    if (is_staged_)
      emit_stage(vars, count, number(0));
  }

  /// Results of `count` rows, whose sums begin at `first` of the stage.
  void emit_stage(const VarMap &vars, Expr count, Expr first) {
    builder_.serial("r", number(0), count, 1, [&](Expr row) {
      emit_row(vars, stage_, row, first + row * block(), panel_ * block(), block(), true);
    });
  }

  /// Finds the first row of tile number `tile`, and gives their number. `body` gets parts of a fixed height, with
  /// their first row counted from that of the tile.
  Expr place_rows(Expr tile, const std::function<void(Expr start, int64_t height)> &body) {
    if (auto extent = rows_.constant()) {
      int64_t tiles = (*extent + schedule_.rows - 1) / schedule_.rows;
      if (tiles == 0)
        return first_row_ = number(0);
      int64_t low = *extent / tiles, tall = *extent % tiles;
      first_row_ = builder_.let("row", tile * low + (tall ? min(tile, number(tall)) : number(0)));
      if (!tall) {
        if (body)
          body(number(0), low);
        return number(low);
      }
      Expr is_tall = tile < number(tall);
      if (body)
        builder_.branch(is_tall, [&] { body(number(0), low + 1); }, [&] { body(number(0), low); });
      return select(is_tall, number(low + 1), number(low));
    }
    first_row_ = builder_.let("row", tile * schedule_.rows);
    Expr count = builder_.let("rows", min(number(schedule_.rows), rows_ - first_row_));
    if (body)
      builder_.branch(
          number(schedule_.rows) <= count, [&] { body(number(0), schedule_.rows); },
          [&] {
            int64_t height = 1;
            while (height * 2 < schedule_.rows)
              height *= 2;
            for (; height >= 1 && schedule_.rows > 1; height /= 2)
              builder_.branch(eq(floor_mod(floor_div(count, height), 2), number(1)),
                              [&] { body(builder_.let("part", count - floor_mod(count, 2 * height)), height); });
          });
    return count;
  }

  /// `height` rows, `start` rows below the first of the tile.
  void emit_tile(VarMap vars, Expr start, int64_t height) {
    start_ = start;
    height_ = height;
    if (is_depth())
      return emit_depth_tile(vars);
    int64_t cols = schedule_.cols;
    Expr column = panel_ * cols;
    if (sums_in_chunks())
      return emit_deep_tile(vars, column);
    Buffer *acc = builder_.registers("acc", accumulator_, height * cols);
    clear(acc, height * cols);
    loop_over_depth(vars, 0, [&] { contract_columns(vars, acc, column, {}, {}); });
    if (is_staged_)
      each_vector(height * cols, [&](Expr at) { builder_.store(stage_, start * cols + at, context().load(acc, at)); });
    else
      builder_.unroll("r", height,
                      [&](Expr row) { emit_row(vars, acc, start + row, row * cols, column, cols, false); });
  }

  /// Long float sums are cut into chunks, so that their rounding errors grow no faster than a library's.
  bool sums_in_chunks() const {
    if (!is_plain_ || !is_float(accumulator_) || size_of(plan_.a.dtype) < 4)
      return false;
    int64_t products = 1;
    for (const auto &axis : plan_.depth)
      products *= hint_of(axis.extent).value_or(kDepthChunk);
    return products > kDepthChunk + kDepthChunk / 2;
  }

  /// Adds the products of a chunk of the depth in one tile to accumulators.
  using Sum = std::function<void(Buffer *acc, Expr column)>;

  /// The tile's sums lie in the stage.
  void emit_deep_tile(VarMap &vars, Expr column) {
    int64_t size = height_ * schedule_.cols;
    Expr first = start_ * schedule_.cols;
    each_vector(size, [&](Expr at) { builder_.store(stage_, first + at, context().constant(0, accumulator_)); });
    each_chunk(vars, [&](const Sum &sum) { add_chunk(first, [&](Buffer *acc) { sum(acc, column); }); });
  }

  /// Accumulators start at zero for each chunk, and are added to the sums at `first` of the stage.
  void add_chunk(Expr first, const std::function<void(Buffer *)> &sum) {
    int64_t size = height_ * schedule_.cols;
    Buffer *acc = builder_.registers("acc", accumulator_, size);
    clear(acc, size);
    sum(acc);
    each_vector(size, [&](Expr at) {
      builder_.store(stage_, first + at, context().load(stage_, first + at) + context().load(acc, at));
    });
  }

  /// Loops over chunks of the depth.
  void each_chunk(VarMap &vars, const std::function<void(const Sum &)> &body) {
    size_t level = plan_.depth.size() - 1;
    int64_t products = hint_of(plan_.depth[level].extent).value_or(kDepthChunk);
    while (products < kDepthChunk / 2 && level > 0)
      products *= hint_of(plan_.depth[--level].extent).value_or(1);
    auto all_inner = [&] {
      if (level + 1 < plan_.depth.size())
        return body([&](Buffer *acc, Expr column) {
          loop_over_depth(vars, level, [&] { contract_columns(vars, acc, column, {}, {}); });
        });
      Expr extent = emit(plan_.depth.back().extent);
      Expr main = extent - floor_mod(extent, number(kDepthChunk));
      if (!main.is_const(0))
        builder_.serial("c", number(0), main, kDepthChunk, [&](Expr c) {
          body([&](Buffer *acc, Expr column) { contract_columns(vars, acc, column, c, number(kDepthChunk)); });
        });
      if (Expr rest = extent - main; !rest.is_const(0))
        body([&](Buffer *acc, Expr column) { contract_columns(vars, acc, column, main, rest); });
    };
    if (level == 0)
      all_inner();
    else
      outer_depth(vars, 0, level, all_inner);
  }

  void outer_depth(VarMap &vars, size_t first, size_t end, const std::function<void()> &body) {
    if (first == end)
      return body();
    builder_.serial(plan_.depth[first].var->name, number(0), emit(plan_.depth[first].extent), 1, [&](Expr place) {
      vars[plan_.depth[first].var] = place;
      outer_depth(vars, first + 1, end, body);
    });
  }

  void each_vector(int64_t elements, const std::function<void(Expr)> &body) {
    int width = schedule_.width;
    builder_.unroll("u", elements / width, [&](Expr u) {
      builder_.vector("v", number(width), width, [&](Expr lane) { body(u * width + lane); });
    });
  }
  void clear(Buffer *buffer, int64_t elements) {
    each_vector(elements, [&](Expr at) { builder_.store(buffer, at, context().constant(0, buffer->dtype)); });
  }

  void loop_over_depth(VarMap &vars, size_t first, const std::function<void()> &body) {
    if (first + 1 >= plan_.depth.size())
      return body();
    builder_.serial(plan_.depth[first].var->name, number(0), emit(plan_.depth[first].extent), 1, [&](Expr place) {
      vars[plan_.depth[first].var] = place;
      loop_over_depth(vars, first + 1, body);
    });
  }

  Expr a_index(VarMap vars, Expr row, Expr k) {
    vars[plan_.rows.back().var] = first_row_ + start_ + row;
    vars[plan_.depth.back().var] = k;
    return emit(plan_.a.flat, vars);
  }
  Expr b_index(VarMap vars, Expr column, Expr col, Expr k) {
    vars[plan_.depth.back().var] = k;
    if (schedule_.kind == Kind::kPacked) {
      vars[plan_.col.var] = column;
      return emit(plan_.b.flat, vars) + col;
    }
    vars[plan_.col.var] = column + col;
    return emit(plan_.b.flat, vars);
  }

  TileContract tile(Buffer *acc, int cols, Expr extent) {
    TileContract contract;
    contract.acc = acc;
    contract.rows = static_cast<int>(height_);
    contract.cols = cols;
    contract.width = schedule_.width;
    contract.unroll = schedule_.unroll;
    contract.depth_pack = schedule_.depth_pack;
    contract.a = a_;
    contract.b = b_;
    contract.extent = extent;
    builder_.contract_vars(contract);
    return contract;
  }

  /// The products of the innermost depth axis from `begin` on (empty: all of them).
  void contract_columns(const VarMap &vars, Buffer *acc, Expr column, Expr begin, Expr count) {
    Expr extent = begin ? count : emit(plan_.depth.back().extent);
    if (!is_plain_)
      return contract_scalars(vars, acc, column, extent);
    TileContract contract = tile(acc, schedule_.cols, extent);
    Expr k = context().var(contract.k);
    contract.a_index = a_index(vars, context().var(contract.row), begin ? begin + k : k);
    contract.b_index = b_index(vars, column, context().var(contract.col), begin ? begin + k : k);
    if (schedule_.kind == Kind::kDirect)
      contract.b_col_limit = cols_ - column;
    contract.prefetch_distance = schedule_.prefetch;
    builder_.contract(std::move(contract));
  }

  /// Types that the tile step does not have: complex numbers, bool.
  void contract_scalars(const VarMap &vars, Buffer *acc, Expr column, Expr extent) {
    builder_.serial("k", number(0), extent, 1, [&](Expr k) {
      builder_.unroll("r", height_, [&](Expr row) {
        int width = schedule_.width;
        for (int64_t start = 0; start < schedule_.cols; start += width) {
          Expr lanes = schedule_.kind == Kind::kPacked ? number(width) : min(number(width), cols_ - column - start);
          builder_.vector("v", lanes, width, [&](Expr lane) {
            Expr at = row * schedule_.cols + start + lane;
            Expr a = cast(context().load(a_, a_index(vars, row, k)), accumulator_);
            Expr b = cast(context().load(b_, b_index(vars, column, lane + start, k)), accumulator_);
            Expr sum = context().load(acc, at);
            builder_.store(acc, at, is_bool(accumulator_) ? sum || (a && b) : sum + a * b);
          });
        }
      });
    });
  }

  /// Results of one row of a tile: element `start + c` of `sums` is that of column `column + c`.
  void emit_row(VarMap vars, const Buffer *sums, Expr row, Expr start, Expr column, int64_t cols, bool is_loop) {
    vars[plan_.rows.back().var] = first_row_ + row;
    int width = schedule_.width;
    auto kind = is_loop ? loop::For::Kind::kSerial : loop::For::Kind::kUnroll;
    builder_.loop(kind, "u", number(0), number(cols / width), 1, 1, [&](Expr u) {
      Expr left = cols_ - column - u * width;
      builder_.vector("v", min(number(width), left), width, [&](Expr lane) {
        VarMap all = vars;
        all[plan_.col.var] = column + u * width + lane;
        all[plan_.value] = cast(context().load(sums, start + u * width + lane), plan_.value->dtype);
        for (const auto &check : plan_.checks)
          builder_.check(emit(check.condition, all), check.status);
        for (const auto &root : plan_.roots)
          builder_.store(frame_.result(root.result), emit(root.store_index, all), emit(root.element, all));
      });
    });
  }

  /// Columns in groups of `schedule.cols`, each accumulator a vector of partial sums.
  void emit_depth_tile(VarMap &vars) {
    int64_t block = schedule_.column_block, cols = schedule_.cols, width = schedule_.depth_width;
    Expr first = panel_ * block;
    builder_.serial("j", number(0), min(number(block), cols_ - first), cols, [&](Expr j) {
      int64_t count = height_ * cols;
      Buffer *acc = builder_.registers("acc", accumulator_, count * width);
      clear(acc, count * width);
      loop_over_depth(vars, 0, [&] {
        TileContract contract = tile(acc, static_cast<int>(cols), emit(plan_.depth.back().extent));
        contract.lanes = TileContract::Lanes::kDepth;
        contract.width = schedule_.depth_width;
        Expr k = context().var(contract.k);
        contract.a_index = a_index(vars, context().var(contract.row), k);
        contract.b_index = b_index(vars, first + j, context().var(contract.col), k);
        if (cols > 1)
          contract.b_col_limit = cols_ - first - j;
        contract.prefetch_distance = schedule_.prefetch;
        builder_.contract(std::move(contract));
      });
      builder_.unroll("s", count, [&](Expr s) {
        for (int64_t half = width / 2; half >= 1; half /= 2) {
          auto lanes = std::min<int64_t>(half, schedule_.width);
          for (int64_t start = 0; start < half; start += lanes)
            builder_.vector("v", number(lanes), static_cast<int>(lanes), [&](Expr lane) {
              Expr at = s * width + start + lane;
              builder_.store(acc, at, context().load(acc, at) + context().load(acc, at + half));
            });
        }
      });
      builder_.unroll("r", height_, [&](Expr row) {
        builder_.unroll("c", cols, [&](Expr col) {
          builder_.store(stage_, (start_ + row) * block + j + col, context().load(acc, (row * cols + col) * width));
        });
      });
    });
  }

  const ContractionPlan &plan_;
  const ContractionSchedule &schedule_;
  KernelFrame frame_;
  loop::Builder &builder_;
  Buffer *a_ = nullptr, *b_ = nullptr;
  DType accumulator_ = DType::kF32;
  bool is_plain_ = true, is_staged_ = false;
  Expr rows_, cols_, outer_rows_, tiles_, panel_;
  Buffer *stage_ = nullptr;
  Expr first_row_;     // of the tile being emitted
  Expr start_;         // row of the tile that is emitted now
  int64_t height_ = 0; // rows from there
};

} // namespace

void emit_contraction(const graph::Node &group, const Evaluator &evaluator, const ContractionPlan &plan,
                      const ContractionSchedule &schedule, LoweredGroup &lowered) {
  ContractionEmitter(group, evaluator, plan, schedule).run(lowered);
}

} // namespace oxyfuel
