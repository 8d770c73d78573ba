// What schedules know of a processor: register file, caches, lanes. Made from a code generation target by driver/.
#pragma once

#include <cstdint>

namespace oxyfuel {

/// Plain numbers, so that a schedule is a function of them alone.
struct Machine {
  int vector_bytes = 32;     ///< widest vector register
  int vector_registers = 16; ///< architectural
  bool has_fma = true;
  bool has_masks = false;        ///< masked loads and stores cost no more than plain ones (AVX-512, SVE)
  bool has_bfloat16_dot = false; ///< pairwise bfloat16 dot products into float32
  int64_t l1_bytes = 32 << 10, l2_bytes = 1 << 20, l3_bytes = 32 << 20;

  bool is_scalar = false; ///< one lane for all types: what vectors do to a result shows against it

  /// Elements of that size in the widest vector register.
  int lanes(int64_t element_bytes) const { return is_scalar ? 1 : static_cast<int>(vector_bytes / element_bytes); }
};

} // namespace oxyfuel
