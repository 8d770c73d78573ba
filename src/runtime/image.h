// Code images in memory: maps the flat images of a program, writable first and then executable, never both.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/abi.h"
#include "support/memory.h"

namespace oxyfuel::runtime {

/// A flat image as codegen/ makes it: position independent, loadable at any multiple of 4 KiB.
struct CodeImage {
  const uint8_t *data = nullptr;
  size_t size = 0;
  std::string name;                ///< for profilers and debuggers
  const uint8_t *unwind = nullptr; ///< call frame instructions of its function (support/debug_object.h), if known
  size_t unwind_size = 0;
};

/// The images of one program, mapped side by side. Immutable, unmapped when destroyed.
class LoadedImages {
public:
  /// Null with a message when there is no memory or the system refuses executable pages.
  static std::unique_ptr<LoadedImages> load(const std::vector<CodeImage> &images, std::string &message);

  /// Entry point at `offset` into image `image`; null when that lies outside.
  OxyfuelKernel entry(int32_t image, uint64_t offset) const;

private:
  ExecutableMemory memory_;
  std::vector<size_t> starts_, sizes_;
};

} // namespace oxyfuel::runtime
