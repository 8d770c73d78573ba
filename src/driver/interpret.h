// A program without machine code: the plan that `compile` makes, its kernels run by the interpreter of Loop IR. What
// differs from the compiled program is a bug of code generation; what differs from the graph's interpreter, one of the
// passes or of lowering.
#pragma once

#include <cstddef>
#include <vector>

#include "driver/compile.h"
#include "ops/interpret.h"

namespace oxyfuel {

/// Results of `graph`, which is used up and has no symbols and no externs. `inputs` hold, for each input of the graph,
/// the bytes from its first element to its last, in the strides that the graph gives it; arguments that the program
/// writes change there. Throws what `compile` throws, and InternalError when a kernel fails.
std::vector<graph::Tensor> interpret_kernels(graph::Graph &graph, const CompileSettings &settings,
                                             std::vector<std::vector<std::byte>> &inputs);

} // namespace oxyfuel
