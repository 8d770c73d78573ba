// The order of passes: the recipe of a compile.
#pragma once

#include "ir/graph/graph.h"
#include "ir/loop/loop.h"
#include "passes/pass_context.h"

namespace oxyfuel {

/// From imported graph to groups.
void run_graph_pipeline(graph::Graph &graph, PassContext &context);
/// The body of a loop step, whose inputs and outputs have layouts, to groups. The graph around it has been through its
/// pipeline.
void run_body_pipeline(graph::Graph &body, PassContext &context);
/// On each distinct kernel, between lowering and code generation.
void run_loop_pipeline(loop::Kernel &kernel, PassContext &context);

} // namespace oxyfuel
