// Schedules of contractions: the text form, and what the heuristic decides for problems of known kinds.
#include "schedule/contraction_schedule.h"

#include <gtest/gtest.h>

#include "support/error.h"

namespace oxyfuel {
namespace {

using Kind = ContractionSchedule::Kind;

Machine avx512() {
  Machine machine;
  machine.vector_bytes = 64;
  machine.vector_registers = 32;
  machine.has_masks = true;
  return machine;
}

/// x [rows, depth] times a weight [cols, depth] transposed.
ContractionProblem linear(int64_t rows, int64_t cols, int64_t depth) {
  ContractionProblem problem;
  problem.rows = rows, problem.cols = cols, problem.depth = depth;
  problem.is_packed_ahead = true;
  problem.a_row_stride = depth, problem.a_depth_stride = 1;
  problem.b_depth_stride = 1, problem.b_col_stride = depth;
  return problem;
}

TEST(ContractionSchedule, TextReadsBack) {
  for (int64_t rows : {1, 7, 128})
    for (int64_t depth : {5, 768, 4096}) {
      ContractionSchedule schedule = choose(linear(rows, 100, depth), avx512());
      EXPECT_EQ(ContractionSchedule::parse(schedule.text()).text(), schedule.text());
    }
  EXPECT_THROW(ContractionSchedule::parse("loops {}"), CompileError);
  EXPECT_THROW(ContractionSchedule::parse("contraction {speed = 3}"), CompileError);
  EXPECT_THROW(ContractionSchedule::parse("contraction {kind = fast}"), CompileError);
}

TEST(ContractionSchedule, TilesFillTheRegisters) {
  ContractionSchedule schedule = choose(linear(128, 768, 768), avx512());
  EXPECT_EQ(schedule.kind, Kind::kPacked);
  EXPECT_EQ(schedule.rows, 13); // 8 tiles of 13 rows and 2 of 12
  EXPECT_EQ(schedule.cols, 32);
  // Rows a multiple of 4 KB apart do not fit into one set of the first cache.
  schedule = choose(linear(128, 768, 1024), avx512());
  EXPECT_EQ(schedule.rows, 6);
  EXPECT_EQ(schedule.cols, 64);
  schedule = choose(linear(128, 768, 768), Machine{});
  EXPECT_EQ(schedule.rows, 6);
  EXPECT_EQ(schedule.cols, 16);
}

TEST(ContractionSchedule, WeightsForOneRowAreReadAsTheyLie) {
  ContractionSchedule schedule = choose(linear(1, 4096, 4096), avx512());
  EXPECT_EQ(schedule.kind, Kind::kDepth);
  EXPECT_EQ(schedule.depth_width, 128);
  EXPECT_EQ(choose(linear(8, 4096, 4096), avx512()).kind, Kind::kPacked);
  // Not by a few rows when they stay in the cache.
  EXPECT_EQ(choose(linear(4, 4096, 4096), avx512()).kind, Kind::kDepth);
  EXPECT_EQ(choose(linear(4, 256, 256), avx512()).kind, Kind::kPacked);
  ContractionProblem any = linear(2, 4096, 4096);
  any.has_static_rows = false;
  EXPECT_EQ(choose(any, avx512()).kind, Kind::kPacked);
}

TEST(ContractionSchedule, ActivationsAreReadInPlaceByFewRows) {
  ContractionProblem problem = linear(64, 64, 64);
  problem.is_packed_ahead = false;
  problem.b_depth_stride = 64, problem.b_col_stride = 1;
  EXPECT_EQ(choose(problem, avx512()).kind, Kind::kDirect);
  problem.rows = 1024;
  EXPECT_EQ(choose(problem, avx512()).kind, Kind::kPacked);
}

TEST(ContractionSchedule, SixteenRegistersHoldNoTileOfFourteenRows) {
  ContractionSchedule schedule = choose(linear(14, 256, 256), Machine{});
  EXPECT_EQ(schedule.rows, 5); // tiles of 5, 5 and 4
  EXPECT_EQ(schedule.cols, 16);
}

TEST(ContractionSchedule, TilesTakeTurnsAtPanelsLongerThanTheFirstCache) {
  ContractionProblem problem = linear(7, 512, 512);
  problem.outer_rows = 7, problem.outer_depth = 9;
  ContractionSchedule schedule = choose(problem, Machine{});
  EXPECT_TRUE(schedule.is_depth_outer);
  EXPECT_EQ(schedule.outer_rows, 7);
  EXPECT_EQ(schedule.prefetch, kDepthChunk * schedule.cols);
  EXPECT_FALSE(choose(linear(49, 512, 256), Machine{}).is_depth_outer);
}

} // namespace
} // namespace oxyfuel
