// Offsets of buffers in one arena, from their sizes and lifetimes. Greedy by size: the largest buffer first, each into
// the tightest gap between the buffers already placed that live at the same time (Pisarchyk and Lee, "Efficient memory
// management for deep neural net inference", 2020).
#pragma once

#include <cstdint>
#include <vector>

namespace oxyfuel::runtime {

/// Alignment of every offset; the arena itself is aligned at least as much.
inline constexpr int64_t kArenaAlignment = 64;

struct Lifetime {
  int64_t bytes = 0;           ///< >= 0; a buffer of 0 bytes takes no room
  int32_t first = 0, last = 0; ///< steps, inclusive
};

struct MemoryPlan {
  std::vector<int64_t> offsets; ///< one a lifetime
  int64_t arena_bytes = 0;
};

/// Buffers that live at the same time do not overlap. False when the sum of sizes overflows.
bool plan_memory(const std::vector<Lifetime> &lifetimes, MemoryPlan &plan);

} // namespace oxyfuel::runtime
