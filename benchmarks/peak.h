// The clock, and the fused multiply-add peak that benchmarks compare with, measured beside them.
#pragma once

#include <algorithm>
#include <chrono>
#include <ctime>

namespace oxyfuel::benchmark {

inline double seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Time that this thread has run: what other processes take from it is left out.
inline double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

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

__attribute__((target("avx512f"), noinline)) inline double peak_512(long turns) {
  asm volatile("vzeroall" ::: CLOBBERS);
  for (long turn = 0; turn < turns; ++turn)
    asm volatile(CHAINS("zmm")::: CLOBBERS);
  return 2.0 * 12 * 16 * static_cast<double>(turns);
}
__attribute__((target("avx2,fma"), noinline)) inline double peak_256(long turns) {
  asm volatile("vzeroall" ::: CLOBBERS);
  for (long turn = 0; turn < turns; ++turn)
    asm volatile(CHAINS("ymm")::: CLOBBERS);
  return 2.0 * 12 * 8 * static_cast<double>(turns);
}
#endif

/// GF/s of fused multiply-adds in float32 that wait for nothing but each other.
inline double measure_peak(unsigned vector_bits) {
  double best = 0;
#if defined(__x86_64__)
  for (int i = 0; i < 8; ++i) {
    double start = seconds();
    double flops = vector_bits == 512 ? peak_512(400000) : peak_256(800000);
    best = std::max(best, flops / (seconds() - start) * 1e-9);
  }
#else
  (void)vector_bits;
#endif
  return best;
}

#undef CHAIN
#undef CHAINS
#undef CLOBBERS

} // namespace oxyfuel::benchmark
