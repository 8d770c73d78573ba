// The machine that code is made for. Plain data with a text form, free of LLVM headers: schedules and caches use it
// too.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace oxyfuel::codegen {

enum class Arch { kX86_64, kAArch64, kRiscV64 };

/// What code generation and the cost model know about a processor. Made by `host_target` or `Target::parse`, never
/// filled by hand: the `has_` members follow from `cpu` and `features` as LLVM understands them.
struct Target {
  Arch arch = Arch::kX86_64;
  std::string triple;
  /// LLVM's name of the processor; also chooses the instruction latencies that are scheduled for.
  std::string cpu;
  /// LLVM features on top of what `cpu` implies: `+name` or `-name`, comma separated, sorted.
  std::string features;
  /// Widest vector register that is used, in bits: 512 where AVX-512 is there, 256 for AVX2, else 128.
  unsigned vector_bits = 128;
  /// How many architectural vector registers there are.
  unsigned vector_registers = 16;

  bool has_fma = false;
  /// Conversion between float16 and float32 in hardware.
  bool has_f16c = false;
  bool has_avx2 = false;
  /// F, BW, DQ, VL and CD: what x86-64-v4 means.
  bool has_avx512 = false;
  bool has_avx512bf16 = false;
  bool has_avx512fp16 = false;
  /// 8-bit dot products into 32-bit lanes: AVX512-VNNI, AVX-VNNI, or AArch64's dotprod.
  bool has_vnni = false;
  bool has_amx_bf16 = false;
  bool has_amx_int8 = false;

  bool has_amx() const { return has_amx_bf16 || has_amx_int8; }
  /// Alignment of the read-only part of an image: the largest page that systems of this architecture use.
  uint64_t page_size() const { return arch == Arch::kAArch64 ? 65536 : 4096; }

  /// `<triple> cpu=<name> features=<list>`; equal texts mean equal code. `parse` reads it back.
  std::string text() const;

  /// Reads the form that `text` writes, or a name: `host`, `x86-64-v2`, `x86-64-v3`, `x86-64-v4`, `aarch64`, `riscv64`;
  /// a name may be followed by features, as in `x86-64-v4,+avx512bf16`. Throws CompileError for an unknown name,
  /// processor or feature, UnsupportedError for an architecture that this build has no back end for and for x86-64
  /// below v2.
  static Target parse(std::string_view text);

  bool operator==(const Target &other) const { return text() == other.text(); }
};

/// The processor that this process runs on, with what its operating system lets a program use. Computed once.
/// Throws UnsupportedError for a processor that is not supported.
const Target &host_target();

} // namespace oxyfuel::codegen
