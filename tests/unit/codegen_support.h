// Compiles a kernel, runs it and the Loop IR interpreter on equal data, and compares all memory bit for bit (any NaN
// equals any other).
#pragma once

#include <gtest/gtest.h>

#include <sys/mman.h>

#include <cmath>
#include <cstring>
#include <random>

#include "codegen/compile.h"
#include "runtime/abi.h"
#include "support/half.h"
#include "support/memory.h"

namespace oxyfuel::codegen {

inline const OxyfuelHostTable &test_host_table() {
  static double (*unary[kHostFunctionCount])(double) = {};
  static double (*binary[kHostFunction2Count])(double, double) = {};
  unary[kHostExp] = [](double x) { return std::exp(x); };
  unary[kHostLog] = [](double x) { return std::log(x); };
  unary[kHostLog1p] = [](double x) { return std::log1p(x); };
  binary[kHostPow] = [](double x, double y) { return std::pow(x, y); };
  binary[kHostFmod] = [](double x, double y) { return std::fmod(x, y); };
  static const OxyfuelHostTable table{unary, binary};
  return table;
}

/// A kernel in executable memory.
class Loaded {
public:
  explicit Loaded(const loop::Kernel &kernel, const CompileOptions &options = {}) {
    const loop::Kernel *kernels[] = {&kernel};
    compiled_ = compile_kernels(kernels, options);
    EXPECT_TRUE(memory_.allocate(compiled_.image.bytes.size()));
    std::memcpy(memory_.data(), compiled_.image.bytes.data(), compiled_.image.bytes.size());
    EXPECT_TRUE(memory_.seal());
    EXPECT_TRUE(scratch_.reserve(static_cast<size_t>(kernel.scratch_bytes) + 64));
  }
  int32_t run(const std::vector<void *> &buffers, const std::vector<int64_t> &sizes, int64_t tasks) {
    auto entry = reinterpret_cast<OxyfuelKernel>(memory_.data() + compiled_.entries[0]);
    return entry(buffers.data(), sizes.data(), 0, tasks, scratch_.data(), &test_host_table());
  }
  const CompiledKernels &compiled() const { return compiled_; }

private:
  CompiledKernels compiled_;
  ExecutableMemory memory_;
  AlignedMemory scratch_;
};

/// Bytes that end where an unreadable page begins (or begin where one ends), the rest of their pages filled with a
/// pattern.
class GuardedBytes {
public:
  GuardedBytes(size_t size, bool at_end) : size_(size), at_end_(at_end) {
    pages_ = (size + kPage - 1) / kPage * kPage;
    base_ = static_cast<uint8_t *>(
        mmap(nullptr, pages_ + 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    std::memset(base_, 0xA5, pages_ + 2 * kPage);
    mprotect(base_, kPage, PROT_NONE);
    mprotect(base_ + kPage + pages_, kPage, PROT_NONE);
  }
  GuardedBytes(const GuardedBytes &other) : GuardedBytes(other.size_, other.at_end_) {
    std::memcpy(base_ + kPage, other.base_ + kPage, pages_);
  }
  ~GuardedBytes() { munmap(base_, pages_ + 2 * kPage); }
  GuardedBytes &operator=(const GuardedBytes &) = delete;

  uint8_t *data() { return base_ + kPage + (at_end_ ? pages_ - size_ : 0); }
  size_t size() const { return size_; }
  /// Contents of all pages: stray writes show.
  std::vector<uint8_t> all() const { return {base_ + kPage, base_ + kPage + pages_}; }

private:
  static constexpr size_t kPage = 4096;
  size_t size_, pages_ = 0;
  bool at_end_;
  uint8_t *base_ = nullptr;
};

/// Memory of one parameter.
struct Data {
  DType dtype;
  GuardedBytes bytes;

  Data(DType type, size_t count, uint32_t seed) : dtype(type), bytes(count * size_of(type), seed % 2 != 0) {
    std::mt19937 random(seed);
    size_t parts = is_complex(type) ? 2 * count : count;
    for (size_t i = 0; i < parts; ++i)
      set(i, random);
  }
  void *data() { return bytes.data(); }
  size_t count() const { return bytes.size() / size_of(dtype); }

private:
  void set(size_t i, std::mt19937 &random) {
    static constexpr float specials[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN,          1.0f,
                                         3e9f, -3e9f, 1e30f,    -300.0f,   2147483648.0f};
    float value = random() % 8 == 0 ? specials[random() % std::size(specials)]
                                    : std::uniform_real_distribution<float>(-4, 4)(random);
    auto write = [&](auto element) {
      std::memcpy(static_cast<uint8_t *>(data()) + i * sizeof(element), &element, sizeof(element));
    };
    switch (real_of(dtype)) {
    case DType::kF32: return write(value);
    case DType::kF64: return write(static_cast<double>(value) * (1 + random() * 1e-12));
    case DType::kF16: return write(f16_from_float(value));
    case DType::kBF16: return write(bf16_from_float(value));
    case DType::kBool: return write(static_cast<uint8_t>(random() & 1));
    default: break;
    }
    uint64_t bits = random() % 4 == 0 ? random() % 5 : (uint64_t{random()} << 32 | random());
    if (random() % 16 == 0)
      bits = uint64_t{1} << (8 * size_of(dtype) - 1);
    std::memcpy(static_cast<uint8_t *>(data()) + i * size_of(dtype), &bits, size_of(dtype));
  }
};

/// All bytes, with every NaN replaced by one.
inline std::vector<uint8_t> canonical(Data data) {
  DType part = real_of(data.dtype);
  size_t count = data.count() * (is_complex(data.dtype) ? 2 : 1);
  auto *place = static_cast<uint8_t *>(data.data());
  for (size_t i = 0; i < count && is_float(part); ++i, place += size_of(part)) {
    uint16_t half;
    float single;
    double real;
    std::memcpy(&half, place, 2);
    if (part == DType::kF32) {
      std::memcpy(&single, place, 4);
      if (std::isnan(single))
        std::memset(place, 0xFF, 4);
    } else if (part == DType::kF64) {
      std::memcpy(&real, place, 8);
      if (std::isnan(real))
        std::memset(place, 0xFF, 8);
    } else if (std::isnan(part == DType::kF16 ? float_from_f16(half) : float_from_bf16(half))) {
      std::memset(place, 0xFF, 2);
    }
  }
  return data.bytes.all();
}

/// Runs both; `counts` has the elements of each parameter. `odd` varies the data and the side on which guard pages lie.
/// Returns the status, which must agree too.
inline int32_t expect_same(loop::Kernel &kernel, const std::vector<size_t> &counts, const std::vector<int64_t> &sizes,
                           int64_t tasks, CompileOptions options = {}, const std::vector<Data> *given = nullptr,
                           uint32_t odd = 0) {
  loop::assign_scratch(kernel);
  loop::verify(kernel);
  options.verify = true;
  std::vector<Data> first;
  for (size_t i = 0; i < counts.size(); ++i)
    first.push_back(given ? (*given)[i]
                          : Data(kernel.buffers[i]->dtype, counts[i], static_cast<uint32_t>(7 * i + 1) + odd));
  std::vector<Data> second = first;
  auto pointers = [](std::vector<Data> &data) {
    std::vector<void *> result;
    for (Data &one : data)
      result.push_back(one.data());
    return result;
  };
  Loaded loaded(kernel, options);
  int32_t expected = loop::interpret(kernel, pointers(first), sizes);
  int32_t status = loaded.run(pointers(second), sizes, tasks);
  EXPECT_EQ(expected, status) << loop::print(kernel);
  for (size_t i = 0; i < counts.size() && expected == 0; ++i) {
    std::vector<uint8_t> a = canonical(first[i]), b = canonical(second[i]);
    for (size_t byte = 0; byte < a.size(); ++byte)
      if (a[byte] != b[byte]) {
        ADD_FAILURE() << "parameter " << kernel.buffers[i]->name << " differs at byte " << byte << " of "
                      << first[i].bytes.size() << "\n"
                      << loop::print(kernel);
        break;
      }
  }
  return status;
}

} // namespace oxyfuel::codegen
