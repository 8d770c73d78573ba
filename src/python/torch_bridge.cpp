#include "python/torch_bridge.h"

#include <dlfcn.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <string>
#include <vector>

namespace oxyfuel::python {

namespace {

/// A message of PyTorch's becomes a Python error.
void set_error(void *, const char *kind, const char *message) {
  PyErr_Format(PyExc_RuntimeError, "%s: %s", kind ? kind : "DLPack", message ? message : "failed");
}

/// c10::ScalarType of an element type; part of PyTorch's serialised formats, so it does not change.
int32_t torch_dtype(DType dtype) {
  static constexpr int32_t codes[kDTypeCount] = {11, 0, 1, 2, 3, 4, 5, 15, 6, 7, 9, 10, 27, 28, 29};
  return codes[static_cast<int>(dtype)];
}

template <class F> void find(void *library, const char *name, F &function) {
  function = library ? reinterpret_cast<F>(dlsym(library, name)) : nullptr;
}

/// Makes a small tensor through the shim and looks at it through DLPack.
bool fast_outputs_work() {
  TorchBridge &bridge = torch_bridge();
  if (!bridge.empty_strided || !bridge.get_data || !bridge.release || !bridge.wrap)
    return false;
  const int64_t shape[] = {2, 3}, strides[] = {1, 2};
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    TensorHandle handle = nullptr;
    void *data = nullptr;
    if (bridge.empty_strided(2, shape, strides, torch_dtype(dtype), 0, -1, &handle) != 0 ||
        bridge.get_data(handle, &data) != 0)
      return false;
    nb::object tensor = nb::steal(bridge.wrap(handle));
    bridge.release(handle);
    DLTensor seen;
    DType seen_dtype;
    if (!tensor || bridge.exchange->dltensor_from_py_object_no_sync(tensor.ptr(), &seen) != 0) {
      PyErr_Clear();
      return false;
    }
    if (seen.data != data || seen.ndim != 2 || seen.shape[1] != 3 || seen.strides[1] != 2 ||
        !from_dlpack(seen.dtype, seen_dtype) || seen_dtype != dtype)
      return false;
  }
  return true;
}

/// Whether `handle_of` gives a tensor with the data, and the views, of the Python object `tensor`.
bool handles_work(nb::handle tensor) {
  TorchBridge &bridge = torch_bridge();
  DLTensor seen;
  if (!bridge.has_fast_outputs || !bridge.reinterpret ||
      bridge.exchange->dltensor_from_py_object_no_sync(tensor.ptr(), &seen) != 0 || !seen.data) {
    PyErr_Clear();
    return false;
  }
  void *data = nullptr;
  return bridge.get_data(handle_of(tensor.ptr()), &data) == 0 && data == seen.data;
}

struct Borrowed {
  DLManagedTensorVersioned managed{};
  std::vector<int64_t> sizes;
};

/// Takes ownership of what an API function allocated.
PyObject *to_python(DLManagedTensorVersioned *managed) {
  void *result = nullptr;
  if (torch_bridge().exchange->managed_tensor_to_py_object_no_sync(managed, &result) == 0)
    return static_cast<PyObject *>(result);
  if (!PyErr_Occurred())
    PyErr_SetString(PyExc_RuntimeError, "PyTorch made no tensor of a DLPack tensor");
  return nullptr;
}

PyObject *wrap(TensorHandle handle) {
  PyObject *result = torch_bridge().wrap(handle);
  torch_bridge().release(handle);
  return result;
}

nb::tuple to_tuple(int32_t rank, const int64_t *values) {
  nb::object tuple = nb::steal(PyTuple_New(rank));
  for (int32_t i = 0; i < rank; ++i)
    PyTuple_SET_ITEM(tuple.ptr(), i, PyLong_FromLongLong(values[i]));
  return nb::borrow<nb::tuple>(tuple);
}

void attach(nb::capsule exchange, const std::string &library_folder, nb::object sample, nb::object get_num_threads) {
  TorchBridge &bridge = torch_bridge();
  bridge.exchange = static_cast<const DLPackExchangeAPI *>(exchange.data());
  if (!bridge.exchange || bridge.exchange->header.version.major != DLPACK_MAJOR_VERSION)
    throw std::runtime_error("this PyTorch offers another version of DLPack's exchange API than oxyfuel was built for");
  bridge.python_thread_count = get_num_threads.release().ptr();
  void *cpu = dlopen((library_folder + "/libtorch_cpu.so").c_str(), RTLD_NOW | RTLD_NOLOAD);
  void *python = dlopen((library_folder + "/libtorch_python.so").c_str(), RTLD_NOW | RTLD_NOLOAD);
  find(cpu, "aoti_torch_empty_strided", bridge.empty_strided);
  find(cpu, "aoti_torch__reinterpret_tensor", bridge.reinterpret);
  find(cpu, "aoti_torch_get_data_ptr", bridge.get_data);
  find(cpu, "aoti_torch_delete_tensor_object", bridge.release);
  find(cpu, "torch_get_num_threads", bridge.get_thread_count);
  find(python, "_Z16THPVariable_WrapRKN2at10TensorBaseE", bridge.wrap);
  bridge.has_fast_outputs = fast_outputs_work();
  bridge.has_handles = handles_work(sample);
}

} // namespace

TorchBridge &torch_bridge() {
  static TorchBridge bridge;
  return bridge;
}

