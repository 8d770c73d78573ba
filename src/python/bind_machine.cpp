#include <nanobind/stl/string.h>

#include "codegen/target.h"
#include "python/module.h"
#include "runtime/threads.h"
#include "support/code_symbols.h"
#include "support/cpu.h"
#include "support/peaks.h"

namespace oxyfuel::python {

namespace {

nb::dict machine() {
  const CpuInfo &cpu = cpu_info();
  const codegen::Target &target = codegen::host_target();
  nb::dict result;
  result["features"] = describe_features(cpu.features);
  result["cpu"] = target.cpu;
  result["vector_bits"] = target.vector_bits;
  result["l1_data_bytes"] = cpu.l1_data_bytes;
  result["l2_bytes"] = cpu.l2_bytes;
  result["l3_bytes"] = cpu.l3_bytes;
  result["affinity_cpus"] = affinity_cpu_count();
  result["cpu_quota"] = cpu_quota();
  result["thread_limit"] = runtime::thread_limit();
  return result;
}

} // namespace

void bind_machine(nb::module_ &module) {
  module.def(
      "cpu_features", [] { return describe_features(cpu_info().features); },
      "Instruction sets of this machine that code is made for.");
  module.def("machine", machine,
             "What code is made for: instruction sets, vector width, caches in bytes, and how many threads may run.");
  module.def("measure_fma_peak", measure_fma_peak, nb::arg("vector_bits"), nb::arg("threads"),
             nb::call_guard<nb::gil_scoped_release>(), "Float32 operations a second of fused multiply-adds.");
  module.def("measure_read_bandwidth", measure_read_bandwidth, nb::arg("bytes"), nb::arg("threads"),
             nb::call_guard<nb::gil_scoped_release>(), "Bytes a second that are read from a block of this size.");
  module.def("write_perf_map", CodeSymbols::write_perf_map,
             "Kernels have their names in `perf report`: they are written to /tmp/perf-<process>.map.");
}

} // namespace oxyfuel::python
