// A compiled program that takes and gives PyTorch tensors. Immutable after construction, so any number of Python
// threads may call it; the interpreter lock is released while kernels run.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "python/module.h"
#include "runtime/program.h"

namespace oxyfuel::python {

/// What one output of the Python function is made of.
struct OutputRecipe {
  enum class Kind : uint8_t {
    kConstant, ///< `constant`, None included
    kArgument, ///< the argument itself
    kView,     ///< a strided view of an argument
    kResult,   ///< output `index` of the program
    kShared,   ///< a strided view of that output: eager has both in one memory
    kInteger,  ///< the same, a rank-0 i64, as a Python int
    kBoolean,
  };
  Kind kind = Kind::kConstant;
  int32_t index = 0; ///< of the argument, or of the program's output
  nb::object constant;
  std::vector<int64_t> shape, strides; ///< kView, kShared
  int64_t offset = 0;                  ///< the same, in elements, from the first of what is viewed
};

/// A step that runs in PyTorch: `function(tensors, integers)` gives the list of result tensors, or with `binds` a pair
/// of that list and the values of the symbols `binds`.
struct ExternFunction {
  nb::object function;
  std::vector<int32_t> operand_ranks, result_ranks;
  std::vector<std::vector<int32_t>> result_orders; ///< axes, outermost first; used where sizes are not known beforehand
  int32_t integer_count = 0;
  std::vector<int32_t> binds;
};

/// How the arguments of the Python function map to the plan's.
struct Signature {
  int32_t argument_count = 0;
  std::vector<int32_t> positions; ///< of each argument of the plan; from argument_count on, constants
  std::vector<nb::object> constants;
  std::vector<OutputRecipe> outputs;
  std::vector<ExternFunction> externs;
};

class Executable {
public:
  /// ValueError when bytes and signature do not fit.
  Executable(nb::bytes program, Signature signature);
  ~Executable();

  /// Calls the program with `arguments`, which is emptied as PyTorch's boxed calls want it, and gives the outputs.
  nb::list call(nb::list arguments);

  runtime::Program &program() { return *program_; }
  /// (kind, name, location, runs, nanoseconds, begin, end) of each step of the plan over all calls while steps were
  /// recorded; begin and end are those of the latest run, in nanoseconds of a clock that never goes back. Empty when
  /// there were none.
  nb::list step_times();
  void forget_step_times() { times_.clear(); }

private:
  friend struct CallState;
  void add_times(const std::vector<runtime::StepTime> &times);
  std::unique_ptr<struct CallState> take_state();
  void find_last_uses();

  Signature signature_;
  std::unique_ptr<runtime::Program> program_;
  std::vector<uint8_t> is_bound_;                       ///< a plan argument each: bind steps read it
  std::vector<int32_t> last_use_;                       ///< a plan buffer each: last step that uses it
  std::vector<uint8_t> is_delivered_;                   ///< a plan buffer each: an output is that extern result
  std::vector<uint8_t> is_viewed_;                      ///< a plan output each: a result is a view of it
  std::vector<std::unique_ptr<struct CallState>> idle_; ///< guarded by the interpreter lock
  std::vector<runtime::StepTime> times_;                ///< a step each; guarded by the interpreter lock
  bool poison_ = false;
};

/// Part of every fingerprint of static arguments: rises when an optimiser has changed them behind their version
/// counters.
void bump_epoch();

} // namespace oxyfuel::python
