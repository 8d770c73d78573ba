// Object file → flat image: bytes that run at any page-aligned address as they are.
#pragma once

#include "codegen/target.h"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace oxyfuel::codegen {

/// Position-independent code with the constants it reads. Nothing in it refers to an absolute address, is written to,
/// or is found by name at load time.
struct Image {
  /// Code, then constants. To be mapped at an address that is a multiple of the target's page size.
  std::vector<std::byte> bytes;
  /// The first `code_size` bytes are mapped readable and executable, the rest readable. A multiple of the page size, or
  /// all of `bytes` when there are no constants.
  size_t code_size = 0;
  /// Offsets into `bytes` of the functions and constants that the module gives external linkage.
  std::map<std::string, uint64_t> exports;
  /// Call frame instructions of the module's function, when it has one and unwind tables (codegen/unwind.h).
  std::vector<std::byte> unwind;
  /// The ELF object that the image was linked from, for gdb's JIT interface and perf. The `sh_addr` of each section
  /// that is in the image holds its offset plus `kDebugAddressBias`, all others hold 0; a loader adds (base - bias) to
  /// the non-zero ones and registers the result. Empty unless asked for.
  std::vector<std::byte> debug;
};

/// Makes a section's address non-zero also when its offset in the image is 0.
constexpr uint64_t kDebugAddressBias = uint64_t{1} << 48;

/// Links one ELF object made by `emit_object`. Calls of library functions are bound to copies of builtins.h's ones,
/// which become part of the image. Throws InternalError for writable or thread-local data, a constructor, an absolute
/// relocation, a relocation that does not fit, or an external symbol that is left over (named in the message).
/// Safe to call from several threads.
Image link_flat(std::span<const char> object, const Target &target, bool keep_debug = false);

/// `link_flat` with constants aligned as they need it and no more, directly behind the code: for code that becomes part
/// of another image's code.
Image link_packed(std::span<const char> object, const Target &target);

} // namespace oxyfuel::codegen
