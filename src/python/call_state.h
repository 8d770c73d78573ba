// What one call of an executable holds: the arguments as the runtime wants them, the tensors made so far, and the
// Python exception of an extern step. States are kept and used again, so a call allocates nothing of ours.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "python/executable.h"
#include "python/profiling.h"

namespace oxyfuel::python {

/// An inference tensor seen at a place; asking it for a version counter would raise each time.
struct SeenInference {
  const void *object = nullptr, *data = nullptr;
};

struct CallState {
  explicit CallState(Executable &executable);
  ~CallState() { finish(); }
  CallState(const CallState &) = delete;

  void start(nb::list arguments);
  /// Reads the tensor at `position` as the plan's argument `i`. Throws when it is not a tensor of this process's
  /// memory.
  void read_tensor(size_t i, int32_t position);
  void read_integer(size_t i, int32_t position);
  void fill(runtime::Call &call);
  /// Shows the steps of `call` in PyTorch's profiler.
  void show_steps(runtime::Call &call);
  /// Output `index` of the program; may be asked for more than once.
  nb::object output(int32_t index);
  void finish();

  bool has_error() const { return error != nullptr; }
  [[noreturn]] void raise_error();

  // The runtime's callbacks.
  OxyfuelStatus allocate(int32_t index, DType dtype, int32_t rank, const int64_t *shape, const int64_t *strides,
                         void **data);
  OxyfuelStatus run_extern(const runtime::ExternStep &step);
  OxyfuelStatus deliver(int32_t index, const runtime::Output &description, const int64_t *shape, const int64_t *strides,
                        int64_t offset);

  Executable &executable;
  nb::list arguments; ///< the caller's; alive as long as the call
  // By position in the plan's arguments.
  std::vector<PyObject *> tensors; ///< borrowed
  std::vector<void *> data;
  std::vector<const int64_t *> shapes, strides;
  std::vector<int32_t> ranks;
  std::vector<DType> dtypes;
  std::vector<uint64_t> fingerprints;
  std::vector<int64_t> integers;
  std::vector<SeenInference> inference;
  StepRanges ranges;
  std::vector<runtime::StepTime> times; ///< of this call, while steps are recorded

  std::vector<nb::object> outputs;        ///< a plan output each
  std::vector<nb::object> extern_results; ///< a plan buffer each
  /// Extern results as PyTorch made them, by plan buffer, where kernels read copies in the layout that they expect.
  std::map<int32_t, nb::object> as_made;
  bool holds_extern_results = false;
  std::string message;
  PyThreadState *thread = nullptr; ///< while the interpreter lock is released
  PyObject *error = nullptr;       ///< an exception that a callback met

private:
  void keep_error();
  void drop_results_before(int32_t step);
  nb::object operand(const runtime::ExternStep &step, size_t i, int32_t rank, const int64_t *sizes);
  bool take_result(const runtime::ExternStep &step, size_t i, nb::object tensor, bool has_known_sizes, int32_t rank,
                   const int64_t *sizes);
  bool overlaps_operand(const runtime::ExternStep &step, size_t operand_count, const void *begin,
                        const void *end) const;
  void call_function(const runtime::ExternStep &step);
};

} // namespace oxyfuel::python
