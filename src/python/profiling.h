// Time of single steps: totals that an executable keeps while steps are recorded, and ranges in torch.profiler while
// that is active. A call that is not watched pays for looking at two flags.
#pragma once

#include <cstdint>
#include <vector>

#include "python/module.h"
#include "runtime/program.h"

namespace oxyfuel::python {

/// Whether calls add to the step times of their executables.
bool records_steps();

/// Whether a profiler of PyTorch is on. Holds the interpreter lock.
bool torch_profiler_is_on();

/// The ranges that one call shows in PyTorch's profiler, one a step: "oxyfuel::matmul_add (model.py:41)".
class StepRanges {
public:
  /// Errors of the profiler are reported and do not stop the program. The interpreter lock is held.
  void begin(const runtime::Plan &plan, int32_t step);
  void end(int32_t step);

private:
  std::vector<nb::object> ranges_; ///< made when first needed
};

void bind_profiling(nb::module_ &module);

} // namespace oxyfuel::python
