// How much the kernels of a group do, for `explain` and rooflines: floating-point operations and bytes, at the hints of
// the symbols.
//
// Operations are counted on operators: two a product and sum of a contraction, OpInfo::cost an element of anything else
// (an element of the operand, where it is folded). The kernels of a group share them in proportion to the arithmetic in
// their loops: packing has none. Bytes are counted on buffers: the whole tensor, or what the loops load and store of it
// where that is less (rows of an embedding).
#pragma once

#include <vector>

#include "ir/graph/graph.h"
#include "passes/lower/lower.h"

namespace oxyfuel {

/// Of one run of a kernel.
struct Work {
  double flops = 0;
  double contractions = 0; ///< the part of `flops` in matrix products, convolutions and attention
  double bytes = 0;        ///< read and written
};

/// One entry a call of `lowered`, which `group` became.
std::vector<Work> work_of_calls(const graph::Node &group, const LoweredGroup &lowered);

} // namespace oxyfuel
