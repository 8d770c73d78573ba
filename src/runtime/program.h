// A program ready to run: a plan, the code of its kernels, and what calls leave behind for the next call (arenas,
// offsets for sizes seen before, bound weights). All members may be called from any number of threads at once. Nothing
// throws.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/abi.h"
#include "runtime/image.h"
#include "runtime/plan.h"

namespace oxyfuel::runtime {

/// What an extern step is given. The pointers are valid during the handler's call only.
struct ExternStep {
  int32_t id;           ///< Step::index
  int32_t step;         ///< position in Plan::steps
  const int64_t *slots; ///< values of all slots before the step
  void **buffers; ///< of Step::buffers, in order. The handler sets those of kind kExtern; other changes are ignored
  int32_t buffer_count;
  int64_t *symbols; ///< values of all symbols. The handler sets those that the step binds (kStep)
};

/// How often one step of a plan ran, and when.
struct StepTime {
  int64_t runs = 0;
  int64_t nanoseconds = 0;    ///< of all runs
  int64_t begin = 0, end = 0; ///< of the latest run, on the clock of monotonic_nanoseconds
};

/// One call. The language binding fills it in. Callbacks run on the calling thread, in this order:
///   allocate (outputs whose sizes are known), begin, steps (with run_extern, and allocate for outputs whose sizes an
///   extern step decides), end, deliver.
/// So a binding may hold its interpreter lock when it calls run(), release it in begin and take it again in end.
struct Call {
  // By position in Plan::arguments; the entries of the other kind are not read.
  void *const *argument_data = nullptr;
  const int64_t *const *argument_shapes = nullptr;
  const int64_t *const *argument_strides = nullptr; ///< in elements; a null entry means contiguous
  const int64_t *integers = nullptr;
  const int32_t *argument_ranks = nullptr; ///< checked when given
  const DType *argument_dtypes = nullptr;  ///< checked when given

  /// Static arguments: any number that changes when the binding knows that the contents changed (version counter).
  /// The address counts by itself. Null: addresses and samples alone decide.
  const uint64_t *fingerprints = nullptr;

  int threads = 1; ///< wanted, the caller included (torch.get_num_threads); capped by thread_limit()

  void *context = nullptr; ///< handed to the callbacks

  /// Makes output `output` (Output::Kind::kBuffer) and sets `data` (may stay null when it has no elements). Called once
  /// an output and call, before the first step that writes it. Strides in elements. A status other than kOxyfuelOk ends
  /// the run.
  OxyfuelStatus (*allocate)(void *context, int32_t output, DType dtype, int32_t rank, const int64_t *shape,
                            const int64_t *strides, void **data) = nullptr;

  /// Called when all is ready and the steps are about to run; then `end` is called, also when a step fails. Not called
  /// when the call fails before (arguments that do not fit, no memory). May be null.
  void (*begin)(void *context) = nullptr;
  void (*end)(void *context) = nullptr;

  /// Runs an extern step, outside of any parallel region. May be null when the plan has none. kOxyfuelExternFailed: the
  /// binding holds the exception.
  OxyfuelStatus (*run_extern)(void *context, const ExternStep &step) = nullptr;

  /// Called after the last step for every output that is not of kind kBuffer, in order, with the values of its slots;
  /// `offset` is the storage offset of a view or the value of a kInteger. May be null when there are none.
  OxyfuelStatus (*deliver)(void *context, int32_t output, const Output &description, const int64_t *shape,
                           const int64_t *strides, int64_t offset) = nullptr;

  /// Profiling: when given, run() adds each run of a step to step_times[step] (plan.steps.size() entries; a control
  /// step's time includes its body's). About 50 ns a step; without it, a test of this pointer.
  StepTime *step_times = nullptr;

  /// Told when each step starts and ends, on the calling thread; both or neither. For profilers with a view of their
  /// own. `end_step` is also called for a step that fails.
  void (*begin_step)(void *context, int32_t step) = nullptr;
  void (*end_step)(void *context, int32_t step) = nullptr;

  /// Testing: fills the arena and fresh outputs with 0xFF bytes (NaN) before use.
  bool poison = false;
};

class Program {
public:
  /// Checks the plan against its images and maps their code. Null with a message when they do not fit.
  static std::unique_ptr<Program> load(Plan plan, const std::vector<CodeImage> &images, std::string &message);
  /// The same with kernels that exist in the process already (tests, kernels from outside): one a Plan::kernels entry.
  static std::unique_ptr<Program> make(Plan plan, std::vector<OxyfuelKernel> kernels, std::string &message);
  ~Program();
  Program(const Program &) = delete;
  Program &operator=(const Program &) = delete;

  const Plan &plan() const;

  /// Runs the plan once. On failure sets `message` (may be null) and leaves the program fit for the next call; outputs
  /// and mutated arguments then hold anything.
  OxyfuelStatus run(const Call &call, std::string *message);

  /// Forgets what was made from static arguments: the next call binds them again.
  void invalidate();

  /// How many tuples of static arguments stay bound at once (default 64; one a module instance that shares the
  /// program).
  void set_binding_limit(int limit);

  /// Bytes held between calls: arenas of idle frames, and bound weights.
  struct Memory {
    size_t arenas = 0, bindings = 0;
  };
  Memory memory() const;
  /// Gives idle arenas back to the system.
  void trim();

  /// Where buffers lie at the sizes that were met last, for `explain`; empty before the first call.
  struct PlannedBuffer {
    int32_t buffer = 0; ///< index into Plan::buffers
    int64_t bytes = 0;
    int64_t offset = -1; ///< in the arena; -1 for buffers outside of it
  };
  struct MemoryMap {
    int64_t arena_bytes = 0;
    std::vector<PlannedBuffer> buffers; ///< those whose sizes are known
  };
  MemoryMap memory_map() const;

  /// Times that bind steps ran, for tests and `explain`.
  uint64_t bind_count() const;

private:
  struct Implementation;
  explicit Program(std::unique_ptr<Implementation> implementation);
  std::unique_ptr<Implementation> implementation_;
};

} // namespace oxyfuel::runtime
