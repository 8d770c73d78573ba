// The parts of the op table: each file of declarations gives its operators and import rules as plain arrays.
#pragma once

#include <span>

#include "ops/import.h"

namespace oxyfuel {

/// A rule's `overload` here may list several overloads, separated by spaces.
struct OpTable {
  std::span<const OpInfo> ops;
  std::span<const AtenRule> rules;
};

// One function a file of declarations, in the order of the table.
OpTable pointwise_arithmetic();
OpTable pointwise_compare();
OpTable pointwise_integer();
OpTable pointwise_math();
OpTable pointwise_bessel();
OpTable pointwise_activation();
OpTable pointwise_gradient();
OpTable pointwise_complex();
OpTable pointwise_cast();
OpTable view_ops();
OpTable indexed_ops();
OpTable window_ops();
OpTable gather_ops();
OpTable reduction_ops();
OpTable contraction_ops();
OpTable scatter_ops();
OpTable scan_ops();
OpTable sort_ops();
OpTable region_ops();
OpTable recurrence_ops();

// Import rules of overloads that become several operators.
OpTable aten_arithmetic();
OpTable aten_factory();
OpTable aten_view();
OpTable aten_pad();
OpTable aten_index();
OpTable aten_scatter();
OpTable aten_reduction();
OpTable aten_contraction();
OpTable aten_convolution();
OpTable aten_attention();
OpTable aten_norm();
OpTable aten_batch_norm();
OpTable aten_softmax();
OpTable aten_loss();
OpTable aten_loss_pair();
OpTable aten_regular();
OpTable aten_pool();
OpTable aten_adaptive_pool();
OpTable aten_resize();
OpTable aten_fold();
OpTable aten_grid_sample();
OpTable aten_recurrence();
OpTable aten_scan();
OpTable aten_sort();
OpTable aten_complex();

} // namespace oxyfuel
