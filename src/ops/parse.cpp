#include "ops/op.h"

namespace oxyfuel::graph {

std::unique_ptr<Graph> parse(const std::string &text) { return parse(text, find_op); }

} // namespace oxyfuel::graph
