#include "support/memory.h"

#include <cstdlib>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace oxyfuel {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kCacheLine = 64;

constexpr size_t round_up(size_t size, size_t unit) { return (size + unit - 1) / unit * unit; }

} // namespace

ExecutableMemory::~ExecutableMemory() { release(); }
ExecutableMemory::ExecutableMemory(ExecutableMemory &&other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
ExecutableMemory &ExecutableMemory::operator=(ExecutableMemory &&other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

bool ExecutableMemory::allocate(size_t size) {
  release();
  if (size == 0 || size > SIZE_MAX / 2)
    return false;
  const size_t mapped = round_up(size, static_cast<size_t>(sysconf(_SC_PAGESIZE)));
  void *pages = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED)
    return false;
  data_ = static_cast<uint8_t *>(pages);
  size_ = mapped;
  return true;
}

bool ExecutableMemory::seal() {
  if (mprotect(data_, size_, PROT_READ | PROT_EXEC) != 0)
    return false;
  // Instruction caches are not coherent everywhere (aarch64, riscv64); on x86-64 this is empty.
  __builtin___clear_cache(reinterpret_cast<char *>(data_), reinterpret_cast<char *>(data_ + size_));
  return true;
}

void ExecutableMemory::release() {
  if (data_)
    munmap(data_, size_);
  data_ = nullptr;
  size_ = 0;
}

bool can_run_new_code() {
  ExecutableMemory page;
  return !page.allocate(1) || page.seal(); // without memory nothing is known
}

void release_free_memory() {
#ifdef __GLIBC__
  malloc_trim(0);
#endif
}

AlignedMemory::~AlignedMemory() { release(); }
AlignedMemory::AlignedMemory(AlignedMemory &&other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
AlignedMemory &AlignedMemory::operator=(AlignedMemory &&other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

bool AlignedMemory::reserve(size_t size) {
  if (size <= size_)
    return true;
  release();
  if (size > SIZE_MAX / 2)
    return false;
  const size_t alignment = size >= kHugePage ? kHugePage : kCacheLine;
  const size_t rounded = round_up(size, size >= kHugePage ? size_t{4096} : kCacheLine);
  void *block = nullptr;
  if (posix_memalign(&block, alignment, rounded) != 0)
    return false;
  if (size >= kHugePage)
    madvise(block, rounded, MADV_HUGEPAGE); // advice: a system without huge pages may refuse
  data_ = static_cast<uint8_t *>(block);
  size_ = rounded;
  return true;
}

void AlignedMemory::release() {
  std::free(data_);
  data_ = nullptr;
  size_ = 0;
}

} // namespace oxyfuel
