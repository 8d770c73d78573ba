// The heuristic for contractions: a cost model of register tiles and of what the caches hold.
#include "schedule/contraction_schedule.h"

#include <algorithm>
#include <array>
#include <sstream>

#include "support/error.h"

namespace oxyfuel {
namespace {

using Kind = ContractionSchedule::Kind;

/// Rows up to which B, with its depth contiguous, is read as it lies: that is bound by memory, and a packed copy would
/// not be read any faster. Weights that stay in the caches (those of a time step, say) are not: there a panel is faster
/// from the third row on, as each of its vectors is loaded once for all rows.
constexpr int64_t kDepthRows = 8, kDepthRowsOfWeights = 4, kDepthRowsOfCachedWeights = 2;
/// Rows of A that lie a multiple of 4 KB apart are in the same set of the first cache, which has 8 places for them and
/// for B.
constexpr int kSetPlaces = 6;
/// Floating-point operations of a task: some tens of microseconds on one core, so that a thread that loses its core
/// costs little.
constexpr int64_t kTaskFlops = 6'000'000;
/// Small problems are cut into about as many tasks, of at least so much work.
constexpr int64_t kFewestTasks = 16, kLeastTaskFlops = 300'000;
/// Least work of one claim: some microseconds.
constexpr int64_t kClaimFlops = 600'000;
constexpr int64_t kFirstCacheBytes = 32 << 10;
/// Tiles of a task that share each chunk of a long panel.
constexpr int64_t kTilesOfChunk = 16;
/// Bytes of B that a task of a memory-bound contraction reads, likewise.
constexpr int64_t kTaskBytes = 256 << 10;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

struct Tile {
  int rows = 1, vectors = 1;
};

/// Half a cycle a fused multiply-add (two a cycle), but no less than their latency of four and a little; a tile of
/// `rows` x `vectors` registers needs that many accumulators, a register for each vector of B and one for the broadcast
/// element of A. What starts and ends a tile costs about as much as a few steps of depth. A line of B from the second
/// cache costs a little.
constexpr double kLineCycles = 0.4;
double tile_cycles(int rows, int vectors, int vector_bytes, double depth) {
  double step = std::max({rows * vectors * 0.5, (rows + vectors) * 0.5, 5.0});
  return (step + vectors * vector_bytes * kLineCycles / 64) * depth + 20 + 2.0 * rows * vectors;
}

Tile choose_tile(const ContractionProblem &problem, const Machine &machine, int lanes) {
  Tile best;
  double least = 0;
  double depth = static_cast<double>(std::max<int64_t>(1, problem.outer_depth * problem.depth));
  bool rows_collide = problem.a_row_stride && *problem.a_row_stride * problem.element_bytes % 4096 == 0;
  for (int vectors : {2, 3, 4, 1}) {
    // Beside the vectors of B: the broadcast element of A, and with a single vector the two in flight that LLVM keeps.
    int others = vectors == 1 ? 3 : 1;
    int rows = std::max(1, (machine.vector_registers - vectors - others) / vectors);
    rows = std::min(rows, rows_collide && problem.rows > 8 ? kSetPlaces : 14);
    int64_t tiles = ceil_div(std::max<int64_t>(1, problem.rows), rows);
    int64_t low = problem.rows / tiles, high_tiles = problem.rows - low * tiles;
    double cycles =
        static_cast<double>(tiles - high_tiles) *
            tile_cycles(static_cast<int>(low), vectors, machine.vector_bytes, depth) +
        static_cast<double>(high_tiles) * tile_cycles(static_cast<int>(low) + 1, vectors, machine.vector_bytes, depth);
    cycles *= static_cast<double>(ceil_div(problem.cols, int64_t{vectors} * lanes));
    if (least == 0 || cycles < least) {
      least = cycles;
      best = {rows, vectors};
    }
  }
  if (problem.has_static_rows) // the highest of even tiles
    best.rows = static_cast<int>(ceil_div(std::max<int64_t>(1, problem.rows), ceil_div(problem.rows, best.rows)));
  return best;
}

void choose_tasks(ContractionSchedule &schedule, const ContractionProblem &problem, const Machine &machine) {
  int64_t depth = std::max<int64_t>(1, problem.outer_depth * problem.depth);
  int64_t tiles = ceil_div(std::max<int64_t>(1, problem.rows), schedule.rows);
  int64_t panels = ceil_div(std::max<int64_t>(1, problem.cols), schedule.cols);
  int64_t tile_flops = 2 * schedule.rows * schedule.cols * depth;
  // Rows of A that stay in half of the second cache while panels of B pass by.
  int64_t row_bytes = std::max<int64_t>(1, problem.depth * problem.element_bytes);
  int64_t most = std::max<int64_t>(1, machine.l2_bytes / 2 / row_bytes / schedule.rows);
  int64_t flops = tile_flops * tiles * panels * problem.outer_rows * problem.batches;
  int64_t task = std::clamp(flops / kFewestTasks, kLeastTaskFlops, kTaskFlops);
  // Tiles take turns at each chunk of a depth whose panel is longer than the first cache: the chunk stays there for all
  // of them, while the panel would come from the second cache, or the third, once a tile.
  int64_t panel_bytes = depth * schedule.cols * problem.element_bytes;
  schedule.is_depth_outer = schedule.kind == Kind::kPacked && problem.is_plain && problem.accumulator_bytes == 4 &&
                            !problem.is_bfloat16 && tiles * problem.outer_rows > 1 && panel_bytes > kFirstCacheBytes;
  int64_t wanted = std::max<int64_t>(1, std::min(task / tile_flops, std::max<int64_t>(most, 4)));
  if (schedule.is_depth_outer)
    wanted = std::max(wanted, kTilesOfChunk);
  int64_t blocks = ceil_div(tiles, wanted);
  schedule.row_tiles = ceil_div(tiles, blocks);
  schedule.outer_rows = 1;
  if (blocks == 1 && problem.outer_rows > 1)
    schedule.outer_rows = std::clamp<int64_t>(wanted / std::max<int64_t>(1, tiles), 1, problem.outer_rows);
  int64_t a_bytes = problem.rows * problem.outer_rows * row_bytes;
  schedule.is_panel_outer = a_bytes <= machine.l2_bytes / 2 && panels > 1;
  int64_t task_flops = tile_flops * schedule.row_tiles * schedule.outer_rows;
  schedule.grain = std::max<int64_t>(1, kClaimFlops / std::max<int64_t>(1, task_flops));
}

ContractionSchedule choose_depth(const ContractionProblem &problem, const Machine &machine, int lanes) {
  ContractionSchedule schedule;
  schedule.kind = Kind::kDepth;
  schedule.width = lanes;
  schedule.rows = static_cast<int>(std::clamp<int64_t>(problem.rows, 1, kDepthRows));
  // One column at a time: B is then one stream through memory, which the processor fetches ahead better than several
  // short ones (34 against 22 GB/s with rows of 3 KB). The sums of a column are spread over as many registers as hide
  // the latency.
  schedule.cols = 1;
  int registers = machine.vector_registers / 2 / schedule.rows;
  int vectors = 8;
  auto fits = [&](int count) { return count <= registers && problem.depth >= count * lanes; };
  while (vectors > 1 && !(fits(vectors) && problem.depth % (vectors * lanes) == 0))
    vectors /= 2;
  if (vectors < 4) // a masked rest is better than a chain of dependent sums
    for (vectors = 4; vectors > 1 && !fits(vectors);)
      vectors /= 2;
  schedule.depth_width = vectors * lanes;
  schedule.unroll = vectors >= 4 ? 1 : 2;
  int64_t column_bytes = std::max<int64_t>(1, problem.depth * problem.outer_depth * problem.element_bytes);
  schedule.column_block = lanes;
  while (schedule.column_block < 4 * lanes && schedule.column_block * column_bytes < kTaskBytes &&
         schedule.column_block * 8 < problem.cols)
    schedule.column_block *= 2;
  schedule.row_tiles = ceil_div(std::max<int64_t>(1, problem.rows), schedule.rows);
  schedule.grain = std::max<int64_t>(1, kTaskBytes / (schedule.column_block * column_bytes));
  return schedule;
}

} // namespace

ContractionSchedule choose(const ContractionProblem &given, const Machine &machine) {
  ContractionProblem problem = given;
  for (int64_t *extent :
       {&problem.batches, &problem.outer_rows, &problem.rows, &problem.cols, &problem.outer_depth, &problem.depth})
    *extent = std::max<int64_t>(1, *extent); // an empty product takes any schedule
  int lanes = std::max(1, machine.lanes(std::max(4, problem.accumulator_bytes)));
  int64_t rows = problem.rows * problem.outer_rows;
  if (!problem.has_static_rows) // whatever the hint says, there may be many; a single row is known as such
    rows = std::max<int64_t>(rows, 16);
  if (problem.is_channelwise) {
    // A register for each pixel, and as many again for what they read.
    int64_t tiles = ceil_div(std::max<int64_t>(1, problem.rows), std::max(1, machine.vector_registers / 4));
    ContractionSchedule schedule;
    schedule.kind = Kind::kChannels;
    schedule.rows = static_cast<int>(ceil_div(std::max<int64_t>(1, problem.rows), tiles));
    schedule.width = schedule.cols = lanes;
    int64_t row_flops = 2 * problem.rows * problem.batches * problem.depth * problem.outer_depth;
    // Memory is the bound: a flop costs about four times as long as in a matrix product.
    schedule.grain = std::max<int64_t>(1, kClaimFlops / 4 / std::max<int64_t>(1, row_flops));
    return schedule;
  }
  bool reads_depth = problem.can_read_b && problem.b_depth_stride == 1 && problem.a_depth_stride == 1;
  bool is_cached = problem.cols * problem.outer_depth * problem.depth * problem.element_bytes <= 2 * machine.l2_bytes;
  int64_t few = !problem.is_packed_ahead ? kDepthRows : is_cached ? kDepthRowsOfCachedWeights : kDepthRowsOfWeights;
  if (problem.is_plain && reads_depth && rows <= few && problem.outer_rows == 1 && problem.depth >= 2 * lanes)
    return choose_depth(problem, machine, lanes);

  ContractionSchedule schedule;
  schedule.width = lanes;
  bool reads_columns = problem.can_read_b && problem.b_col_stride == 1;
  // Packing reads and writes all of B once, which a panel's shorter strides give back over some hundred rows, and pairs
  // of bfloat16 at once.
  bool has_dot = problem.is_bfloat16 && machine.has_bfloat16_dot && problem.a_depth_stride == 1;
  bool packs_cheaply = problem.is_packed_ahead ? rows > few : rows >= (has_dot ? 32 : 256) && problem.depth >= 32;
  schedule.kind = reads_columns && !packs_cheaply ? Kind::kDirect : Kind::kPacked;
  if (!problem.is_plain) {
    schedule.rows = static_cast<int>(std::min<int64_t>(2, std::max<int64_t>(1, problem.rows)));
    schedule.cols = lanes;
  } else {
    Tile tile = choose_tile(problem, machine, lanes);
    schedule.rows = tile.rows;
    schedule.cols = tile.vectors * lanes;
    if (problem.rows <= 2 && problem.cols >= 8 * lanes) // whole cache lines of B, several at a time
      schedule.cols = 4 * lanes;
    schedule.unroll = schedule.rows * (schedule.cols / lanes) <= 8 ? 4 : 2;
    schedule.depth_pack = schedule.kind == Kind::kPacked && has_dot ? 2 : 1;
  }
  choose_tasks(schedule, problem, machine);
  if (schedule.kind == Kind::kPacked && problem.is_packed_ahead && problem.is_plain)
    schedule.prefetch = schedule.is_depth_outer ? kDepthChunk * schedule.cols                          // the next chunk
                                                : problem.outer_depth * problem.depth * schedule.cols; // the next panel
  return schedule;
}

namespace {

constexpr std::array<const char *, 4> kKinds = {"packed", "direct", "depth", "channels"};

/// The fields of the text form, in order.
template <class S, class F> void each_field(S &s, const F &field) {
  field("rows", s.rows), field("cols", s.cols), field("width", s.width), field("unroll", s.unroll);
  field("depth_pack", s.depth_pack), field("row_tiles", s.row_tiles), field("outer_rows", s.outer_rows);
  field("column_block", s.column_block), field("depth_width", s.depth_width), field("panel_outer", s.is_panel_outer),
      field("depth_outer", s.is_depth_outer), field("prefetch", s.prefetch);
  field("grain", s.grain);
}

} // namespace

std::string ContractionSchedule::text() const {
  std::string text = std::string("contraction {kind = ") + kKinds[static_cast<size_t>(kind)];
  each_field(*this, [&](const char *name, auto value) {
    text += std::string(", ") + name + " = " + std::to_string(static_cast<int64_t>(value));
  });
  return text + "}";
}

ContractionSchedule ContractionSchedule::parse(const std::string &text) {
  std::string words = text;
  std::replace_if(words.begin(), words.end(), [](char c) { return c == '{' || c == '}' || c == ',' || c == '='; }, ' ');
  std::istringstream in(words);
  std::string word, value;
  ContractionSchedule schedule;
  if (!(in >> word) || word != "contraction")
    throw CompileError("a contraction schedule begins with `contraction {`: " + text);
  while (in >> word) {
    if (!(in >> value))
      throw CompileError("a contraction schedule gives no value for " + word);
    bool found = false;
    if (word == "kind") {
      auto kind = std::find(kKinds.begin(), kKinds.end(), value);
      found = kind != kKinds.end();
      schedule.kind = static_cast<Kind>(kind - kKinds.begin());
    }
    each_field(schedule, [&](const char *name, auto &field) {
      if (word != name)
        return;
      found = true;
      field = static_cast<std::remove_reference_t<decltype(field)>>(std::stoll(value));
    });
    if (!found)
      throw CompileError("a contraction schedule has no " + word + " = " + value);
  }
  return schedule;
}

} // namespace oxyfuel
