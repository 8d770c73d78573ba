// Runs the steps of a plan over a frame.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/frame.h"
#include "runtime/program.h"
#include "runtime/tables.h"
#include "runtime/threads.h"

namespace oxyfuel::runtime {

/// Runs a kernel or copy step with the frame's buffers and slots.
OxyfuelStatus run_action(const Tables &tables, const Action &action, Frame &frame, Region &region);

/// "kernel layer_norm: index out of range".
std::string describe_failure(OxyfuelStatus status, const Step &step);

/// One call of a program, from outputs to steps. The frame has its layout, argument and bound buffers already.
class Executor {
public:
  Executor(const Tables &tables, const Call &call, Frame &frame, std::string *message)
      : tables_(tables), call_(call), frame_(frame), message_(message), is_watched_(call.step_times || call.begin_step),
        region_(call.threads) {}

  OxyfuelStatus allocate_early_outputs();
  OxyfuelStatus run_steps();
  /// Outputs that no step needed to be allocated for, and those that are not buffers. After the steps.
  OxyfuelStatus deliver_outputs();

private:
  OxyfuelStatus fail(OxyfuelStatus status, const std::string &text);
  OxyfuelStatus allocate_output(int32_t output);
  OxyfuelStatus allocate_before(const Action &action);
  OxyfuelStatus run_range(int32_t begin, int32_t end);
  OxyfuelStatus run_step(int32_t index);
  OxyfuelStatus run_watched(int32_t index); ///< the same for those who measure
  OxyfuelStatus run_loop(const Action &action, int32_t index);
  OxyfuelStatus run_branch(const Action &action, int32_t index);
  OxyfuelStatus run_while(const Action &action, int32_t index);
  OxyfuelStatus run_extern(const Action &action, int32_t index);
  OxyfuelStatus update_sizes();
  bool condition(const Action &action) const;

  const Tables &tables_;
  const Call &call_;
  Frame &frame_;
  std::string *message_;
  const bool is_watched_;
  Region region_;
};

} // namespace oxyfuel::runtime
