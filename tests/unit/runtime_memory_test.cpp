// The memory planner: buffers alive at the same time never overlap, and reuse happens.
#include <gtest/gtest.h>
#include <random>

#include "runtime/memory_plan.h"

namespace oxyfuel::runtime {
namespace {

TEST(MemoryPlan, BuffersOfDifferentTimesShare) {
  MemoryPlan plan;
  ASSERT_TRUE(plan_memory({{1000, 0, 1}, {1000, 2, 3}, {500, 1, 2}}, plan));
  EXPECT_EQ(plan.offsets[0], plan.offsets[1]);
  EXPECT_EQ(plan.arena_bytes, 1024 + 512);
}

TEST(MemoryPlan, EmptyAndHostile) {
  MemoryPlan plan;
  ASSERT_TRUE(plan_memory({}, plan));
  EXPECT_EQ(plan.arena_bytes, 0);
  ASSERT_TRUE(plan_memory({{0, 0, 5}, {0, 0, 5}}, plan));
  EXPECT_EQ(plan.arena_bytes, 0);
  EXPECT_FALSE(plan_memory({{-1, 0, 0}}, plan));
  EXPECT_FALSE(plan_memory({{INT64_MAX, 0, 0}, {INT64_MAX, 0, 0}}, plan));
  EXPECT_FALSE(plan_memory(std::vector<Lifetime>(1000, {int64_t{1} << 55, 0, 0}), plan));
}

TEST(MemoryPlan, NothingOverlaps) {
  std::mt19937 random(7);
  auto below = [&](int64_t limit) { return static_cast<int64_t>(random() % static_cast<uint64_t>(limit)); };
  for (int round = 0; round < 300; ++round) {
    std::vector<Lifetime> lifetimes;
    const int64_t count = below(60), steps = 1 + below(40);
    for (int64_t i = 0; i < count; ++i) {
      const int32_t first = static_cast<int32_t>(below(steps));
      const int32_t last = first + static_cast<int32_t>(below(std::min<int64_t>(steps - first, 6)));
      lifetimes.push_back({below(5) == 0 ? below(3) : below(10'000), first, last});
    }
    MemoryPlan plan;
    ASSERT_TRUE(plan_memory(lifetimes, plan));
    for (size_t a = 0; a < lifetimes.size(); ++a) {
      ASSERT_EQ(plan.offsets[a] % kArenaAlignment, 0);
      ASSERT_LE(plan.offsets[a] + lifetimes[a].bytes, plan.arena_bytes);
      for (size_t b = 0; b < a; ++b) {
        const bool together = lifetimes[a].first <= lifetimes[b].last && lifetimes[b].first <= lifetimes[a].last;
        const bool overlap = plan.offsets[a] < plan.offsets[b] + lifetimes[b].bytes &&
                             plan.offsets[b] < plan.offsets[a] + lifetimes[a].bytes;
        ASSERT_FALSE(together && overlap && lifetimes[a].bytes > 0 && lifetimes[b].bytes > 0)
            << "round " << round << ", buffers " << b << " and " << a;
      }
    }
  }
}

} // namespace
} // namespace oxyfuel::runtime
