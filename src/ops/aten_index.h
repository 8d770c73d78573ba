// What reading and writing at computed places share.
#pragma once

#include "ops/import.h"

namespace oxyfuel {

/// The list of places at argument `i`, null for whole axes; UnsupportedError for masks.
std::vector<graph::Value *> places_of(const AtenCall &call, int i);
/// Rank 0 as rank 1 with one element.
graph::Value *at_least_1d(GraphBuilder &b, graph::Value *x);

} // namespace oxyfuel
