/* The C interface of Oxyfuel's runtime: loads a compiled program from memory and runs it. Needs neither Python nor
 * PyTorch nor LLVM. Functions may be called from several threads at once; one program may run on several threads at
 * once. */
#ifndef OXYFUEL_RUNTIME_H
#define OXYFUEL_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#define OXYFUEL_API __attribute__((visibility("default")))
#define OXYFUEL_MAX_RANK 16

#ifdef __cplusplus
extern "C" {
#endif

/** Element types, as in the artifact format. */
enum oxyfuel_dtype {
  OXYFUEL_BOOL = 0,
  OXYFUEL_U8 = 1,
  OXYFUEL_I8 = 2,
  OXYFUEL_I16 = 3,
  OXYFUEL_I32 = 4,
  OXYFUEL_I64 = 5,
  OXYFUEL_F16 = 6,
  OXYFUEL_BF16 = 7,
  OXYFUEL_F32 = 8,
  OXYFUEL_F64 = 9,
  OXYFUEL_C64 = 10,
  OXYFUEL_C128 = 11,
  OXYFUEL_U16 = 12,
  OXYFUEL_U32 = 13,
  OXYFUEL_U64 = 14
};

typedef struct oxyfuel_program oxyfuel_program;

/** A tensor in memory; strides count elements. An integer argument of a program is a tensor of rank 0 and type i64. */
typedef struct oxyfuel_tensor {
  void *data;
  int32_t dtype;
  int32_t rank;
  int64_t shape[OXYFUEL_MAX_RANK];
  int64_t strides[OXYFUEL_MAX_RANK];
  void *owned; /**< memory that oxyfuel_release frees; null for views and arguments */
} oxyfuel_tensor;

/** Loads a program. The bytes may be freed afterwards. Null on failure: oxyfuel_error() says why. */
OXYFUEL_API oxyfuel_program *oxyfuel_load(const void *bytes, size_t size);
OXYFUEL_API void oxyfuel_unload(oxyfuel_program *program);

OXYFUEL_API size_t oxyfuel_argument_count(const oxyfuel_program *program);
OXYFUEL_API size_t oxyfuel_output_count(const oxyfuel_program *program);
/** Name of an argument, for messages; null when there is no such argument. */
OXYFUEL_API const char *oxyfuel_argument_name(const oxyfuel_program *program, size_t index);

/** Runs the program on all its arguments with up to `threads` threads and fills in all its outputs. An output may be a
 * view of an argument or of another output. Returns 0, or a status (abi.h) that oxyfuel_error() describes; then no
 * output holds memory. */
OXYFUEL_API int oxyfuel_run(oxyfuel_program *program, const oxyfuel_tensor *arguments, oxyfuel_tensor *outputs,
                            int threads);
/** Frees the memory of outputs of oxyfuel_run. */
OXYFUEL_API void oxyfuel_release(oxyfuel_tensor *outputs, size_t count);

/** Forgets what was made from weights; to be called after writing to them. */
OXYFUEL_API void oxyfuel_invalidate(oxyfuel_program *program);

/** Why the last call on this thread failed; valid until the next call on this thread. */
OXYFUEL_API const char *oxyfuel_error(void);

#ifdef __cplusplus
}
#endif

#endif
