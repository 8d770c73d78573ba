// Runs Graph IR on values: the reference that graph passes and lowering are tested against.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ir/graph/graph.h"

namespace oxyfuel::graph {

/// A tensor of the interpreter: row-major, owned.
struct Tensor {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<std::byte> data;
};
/// Runs the program on values, operator by operator, slowly and simply (operators through OpInfo::element and
/// reductions in order). The reference for passes and lowering, not for operators: the oracle of those is eager
/// PyTorch.
std::vector<Tensor> interpret(const Graph &graph, const std::vector<Tensor> &inputs,
                              const std::vector<int64_t> &symbols, std::vector<Tensor> *mutated = nullptr);

} // namespace oxyfuel::graph
