#include "support/cpu.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sched.h>
#include <sstream>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace oxyfuel {
namespace {

#if defined(__x86_64__)

constexpr long kArchGetPermitted = 0x1022, kArchRequestPermission = 0x1023, kTileDataComponent = 18;

uint64_t read_xcr0() {
  uint32_t low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

uint32_t detect_features() {
  uint32_t a = 0, b = 0, c = 0, d = 0, features = 0;
  auto add = [&](bool present, CpuFeature feature) {
    if (present)
      features |= static_cast<uint32_t>(feature);
  };
  auto bit = [](uint32_t word, int index) { return (word >> index & 1) != 0; };
  if (!__get_cpuid(1, &a, &b, &c, &d) || !bit(c, 27) || !bit(c, 28)) // OSXSAVE, AVX
    return 0;
  const uint64_t state = read_xcr0();
  if ((state & 0x6) != 0x6) // the system saves xmm and ymm
    return 0;
  const bool fma = bit(c, 12), f16c = bit(c, 29);
  uint32_t b7 = 0, c7 = 0, d7 = 0, a71 = 0, highest = 0;
  if (!__get_cpuid_count(7, 0, &highest, &b7, &c7, &d7))
    return 0;
  if (highest >= 1)
    __get_cpuid_count(7, 1, &a71, &b, &c, &d);
  add(bit(b7, 5), CpuFeature::kAvx2);
  add(fma, CpuFeature::kFma);
  add(f16c, CpuFeature::kF16c);
  add(bit(a71, 4) && bit(b7, 5), CpuFeature::kAvxVnni);
  const bool saves_zmm = (state & 0xe6) == 0xe6;
  const bool avx512 = saves_zmm && bit(b7, 16) && bit(b7, 17) && bit(b7, 28) && bit(b7, 30) && bit(b7, 31);
  add(avx512, CpuFeature::kAvx512);
  add(avx512 && bit(c7, 11), CpuFeature::kAvx512Vnni);
  add(avx512 && bit(a71, 5), CpuFeature::kAvx512Bf16);
  add(avx512 && bit(d7, 23), CpuFeature::kAvx512Fp16);
  const bool saves_tiles = (state & 0x60000) == 0x60000;
  if (saves_tiles && bit(d7, 24) && request_amx()) {
    add(true, CpuFeature::kAmxTile);
    add(bit(d7, 22), CpuFeature::kAmxBf16);
    add(bit(d7, 25), CpuFeature::kAmxInt8);
    add(bit(a71, 21), CpuFeature::kAmxFp16);
  }
  return features;
}

#elif defined(__aarch64__)

uint32_t detect_features() {
  const unsigned long capabilities = getauxval(AT_HWCAP), more = getauxval(AT_HWCAP2);
  uint32_t features = static_cast<uint32_t>(CpuFeature::kNeon);
  auto add = [&](bool present, CpuFeature feature) {
    if (present)
      features |= static_cast<uint32_t>(feature);
  };
  add(capabilities >> 22 & 1, CpuFeature::kSve);
  add(capabilities >> 20 & 1, CpuFeature::kArmDotProduct);
  add(more >> 14 & 1, CpuFeature::kArmBf16);
  add(more >> 13 & 1, CpuFeature::kArmInt8Matmul);
  return features;
}

#else
uint32_t detect_features() { return 0; }
#endif

std::string read_text(const std::string &path) {
  std::ifstream stream(path);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

size_t read_cache(int index, const char *wanted_level, bool instructions) {
  const std::string directory = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(index) + "/";
  const std::string level = read_text(directory + "level"), type = read_text(directory + "type");
  if (level.substr(0, 1) != wanted_level || (type.substr(0, 11) == "Instruction") != instructions)
    return 0;
  const std::string size = read_text(directory + "size"); // "32K", "32768K", "32M"
  char *end = nullptr;
  const size_t number = std::strtoull(size.c_str(), &end, 10);
  return *end == 'K' ? number << 10 : *end == 'M' ? number << 20 : number;
}

void detect_caches(CpuInfo &info) {
  for (int index = 0; index < 5; ++index) {
    if (const size_t bytes = read_cache(index, "1", false))
      info.l1_data_bytes = bytes;
    if (const size_t bytes = read_cache(index, "2", false))
      info.l2_bytes = bytes;
    if (const size_t bytes = read_cache(index, "3", false))
      info.l3_bytes = bytes;
  }
}

/// The tighter of two quotas, where 0 is none.
double tighter(double a, double b) { return a == 0 ? b : b == 0 ? a : std::min(a, b); }

double quota_v1(const std::string &directory) {
  const std::string quota = read_text(directory + "/cpu.cfs_quota_us"),
                    period = read_text(directory + "/cpu.cfs_period_us");
  const double limit = std::atof(quota.c_str()), unit = std::atof(period.c_str());
  return limit > 0 && unit > 0 ? limit / unit : 0;
}

/// The tightest quota of a group and all groups above it.
template <class F> double quota_upwards(const std::string &root, std::string group, F &&quota_of) {
  double quota = quota_of(root);
  for (size_t slash = 0; group.size() > 1 && slash != std::string::npos;) {
    quota = tighter(quota, quota_of(root + group));
    slash = group.rfind('/');
    group.resize(slash == std::string::npos ? 0 : slash);
  }
  return quota;
}

} // namespace

const CpuInfo &cpu_info() {
  static const CpuInfo info = [] {
    CpuInfo found;
    found.features = detect_features();
    detect_caches(found);
    return found;
  }();
  return info;
}

std::string describe_features(uint32_t features) {
  static constexpr const char *names[32] = {"avx2",       "fma",     "f16c",     "avx512",   "avx512vnni", "avx512bf16",
                                            "avx512fp16", "avxvnni", "amx-tile", "amx-bf16", "amx-int8",   "amx-fp16",
                                            nullptr,      nullptr,   nullptr,    nullptr,    "neon",       "sve",
                                            "bf16",       "dotprod", "i8mm"};
  std::string text;
  for (int i = 0; i < 32; ++i)
    if ((features >> i & 1) && names[i]) {
      text += text.empty() ? "" : "+";
      text += names[i];
    }
  return text;
}

bool request_amx() {
#if defined(__x86_64__) && defined(SYS_arch_prctl)
  unsigned long permitted = 0;
  if (syscall(SYS_arch_prctl, kArchRequestPermission, kTileDataComponent) != 0)
    return false;
  return syscall(SYS_arch_prctl, kArchGetPermitted, &permitted) == 0 && (permitted >> kTileDataComponent & 1);
#else
  return false;
#endif
}

int affinity_cpu_count() {
  // Machines with more CPUs than cpu_set_t holds need a larger set: the call fails with EINVAL until it is large
  // enough.
  for (int cpus = CPU_SETSIZE; cpus <= 1 << 16; cpus *= 2) {
    cpu_set_t *set = CPU_ALLOC(cpus);
    const size_t size = CPU_ALLOC_SIZE(cpus);
    const int count = set && sched_getaffinity(0, size, set) == 0 ? CPU_COUNT_S(size, set) : 0;
    CPU_FREE(set);
    if (count > 0)
      return count;
  }
  return 1;
}

double parse_cpu_max(const std::string &maximum) {
  std::istringstream words(maximum);
  std::string limit;
  double period = 0;
  if (!(words >> limit >> period) || limit == "max" || period <= 0)
    return 0;
  const double value = std::atof(limit.c_str());
  return value > 0 ? value / period : 0;
}

double cpu_quota() {
  double quota = 0;
  std::istringstream groups(read_text("/proc/self/cgroup")); // lines "hierarchy:controllers:/group"
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos)
      continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), group = line.substr(second + 1);
    if (controllers.empty())
      quota = tighter(quota, quota_upwards("/sys/fs/cgroup", group, [](const std::string &directory) {
                        return parse_cpu_max(read_text(directory + "/cpu.max"));
                      }));
    else if (("," + controllers + ",").find(",cpu,") != std::string::npos)
      quota = tighter(quota, quota_upwards("/sys/fs/cgroup/cpu", group, quota_v1));
  }
  return quota;
}

int usable_cpu_count() {
  const int cpus = affinity_cpu_count();
  const double quota = cpu_quota();
  return quota > 0 ? std::clamp(static_cast<int>(quota), 1, cpus) : cpus;
}

} // namespace oxyfuel
