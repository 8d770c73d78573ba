// Python values as what Graph IR holds.
#pragma once

#include <vector>

#include "ops/import.h"
#include "python/module.h"

namespace oxyfuel::python {

/// A size: an integer, or an Expr of the same graph.
Expr to_size(nb::handle value, ExprContext &context);
std::vector<Expr> to_sizes(nb::handle sequence, ExprContext &context);
/// A pair (dtype, shape).
graph::Type to_type(nb::handle pair, ExprContext &context);
/// None, Value, DType, Expr, bool, int, float, complex, str, or a list or tuple of these. TypeError for anything else.
AtenArgument to_argument(nb::handle value);
graph::Attribute to_attribute(nb::handle value);

} // namespace oxyfuel::python
