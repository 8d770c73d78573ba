// Kernels on their way to code: equal ones once, known ones from the cache on disk, the rest compiled side by side.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "driver/compile.h"
#include "ir/loop/loop.h"
#include "runtime/image.h"

namespace oxyfuel {

/// What code generation makes of a kernel, and the cache keeps.
struct KernelCode {
  std::vector<uint8_t> image;
  uint64_t entry = 0;          ///< offset of the entry point in the image
  std::vector<uint8_t> unwind; ///< call frame instructions, for debuggers
};

/// The kernels of one program. Numbers are in order of first addition.
class KernelSet {
public:
  /// Takes the kernel (finished but for the loop pipeline) and returns its number; equal kernels share one.
  int add(std::unique_ptr<loop::Kernel> kernel);

  /// Makes all code, on `settings.threads` threads. Throws what code generation throws.
  void generate(const CompileSettings &settings, PassContext &passes, CompileReport &report);

  int count() const { return static_cast<int>(kernels_.size()); }
  loop::Kernel &kernel(int i) { return *kernels_[i].kernel; }
  const loop::Kernel &kernel(int i) const { return *kernels_[i].kernel; }
  /// After `generate`: one image a kernel, which points into this set.
  std::vector<runtime::CodeImage> images() const;
  /// Byte offset of kernel i's entry point in its image.
  uint64_t entry(int i) const { return kernels_[i].code.entry; }

private:
  struct Entry {
    std::unique_ptr<loop::Kernel> kernel;
    std::string text;
    KernelCode code;
  };
  std::vector<Entry> kernels_;
  std::map<std::string, int> by_text_;
};

} // namespace oxyfuel
