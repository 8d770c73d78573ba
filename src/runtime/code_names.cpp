#include "runtime/code_names.h"

#include <algorithm>
#include <cstdlib>

namespace oxyfuel::runtime {
namespace {

/// "model.py:41 in forward" apart.
void set_place(CodeSymbol &symbol, const std::string &location) {
  const size_t colon = location.find(':');
  if (colon == std::string::npos)
    return;
  symbol.file = location.substr(0, colon);
  symbol.line = std::atoi(location.c_str() + colon + 1);
}

} // namespace

std::vector<CodeSymbol> name_code(const Plan &plan, const std::vector<CodeImage> &images, const LoadedImages &loaded) {
  std::vector<const Step *> first_step(plan.kernels.size(), nullptr);
  for (const std::vector<Step> *steps : {&plan.steps, &plan.bind_steps})
    for (const Step &step : *steps)
      if (step.kind == Step::Kind::kKernel && !first_step[step.index])
        first_step[step.index] = &step;
  std::vector<CodeSymbol> symbols;
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    const Kernel &kernel = plan.kernels[i];
    const CodeImage &image = images[kernel.image];
    CodeSymbol symbol;
    symbol.start = reinterpret_cast<const uint8_t *>(loaded.entry(kernel.image, kernel.offset));
    symbol.size = image.size - kernel.offset;
    symbol.unwind.assign(image.unwind, image.unwind + image.unwind_size);
    symbol.name = "oxyfuel::" + (static_cast<int32_t>(i) == plan.sizes_kernel ? std::string("sizes")
                                 : first_step[i] && !first_step[i]->name.empty()
                                     ? first_step[i]->name
                                     : (kernel.name.empty() ? std::string("kernel") : kernel.name));
    if (first_step[i])
      set_place(symbol, first_step[i]->location);
    symbols.push_back(std::move(symbol));
  }
  return symbols;
}

} // namespace oxyfuel::runtime
