// Heuristics of attention schedules.
#include "schedule/attention_schedule.h"

#include <algorithm>

namespace oxyfuel {
namespace {

constexpr int64_t kBlockQueries = 64; // scores of a block of keys then fit the second cache, those of a tile the first
constexpr int64_t kBlockKeys = 256;
constexpr int64_t kWholeKeys = 512;       // up to this many keys are one block, which needs no rescaling
constexpr int64_t kMostRows = 16;         // queries of a group that are worth a pass over keys and values of their own
constexpr int64_t kSplitKeys = 512;       // keys that keep a task busy for some 10 µs at the memory's speed
constexpr int64_t kManyHeads = 16;        // tasks that are enough without a split
constexpr int64_t kTaskOperations = 1024; // vector operations that outweigh the claim of a task

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// The tile height up to `most` that wastes the fewest rows of `count`, the highest of these; not under two thirds of
/// `most`.
int best_rows(int64_t count, int most) {
  int best = most;
  for (int rows = most; 3 * rows >= 2 * most; --rows)
    if (ceil_div(count, rows) * rows < ceil_div(count, best) * best)
      best = rows;
  return best;
}

} // namespace

AttentionSchedule choose(const AttentionProblem &problem, const Machine &machine) {
  AttentionSchedule schedule;
  bool is_large = machine.vector_registers >= 32;
  schedule.width = std::max(1, machine.lanes(problem.accumulator_bytes));
  int64_t value_vectors = ceil_div(problem.value_size, schedule.width);
  int64_t column_tiles = ceil_div(value_vectors, is_large ? 4 : 2);
  schedule.value_vectors = static_cast<int>(ceil_div(value_vectors, column_tiles));
  int accumulators = is_large ? 24 : 12;
  schedule.value_rows = std::min(is_large ? 12 : 8, accumulators / schedule.value_vectors);

  int64_t rows = problem.group * problem.queries;
  schedule.is_rows = problem.has_static_queries && problem.queries <= 4 && rows <= kMostRows && !problem.is_causal &&
                     (problem.has_unit_key_stride || !problem.can_read_keys);
  // Where every element is read for many queries, conversion is worth a copy.
  schedule.copies_keys = !problem.can_read_keys || (problem.is_narrow && !schedule.is_rows);
  schedule.copies_values = !problem.can_read_values || (problem.is_narrow && !schedule.is_rows);
  if (schedule.is_rows) {
    schedule.score_rows = static_cast<int>(std::min<int64_t>(rows, is_large ? 4 : 2));
    schedule.score_cols = 4;
    schedule.value_rows = static_cast<int>(std::min<int64_t>(rows, schedule.value_rows));
    schedule.keys = problem.has_static_keys ? std::min(problem.keys, kBlockKeys) : kBlockKeys;
    schedule.keys = ceil_div(schedule.keys, schedule.width) * schedule.width;
    if (problem.heads < kManyHeads && (!problem.has_static_keys || problem.keys > kSplitKeys))
      schedule.split = kSplitKeys;
    int64_t keys = schedule.split ? std::min(schedule.split, problem.keys) : problem.keys;
    schedule.grain = std::max<int64_t>(
        1, kTaskOperations / std::max<int64_t>(1, rows * keys * (problem.size + problem.value_size) / schedule.width));
    return schedule;
  }
  schedule.score_cols = 2;
  schedule.score_rows = accumulators / 2;
  schedule.queries = kBlockQueries;
  if (problem.has_static_queries && problem.queries < kBlockQueries)
    schedule.queries = ceil_div(problem.queries, schedule.width) * schedule.width;
  if (schedule.queries <= schedule.width)
    schedule.score_cols = 1;
  schedule.keys = kBlockKeys;
  if (problem.has_static_keys && problem.keys <= kWholeKeys) {
    schedule.keys = std::max<int64_t>(1, problem.keys);
    schedule.score_rows =
        static_cast<int>(std::min<int64_t>(best_rows(problem.keys, schedule.score_rows), schedule.keys));
  }
  schedule.value_rows = best_rows(schedule.queries, schedule.value_rows);
  int64_t work =
      std::min(problem.queries, schedule.queries) * problem.keys * (problem.size + problem.value_size) / schedule.width;
  schedule.grain = std::max<int64_t>(1, kTaskOperations / std::max<int64_t>(1, work));
  return schedule;
}

std::string AttentionSchedule::text() const {
  std::string text = std::string("attention {") + (is_rows ? "rows" : "blocks") + ", width = " + std::to_string(width) +
                     ", scores = " + std::to_string(score_rows) + "x" + std::to_string(score_cols) +
                     ", values = " + std::to_string(value_rows) + "x" + std::to_string(value_vectors);
  if (!is_rows)
    text += ", queries = " + std::to_string(queries);
  text += ", keys = " + std::to_string(keys);
  if (split)
    text += ", split = " + std::to_string(split);
  return text + (copies_keys ? ", copies keys" : "") + (copies_values ? ", copies values" : "") +
         ", grain = " + std::to_string(grain) + "}";
}

} // namespace oxyfuel
