// What losses share.
#pragma once

#include "ops/compose.h"

namespace oxyfuel {

/// at::Reduction.
enum Reduction : int64_t { kNone = 0, kMean = 1, kSum = 2 };

/// The result of a loss from the loss of each element; argument `reduction` says how they are combined, the mean when
/// absent.
Values reduced_loss(const AtenCall &call, Term loss, int reduction);
/// The gradient of each element from that of the reduced loss: divided by the number of elements for a mean.
Term share_of_gradient(const AtenCall &call, Term gradient, const Shape &shape, int reduction);

} // namespace oxyfuel
