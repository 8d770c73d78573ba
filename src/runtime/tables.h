// A plan made ready to walk: steps flattened into arrays, kernels resolved, constants aligned, and the questions that
// every call asks answered once. Immutable after make().
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/abi.h"
#include "runtime/plan.h"
#include "support/memory.h"

namespace oxyfuel::runtime {

/// A part of one of the arrays of Tables.
struct Range {
  uint32_t begin = 0, count = 0;
};

/// A Step with its operands in flat arrays.
struct Action {
  Step::Kind kind;
  bool reverse;
  Slot grid;
  int32_t index, body, other, symbol;
  OxyfuelKernel kernel;
  int64_t grain;
  size_t scratch_bytes;
  Range buffers;  ///< in Tables::operand_buffers
  Range sizes;    ///< in Tables::operand_slots
  Range allocate; ///< in Tables::late_buffers: what must be allocated before this step
};

struct Tables {
  Plan plan;
  std::vector<OxyfuelKernel> kernels;
  OxyfuelKernel sizes_kernel = nullptr;
  AlignedMemory constants;

  std::vector<Action> actions, bind_actions;
  std::vector<int32_t> operand_buffers;
  std::vector<Slot> operand_slots;
  std::vector<int32_t> late_buffers;
  size_t most_buffers = 1, most_sizes = 1; ///< of one step

  std::vector<int32_t> argument_buffers, arena_buffers, dynamic_buffers, extern_buffers; ///< indices of Plan::buffers
  std::vector<int32_t> dynamic_index; ///< buffer → position in dynamic_buffers, or -1
  std::vector<int32_t> early_outputs; ///< outputs (kBuffer) whose sizes are known at the start of a call
  std::vector<int64_t> first_symbols; ///< values before the call's own are read: those that steps bind
  bool has_step_symbols = false;
  bool is_parallel = false; ///< some step may use several threads

  // Binding.
  std::vector<int32_t> bound_arguments; ///< arguments that bind steps read
  std::vector<int32_t> bound_buffers;   ///< buffers of kind kBound
  std::vector<Slot> bound_slots;        ///< slots that bind steps or the sizes of bound buffers use

  /// Null with a message when the plan does not hold together or there is no memory.
  static std::unique_ptr<Tables> make(Plan plan, std::vector<OxyfuelKernel> kernels, std::string &message);

private:
  Action flatten(const Step &step);
  void place_allocations();
  void list_buffers();
  void list_binding();
};

} // namespace oxyfuel::runtime
