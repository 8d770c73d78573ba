// How attention runs: plain data with a text form. `choose` makes one from the sizes of the problem.
//
// Blocks: a task is a block of queries of one head. Lanes of scores are queries: q is packed as [head size][queries],
// keys are broadcast from where they lie, and what the softmax needs of a query stays in its lane. Rows: few queries,
// which share their keys; a task reads keys and values once, lanes of scores are a key's elements.
#pragma once

#include <cstdint>
#include <string>

#include "schedule/machine.h"

namespace oxyfuel {

/// What to emit; sizes in elements unless said otherwise.
struct AttentionSchedule {
  bool is_rows = false;
  int width = 16;                                  ///< lanes
  int score_rows = 12;                             ///< of a tile of scores: keys (blocks), queries (rows)
  int score_cols = 2;                              ///< of a tile of scores: vectors of queries (blocks), keys (rows)
  int value_rows = 6;                              ///< queries of a tile of results
  int value_vectors = 4;                           ///< of a tile of results, along the head size of the values
  int64_t queries = 64;                            ///< of a task (blocks)
  int64_t keys = 256;                              ///< whose scores are held at a time
  int64_t split = 0;                               ///< keys of a task (rows); 0: all
  bool copies_keys = false, copies_values = false; ///< into scratch memory, in the accumulator's type
  int64_t grain = 1;                               ///< tasks worth a claim

  /// For `explain` and tests.
  std::string text() const;
};

/// Sizes are at the hints of symbols.
struct AttentionProblem {
  int64_t heads = 1; ///< of keys, times batches
  int64_t group = 1; ///< query heads that share a key head
  int64_t queries = 1, keys = 1, size = 64, value_size = 64;
  bool has_static_queries = true, has_static_keys = true, is_causal = false;
  bool can_read_keys = true, can_read_values = true; ///< as they lie
  bool is_narrow = false;                            ///< keys and values are of a narrower type than the accumulator
  bool has_unit_key_stride = true;                   ///< along the head size
  int accumulator_bytes = 4;
};

/// The cost model's choice; the same for the same problem and machine.
AttentionSchedule choose(const AttentionProblem &problem, const Machine &machine);

} // namespace oxyfuel
