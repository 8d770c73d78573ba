#include "support/peaks.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "support/cpu.h"
#include "support/memory.h"
#include "support/system.h"

namespace oxyfuel {
namespace {

#if defined(__x86_64__)
// Twelve chains of fused multiply-adds on zeros, in registers named by hand: a compiler keeps such arrays in memory.
#define CHAIN(width, n) "vfmadd231ps %%" width "0, %%" width "0, %%" width #n "\n\t"
// clang-format off
#define CHAINS(width)                                                                                                  \
  CHAIN(width, 1) CHAIN(width, 2) CHAIN(width, 3) CHAIN(width, 4) CHAIN(width, 5) CHAIN(width, 6)                      \
  CHAIN(width, 7) CHAIN(width, 8) CHAIN(width, 9) CHAIN(width, 10) CHAIN(width, 11) CHAIN(width, 12)
// clang-format on
#define CLOBBERS                                                                                                       \
  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12"

__attribute__((target("avx512f"), noinline)) double multiply_add_512(long turns) {
  asm volatile("vzeroall" ::: CLOBBERS);
  for (long turn = 0; turn < turns; ++turn)
    asm volatile(CHAINS("zmm")::: CLOBBERS);
  return 2.0 * 12 * 16 * static_cast<double>(turns);
}
__attribute__((target("avx2,fma"), noinline)) double multiply_add_256(long turns) {
  asm volatile("vzeroall" ::: CLOBBERS);
  for (long turn = 0; turn < turns; ++turn)
    asm volatile(CHAINS("ymm")::: CLOBBERS);
  return 2.0 * 12 * 8 * static_cast<double>(turns);
}
#undef CHAIN
#undef CHAINS
#undef CLOBBERS
#endif

/// Reads `bytes`, a multiple of 512.
void read_all(const uint8_t *data, size_t bytes) {
  for (const uint8_t *end = data + bytes; data != end; data += 512)
    for (size_t at = 0; at < 512; at += sizeof(uint64_t))
      asm volatile("" ::"r"(*reinterpret_cast<const uint64_t *>(data + at)));
}
#if defined(__x86_64__)
/// The same with wide loads: narrow ones take longer than the near caches do.
__attribute__((target("avx"))) void read_all_256(const uint8_t *data, size_t bytes) {
  for (const uint8_t *end = data + bytes; data != end; data += 512)
    for (size_t at = 0; at < 512; at += 32)
      asm volatile("vmovaps %0, %%ymm0" ::"m"(*reinterpret_cast<const uint8_t (*)[32]>(data + at)) : "xmm0");
  asm volatile("vzeroupper");
}
#endif

/// The sum over threads of each one's best rate, in units of what `work(thread)` returns a second. All threads run from
/// the first start to the last end, so none has more than its share of what they have in common.
double rate_of(int threads, const std::function<double(int)> &work) {
  constexpr int kRounds = 8;
  std::vector<double> best(static_cast<size_t>(threads), 0.0);
  std::atomic<int> arrived{0}, finished{0};
  auto run = [&](int thread) {
    for (++arrived; arrived.load() < threads;)
      spin_pause();
    for (int round = 0; round < kRounds || finished.load() < threads; ++round) {
      const int64_t start = monotonic_nanoseconds();
      const double amount = work(thread);
      const double seconds = static_cast<double>(monotonic_nanoseconds() - start) * 1e-9;
      if (round < kRounds)
        best[static_cast<size_t>(thread)] = std::max(best[static_cast<size_t>(thread)], amount / seconds);
      if (round + 1 == kRounds)
        ++finished;
    }
  };
  std::vector<std::thread> others;
  for (int thread = 1; thread < threads; ++thread)
    others.emplace_back(run, thread);
  run(0);
  for (std::thread &other : others)
    other.join();
  double sum = 0;
  for (double rate : best)
    sum += rate;
  return sum;
}

} // namespace

double measure_fma_peak(unsigned vector_bits, int threads) {
#if defined(__x86_64__)
  const bool is_wide = vector_bits == 512;
  if (!cpu_info().has(CpuFeature::kFma) || (is_wide && !cpu_info().has(CpuFeature::kAvx512)))
    return 0;
  return rate_of(threads, [&](int) { return is_wide ? multiply_add_512(200'000) : multiply_add_256(400'000); });
#else
  (void)vector_bits, (void)threads;
  return 0;
#endif
}

double measure_read_bandwidth(size_t bytes, int threads) {
  const size_t part = std::max<size_t>(bytes / static_cast<size_t>(threads) / 512, 1) * 512;
  AlignedMemory memory;
  if (!memory.reserve(part * static_cast<size_t>(threads)))
    return 0;
  std::memset(memory.data(), 1, part * static_cast<size_t>(threads));
  auto read = read_all;
#if defined(__x86_64__)
  if (cpu_info().has(CpuFeature::kAvx2))
    read = read_all_256;
#endif
  const size_t turns = std::max<size_t>((4 << 20) / part, 1); // so that the clock does not count
  return rate_of(threads, [&](int thread) {
    for (size_t turn = 0; turn < turns; ++turn)
      read(memory.data() + part * static_cast<size_t>(thread), part);
    return static_cast<double>(part * turns);
  });
}

} // namespace oxyfuel
