// What the processor and the container offer: instruction sets that both the CPU and the operating system support,
// cache sizes, usable CPUs, and the floating-point control word.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace oxyfuel {

/// One bit each; the values are part of the artifact format.
enum class CpuFeature : uint32_t {
  kAvx2 = 1u << 0,
  kFma = 1u << 1,
  kF16c = 1u << 2,
  kAvx512 = 1u << 3, ///< F, BW, CD, DQ and VL together
  kAvx512Vnni = 1u << 4,
  kAvx512Bf16 = 1u << 5,
  kAvx512Fp16 = 1u << 6,
  kAvxVnni = 1u << 7,
  kAmxTile = 1u << 8,
  kAmxBf16 = 1u << 9,
  kAmxInt8 = 1u << 10,
  kAmxFp16 = 1u << 11,
  kNeon = 1u << 16,
  kSve = 1u << 17,
  kArmBf16 = 1u << 18,
  kArmDotProduct = 1u << 19,
  kArmInt8Matmul = 1u << 20,
};

struct CpuInfo {
  uint32_t features = 0;                                                   ///< CpuFeature bits
  size_t l1_data_bytes = 32 << 10, l2_bytes = 1 << 20, l3_bytes = 8 << 20; ///< of one core, one core, all that share it
  bool has(CpuFeature feature) const { return (features & static_cast<uint32_t>(feature)) != 0; }
};

/// Detected once. AMX counts only when the system grants its tile state (see request_amx).
const CpuInfo &cpu_info();

/// "avx2+fma+f16c", for messages and cache keys; bits in ascending order.
std::string describe_features(uint32_t features);

/// Asks Linux for permission to use AMX tiles in this process; false when there are none.
bool request_amx();

/// CPUs in the calling thread's affinity mask, at least 1.
int affinity_cpu_count();
/// CPUs' worth of time that the container's quota allows (cgroup v2 or v1, the tightest level); 0 when unlimited.
double cpu_quota();
/// min(affinity, quota rounded down), at least 1.
int usable_cpu_count();

/// For tests: the quota of a cgroup given its files' text. `maximum` is cpu.max of v2; v1 has two numbers.
double parse_cpu_max(const std::string &maximum);

/// The word that holds rounding mode, denormal handling and exception masks (MXCSR, FPCR); sticky flags are left out.
inline uint32_t float_control() {
#if defined(__x86_64__)
  return __builtin_ia32_stmxcsr() & ~uint32_t{0x3f};
#elif defined(__aarch64__)
  uint64_t word;
  asm volatile("mrs %0, fpcr" : "=r"(word));
  return static_cast<uint32_t>(word);
#else
  return 0;
#endif
}
inline void set_float_control(uint32_t word) {
#if defined(__x86_64__)
  __builtin_ia32_ldmxcsr(word);
#elif defined(__aarch64__)
  asm volatile("msr fpcr, %0" ::"r"(uint64_t{word}));
#else
  (void)word;
#endif
}

/// Tells the processor that this is a spin loop.
inline void spin_pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

} // namespace oxyfuel
