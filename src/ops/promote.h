// PyTorch's type promotion (c10/core/ScalarType.h, ATen/native/TypeProperties.cpp).
#pragma once

#include <span>

#include "ir/graph/graph.h"

namespace oxyfuel {

/// The common type of two element types: torch.promote_types. UnsupportedError for the unsigned types above u8 with
/// another integer type, which PyTorch refuses.
DType promote(DType a, DType b);

/// Collects operands in the three ranks that promotion knows: tensors with axes decide, then tensors without, then
/// numbers; a lower rank only counts when its category (bool, integer, float, complex) is higher.
class Promotion {
public:
  void add_tensor(const graph::Type &type) { type.rank() > 0 ? merge(axes_, type.dtype) : merge(no_axes_, type.dtype); }
  void add_number(DType dtype) { merge(number_, dtype); }
  /// torch.result_type of what was added.
  DType result() const;

private:
  struct Rank {
    bool is_set = false;
    DType dtype = DType::kBool;
  };
  static void merge(Rank &rank, DType dtype);
  static Rank combine(const Rank &higher, const Rank &lower);
  Rank axes_, no_axes_, number_;
};

/// torch.result_type of tensors.
DType promote(std::span<graph::Value *const> operands);

} // namespace oxyfuel
