// Pieces that activations and their gradients share.
#pragma once

#include <cmath>

#include "ops/op.h"

namespace oxyfuel {

auto sigmoid_of(auto x) { return x.like(1) / (x.like(1) + exp(-x)); }

constexpr double kGeluCubic = 0.044715;
constexpr double kGeluScale = M_SQRT2 * M_2_SQRTPI * 0.5; // sqrt(2 / pi)

/// sqrt(2 / pi) * (x + 0.044715 x^3), the argument of tanh in the approximate gelu.
auto gelu_tanh_argument(auto x) { return x.like(kGeluScale) * (x + x.like(kGeluCubic) * x * x * x); }

auto keep_in_0_6(auto x) {
  auto low = x.like(0), high = x.like(6);
  return select(x < low, low, select(x > high, high, x));
}

} // namespace oxyfuel