bool from_dlpack(DLDataType type, DType &dtype) {
  if (type.lanes != 1)
    return false;
  const auto choose = [&](std::initializer_list<DType> candidates) {
    for (DType candidate : candidates)
      if (size_of(candidate) * 8 == type.bits) {
        dtype = candidate;
        return true;
      }
    return false;
  };
  switch (type.code) {
  case kDLBool: return choose({DType::kBool});
  case kDLUInt: return choose({DType::kU8, DType::kU16, DType::kU32, DType::kU64});
  case kDLInt: return choose({DType::kI8, DType::kI16, DType::kI32, DType::kI64});
  case kDLFloat: return choose({DType::kF16, DType::kF32, DType::kF64});
  case kDLBfloat: return choose({DType::kBF16});
  case kDLComplex: return choose({DType::kC64, DType::kC128});
  default: return type.bits == 8 && choose({DType::kU8});
  }
}

DLDataType to_dlpack(DType dtype) {
  uint8_t code = kDLUInt;
  if (is_bool(dtype))
    code = kDLBool;
  else if (is_signed_integer(dtype))
    code = kDLInt;
  else if (dtype == DType::kBF16)
    code = kDLBfloat;
  else if (is_float(dtype))
    code = kDLFloat;
  else if (is_complex(dtype))
    code = kDLComplex;
  return {code, static_cast<uint8_t>(size_of(dtype) * 8), 1};
}

PyObject *new_tensor(DType dtype, int32_t rank, const int64_t *shape, const int64_t *strides, void **data) {
  const TorchBridge &bridge = torch_bridge();
  if (bridge.has_fast_outputs) {
    TensorHandle handle = nullptr;
    if (bridge.empty_strided(rank, shape, strides, torch_dtype(dtype), 0, -1, &handle) != 0) {
      PyErr_SetString(PyExc_RuntimeError, "PyTorch has no memory for a result");
      return nullptr;
    }
    bridge.get_data(handle, data);
    return wrap(handle);
  }
  DLTensor wanted{
      nullptr, {kDLCPU, 0}, rank, to_dlpack(dtype), const_cast<int64_t *>(shape), const_cast<int64_t *>(strides), 0};
  // The allocator makes contiguous tensors; others are made as a flat one and a view.
  int64_t elements = 1, expected = 1;
  bool is_contiguous = true, is_empty = false;
  for (int32_t axis = rank; axis-- > 0;) {
    is_empty |= shape[axis] == 0;
    is_contiguous &= shape[axis] == 1 || strides[axis] == expected;
    expected *= shape[axis];
    elements += (shape[axis] - 1) * strides[axis];
  }
  if (is_empty)
    elements = 0;
  int64_t one = 1;
  if (!is_contiguous)
    wanted.ndim = 1, wanted.shape = &elements, wanted.strides = &one;
  DLManagedTensorVersioned *managed = nullptr;
  if (bridge.exchange->managed_tensor_allocator(&wanted, &managed, nullptr, set_error) != 0)
    return nullptr;
  *data = managed->dl_tensor.data;
  PyObject *tensor = to_python(managed);
  if (!tensor || is_contiguous)
    return tensor;
  PyObject *view = view_of(tensor, rank, shape, strides, 0);
  Py_DECREF(tensor);
  return view;
}

PyObject *borrow_memory(void *data, DLDataType type, int32_t rank, const int64_t *shape, const int64_t *strides) {
  auto borrowed = std::make_unique<Borrowed>();
  borrowed->sizes.assign(shape, shape + rank);
  borrowed->sizes.insert(borrowed->sizes.end(), strides, strides + rank);
  DLManagedTensorVersioned &managed = borrowed->managed;
  managed.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION};
  managed.manager_ctx = borrowed.get();
  managed.deleter = [](DLManagedTensorVersioned *self) { delete static_cast<Borrowed *>(self->manager_ctx); };
  managed.dl_tensor = {data, {kDLCPU, 0}, rank, type, borrowed->sizes.data(), borrowed->sizes.data() + rank, 0};
  PyObject *tensor = to_python(&managed);
  if (tensor)
    borrowed.release(); // the deleter's from now on
  return tensor;
}

PyObject *view_of(PyObject *tensor, int32_t rank, const int64_t *shape, const int64_t *strides, int64_t offset) {
  const TorchBridge &bridge = torch_bridge();
  if (bridge.has_handles) {
    TensorHandle handle = nullptr;
    if (bridge.reinterpret(handle_of(tensor), rank, shape, strides, offset, &handle) != 0) {
      PyErr_SetString(PyExc_RuntimeError, "PyTorch cannot make a view of a result");
      return nullptr;
    }
    return wrap(handle);
  }
  try {
    nb::handle base(tensor);
    const int64_t start = nb::cast<int64_t>(base.attr("storage_offset")()) + offset;
    return base.attr("as_strided")(to_tuple(rank, shape), to_tuple(rank, strides), start).release().ptr();
  } catch (nb::python_error &error) {
    error.restore();
    return nullptr;
  }
}

int thread_count() {
  const TorchBridge &bridge = torch_bridge();
  uint32_t count = 1;
  if (bridge.get_thread_count && bridge.get_thread_count(&count) == 0)
    return static_cast<int>(count);
  return nb::cast<int>(nb::handle(bridge.python_thread_count)());
}

void bind_bridge(nb::module_ &module) {
  module.def("attach", attach, nb::arg("exchange"), nb::arg("library_folder"), nb::arg("sample"),
             nb::arg("get_num_threads"),
             "Finds PyTorch's functions; `exchange` is torch.Tensor.__dlpack_c_exchange_api__, `sample` a tensor.");
  module.def("bridge_state", [] {
    nb::dict state;
    state["fast_outputs"] = torch_bridge().has_fast_outputs;
    state["handles"] = torch_bridge().has_handles;
    return state;
  });
}

} // namespace oxyfuel::python
