// How tensors cross to PyTorch and back, without linking libtorch: DLPack's C exchange API for arguments and for
// tensors over our memory, and for new tensors PyTorch's C shim where this PyTorch has it as expected (twice as fast as
// DLPack's allocator, which is the fallback). `attach` finds the functions and tries them before anything relies on
// them.
#pragma once

#include <dlpack/dlpack.h>

#include <cstdint>

#include "python/module.h"
#include "support/dtype.h"

namespace oxyfuel::python {

/// An at::Tensor, as PyTorch's C shim hands it around.
using TensorHandle = void *;

struct TorchBridge {
  const DLPackExchangeAPI *exchange = nullptr;

  // PyTorch's C shim (torch/csrc/inductor/aoti_torch/c/shim.h, torch/csrc/stable/c/shim.h); null where it is missing.
  int32_t (*empty_strided)(int64_t rank, const int64_t *shape, const int64_t *strides, int32_t dtype,
                           int32_t device_type, int32_t device_index, TensorHandle *result) = nullptr;
  int32_t (*reinterpret)(TensorHandle self, int64_t rank, const int64_t *shape, const int64_t *strides, int64_t offset,
                         TensorHandle *result) = nullptr;
  int32_t (*get_data)(TensorHandle tensor, void **data) = nullptr;
  int32_t (*release)(TensorHandle tensor) = nullptr;
  int32_t (*get_thread_count)(uint32_t *count) = nullptr;
  PyObject *(*wrap)(const void *tensor) = nullptr; ///< THPVariable_Wrap
  PyObject *python_thread_count = nullptr;         ///< torch.get_num_threads, where the shim lacks it

  bool has_fast_outputs = false; ///< empty_strided, get_data, release and wrap gave a right tensor
  bool has_handles = false;      ///< `handle_of` gives the tensor behind a Python object
};

TorchBridge &torch_bridge();

/// The at::Tensor inside a torch.Tensor object: THPVariable{PyObject_HEAD; at::Tensor cdata}. Only with `has_handles`.
inline TensorHandle handle_of(PyObject *tensor) { return reinterpret_cast<char *>(tensor) + sizeof(PyObject); }

/// False for element types that plans do not know. The 8-bit floats count as u8.
bool from_dlpack(DLDataType type, DType &dtype);
DLDataType to_dlpack(DType dtype);

/// A new tensor of PyTorch's own memory; null with a Python error set.
PyObject *new_tensor(DType dtype, int32_t rank, const int64_t *shape, const int64_t *strides, void **data);
/// A tensor over memory that stays ours; it must be gone before the memory is.
PyObject *borrow_memory(void *data, DLDataType type, int32_t rank, const int64_t *shape, const int64_t *strides);
/// A view of `tensor`; `offset` counts from the tensor's own first element.
PyObject *view_of(PyObject *tensor, int32_t rank, const int64_t *shape, const int64_t *strides, int64_t offset);
/// torch.get_num_threads().
int thread_count();

void bind_bridge(nb::module_ &module);

} // namespace oxyfuel::python
