// The clocks of benchmarks, and the fused multiply-add peak that they compare with, measured beside them.
#pragma once

#include <chrono>
#include <ctime>

#include "support/peaks.h"

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

/// GF/s of one thread.
inline double measure_peak(unsigned vector_bits) { return measure_fma_peak(vector_bits, 1) * 1e-9; }

} // namespace oxyfuel::benchmark
