// Which code of a program is which kernel, for debuggers and profilers.
#pragma once

#include <vector>

#include "runtime/image.h"
#include "runtime/plan.h"
#include "support/debug_object.h"

namespace oxyfuel::runtime {

/// A symbol a kernel of the plan: named after the first step that runs it, at that step's place in the user's program.
std::vector<CodeSymbol> name_code(const Plan &plan, const std::vector<CodeImage> &images, const LoadedImages &loaded);

} // namespace oxyfuel::runtime
