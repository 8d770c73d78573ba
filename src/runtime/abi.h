// The contract between generated code and the runtime. Generated code sees nothing else of the process: all that an
// image calls goes through HostTable, all memory that it touches through KernelArgs. Plain C layout, no C++ types.
// codegen/ emits these layouts by field index; a change here is a change of kAbiVersion.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

/// Part of every cache key and artifact: images made under another version are refused.
enum { kOxyfuelAbiVersion = 1 };

/// What a kernel returns. Kernels never unwind.
enum OxyfuelStatus : int32_t {
  kOxyfuelOk = 0,
  kOxyfuelIndexOutOfRange = 1, ///< an index operand lies outside its axis (eager raises IndexError)
  kOxyfuelDivisionByZero = 2,  ///< integer division by zero (eager raises RuntimeError "ZeroDivisionError")
  kOxyfuelAssertFailed = 3,    ///< a data-dependent assertion of the program failed
  kOxyfuelOutOfMemory = 4,
  kOxyfuelExternFailed = 5, ///< an extern step raised; the language binding holds the exception
  kOxyfuelBadArgument =
      6, ///< an argument's shape, strides or type is not what the plan was made for (never from kernels)
};

/// Functions of the host that images may call, by field index. Scalar libm functions in double precision serve element
/// types and functions that codegen does not expand itself. All may be called from any worker thread.
struct OxyfuelHostTable {
  /// Unary double functions, indexed by OxyfuelHostFunction.
  double (*const *unary)(double);
  /// Binary double functions, indexed by OxyfuelHostFunction2.
  double (*const *binary)(double, double);
};

enum OxyfuelHostFunction : int32_t {
  kHostExp,
  kHostExp2,
  kHostExpm1,
  kHostLog,
  kHostLog2,
  kHostLog10,
  kHostLog1p,
  kHostSin,
  kHostCos,
  kHostTan,
  kHostAsin,
  kHostAcos,
  kHostAtan,
  kHostSinh,
  kHostCosh,
  kHostTanh,
  kHostAsinh,
  kHostAcosh,
  kHostAtanh,
  kHostErf,
  kHostErfc,
  kHostLgamma,
  kHostTgamma,
  kHostCbrt,
  // Float entry points, for functions whose eager float32 result is libm's own (argument and result are exact floats).
  kHostLgammaF,
  kHostTgammaF,
  kHostSinF,
  kHostCosF,
  kHostTanF,
  kHostFunctionCount
};
enum OxyfuelHostFunction2 : int32_t {
  kHostPow,
  kHostAtan2,
  kHostFmod,
  kHostHypot,
  kHostNextafter,
  kHostPowF,
  kHostAtan2F,
  kHostNextafterF,
  kHostFunction2Count
};

/// One kernel's code. Runs the tasks [begin, end) of its grid. Tasks are independent of one another.
///  - buffers: base pointer of each buffer parameter, in the order of the kernel's signature. Element alignment only is
///    guaranteed for arguments of the program; arena buffers are 64-byte aligned.
///  - sizes:   value of each size parameter (extents, strides, offsets in elements, time step), in the signature's
///  order.
///  - scratch: this worker's private memory, 64-byte aligned, at least the kernel's scratch_bytes long.
/// Returns an OxyfuelStatus; the first non-zero one stops the plan.
typedef int32_t (*OxyfuelKernel)(void *const *buffers, const int64_t *sizes, int64_t begin, int64_t end, void *scratch,
                                 const OxyfuelHostTable *host);

} // extern "C"
