// Moments that normalisations share.
#pragma once

#include "ops/compose.h"

namespace oxyfuel {

struct Moments {
  Term mean, variance; ///< axes kept with size 1; the variance divides by n
  Term n;              ///< number of elements, rank 0
};
Moments moments_of(Term x, const std::vector<int64_t> &axes);
/// 1 / sqrt(variance + eps)
Term inverse_deviation(Term variance, double eps);

} // namespace oxyfuel
