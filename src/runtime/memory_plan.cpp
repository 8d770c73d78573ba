#include "runtime/memory_plan.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

namespace oxyfuel::runtime {
namespace {

constexpr int64_t kLargestArena = int64_t{1} << 56;

constexpr int64_t round_up(int64_t bytes) { return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment; }

struct Placed {
  int64_t begin, end;
  int32_t first, last;
};

/// The start of the tightest gap of at least `bytes` between blocks that live during [first, last]; the end of them all
/// when there is none. `placed` is ordered by begin.
int64_t find_place(const std::vector<Placed> &placed, int64_t bytes, int32_t first, int32_t last) {
  int64_t best = -1, best_gap = 0, end = 0;
  for (const Placed &other : placed) {
    if (other.last < first || last < other.first)
      continue;
    const int64_t gap = other.begin - end;
    if (gap >= bytes && (best < 0 || gap < best_gap))
      best = end, best_gap = gap;
    end = std::max(end, other.end);
  }
  return best >= 0 ? best : end;
}

} // namespace

bool plan_memory(const std::vector<Lifetime> &lifetimes, MemoryPlan &plan) {
  plan.offsets.assign(lifetimes.size(), 0);
  plan.arena_bytes = 0;
  int64_t sum = 0;
  for (const Lifetime &lifetime : lifetimes) {
    if (lifetime.bytes < 0 || lifetime.bytes > kLargestArena)
      return false;
    sum += round_up(lifetime.bytes);
    if (sum > kLargestArena)
      return false;
  }
  std::vector<size_t> order(lifetimes.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return lifetimes[a].bytes > lifetimes[b].bytes; });
  std::vector<Placed> placed;
  placed.reserve(lifetimes.size());
  for (size_t index : order) {
    const Lifetime &lifetime = lifetimes[index];
    const int64_t bytes = round_up(lifetime.bytes);
    if (bytes == 0)
      break; // sorted: only empty ones are left
    const int64_t begin = find_place(placed, bytes, lifetime.first, lifetime.last);
    const Placed block{begin, begin + bytes, lifetime.first, lifetime.last};
    auto place = std::upper_bound(placed.begin(), placed.end(), block,
                                  [](const Placed &a, const Placed &b) { return a.begin < b.begin; });
    placed.insert(place, block);
    plan.offsets[index] = begin;
    plan.arena_bytes = std::max(plan.arena_bytes, block.end);
  }
  return true;
}

} // namespace oxyfuel::runtime
