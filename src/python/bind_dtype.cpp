#include <string>

#include "python/module.h"
#include "support/dtype.h"

namespace oxyfuel::python {

void bind_dtype(nb::module_ &module) {
  nb::enum_<DType> type(module, "DType", "An element type; members are named as in IR text: `f32`, `bf16`, `i64`, …");
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    type.value(std::string(name_of(dtype)).c_str(), dtype);
  }
}

} // namespace oxyfuel::python
