// Memory from the system: executable pages and large aligned blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace oxyfuel {

/// Pages of code. Writable while it is filled, executable afterwards, never both.
class ExecutableMemory {
public:
  ExecutableMemory() = default;
  ~ExecutableMemory();
  ExecutableMemory(ExecutableMemory &&other) noexcept;
  ExecutableMemory &operator=(ExecutableMemory &&other) noexcept;

  /// Maps `size` writable zero bytes. False when there is no memory.
  bool allocate(size_t size);
  /// Makes the pages executable and read-only. False when the system refuses.
  bool seal();

  uint8_t *data() const { return data_; }
  size_t size() const { return size_; }

private:
  void release();
  uint8_t *data_ = nullptr;
  size_t size_ = 0;
};

/// Whether the system lets this process run code that it makes: systems may forbid that (systemd's
/// MemoryDenyWriteExecute, SELinux, PR_SET_MDWE).
bool can_run_new_code();

/// Gives pages of freed memory back to the system: a compile takes many times what its result does.
void release_free_memory();

/// A block of bytes with 64-byte alignment; blocks from 2 MiB up are aligned to 2 MiB and advised to use huge pages.
/// Fresh contents are undefined.
class AlignedMemory {
public:
  AlignedMemory() = default;
  ~AlignedMemory();
  AlignedMemory(AlignedMemory &&other) noexcept;
  AlignedMemory &operator=(AlignedMemory &&other) noexcept;

  /// Replaces the block by one of at least `size` bytes unless it is large enough already; contents are lost. False,
  /// with the block empty, when there is no memory.
  bool reserve(size_t size);
  void release();

  uint8_t *data() const { return data_; }
  size_t size() const { return size_; }

private:
  uint8_t *data_ = nullptr;
  size_t size_ = 0;
};

} // namespace oxyfuel
