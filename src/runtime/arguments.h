// What a call's arguments must look like, and the symbols that they give.
#pragma once

#include <string>
#include <vector>

#include "runtime/program.h"

namespace oxyfuel::runtime {

/// Checks ranks and element types where the call tells them; before any shape is read.
OxyfuelStatus check_kinds(const Plan &plan, const Call &call, std::string *message);

/// Sets the symbols that come from arguments; those that steps bind stay as they are.
void read_symbols(const Plan &plan, const Call &call, std::vector<int64_t> &symbols);

/// Compares shapes and strides with the plan's slots. Strides count only where they can matter: axes of extent over 1
/// of tensors with elements. The message names the argument, what was found and what is wanted.
OxyfuelStatus check_arguments(const Plan &plan, const Call &call, const int64_t *slots, std::string *message);

} // namespace oxyfuel::runtime
