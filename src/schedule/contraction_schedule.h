// How a contraction runs: plain data with a text form. `choose` makes one from the sizes and strides of the problem.
//
// A contraction has batch axes, row axes (those of its operand A and the result), one column axis (that of B and the
// result) and depth axes (summed). The innermost row axis is cut into register tiles of `rows` rows, the column axis
// into panels of `cols` columns; a task is a few row tiles by one panel of one batch.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "schedule/machine.h"

namespace oxyfuel {

/// Products that are summed one after the other before the sum is put aside.
constexpr int64_t kDepthChunk = 256;

/// What to emit; sizes in elements unless said otherwise.
struct ContractionSchedule {
  enum class Kind : uint8_t {
    kPacked,   ///< B copied into panels [depth][cols], zeros past the last column; lanes along columns
    kDirect,   ///< B read as it lies; lanes along columns
    kDepth,    ///< both read as they lie; lanes along the depth, partial sums added as a tree
    kChannels, ///< lanes along the groups of a convolution of one channel each
  };
  Kind kind = Kind::kPacked;
  int rows = 1;                ///< of a register tile, at most
  int cols = 16;               ///< of a register tile
  int width = 16;              ///< lanes
  int unroll = 1;              ///< of the innermost depth loop
  int depth_pack = 1;          ///< consecutive depths of a column side by side in a panel
  int64_t row_tiles = 1;       ///< of the innermost row axis, a task
  int64_t outer_rows = 1;      ///< places on the other row axes, a task
  int64_t column_block = 0;    ///< kDepth: columns a task
  int depth_width = 16;        ///< kDepth: partial sums of one result, in as many registers as that takes
  bool is_panel_outer = false; ///< tasks that follow one another share a panel of B, else rows of A
  bool is_depth_outer = false; ///< chunks of a long depth are the outermost loop of a task, its tiles the inner one
  int64_t prefetch = 0;        ///< elements ahead in B
  int64_t grain = 1;           ///< tasks worth a claim

  /// All members, as `parse` reads them.
  std::string text() const;
  /// Reads what `text` writes. Throws CompileError.
  static ContractionSchedule parse(const std::string &text);
};

/// Sizes are at the hints of symbols.
struct ContractionProblem {
  int64_t batches = 1, outer_rows = 1, rows = 1, cols = 1;
  int64_t outer_depth = 1, depth = 1; ///< places on the outer depth axes, extent of the innermost
  bool has_static_rows = true;        ///< the innermost row axis has a constant extent
  bool is_packed_ahead = false;       ///< B is a weight: packing it costs nothing at a call
  bool is_b_shared = true;            ///< by all batches
  bool can_read_b = true;             ///< B lies somewhere, at strides
  std::optional<int64_t> a_row_stride, a_depth_stride, b_depth_stride,
      b_col_stride;            ///< of the innermost axes; empty: not constant
  int element_bytes = 4;       ///< of B
  int accumulator_bytes = 4;   ///< of the accumulator's type
  bool is_bfloat16 = false;    ///< both operands, into float32
  bool is_channelwise = false; ///< a convolution of one channel a group, channels side by side in memory
  bool is_plain = true;        ///< the tile step has the types (real numbers); else scalar loops
};

/// The cost model's choice; the same for the same problem and machine.
ContractionSchedule choose(const ContractionProblem &problem, const Machine &machine);

} // namespace oxyfuel
