// Tells tools outside of the process about code that was made in it: gdb by its JIT interface, always, and perf by a
// map file, when wanted.
#pragma once

#include <memory>
#include <vector>

#include "support/debug_object.h"

namespace oxyfuel {

/// Keeps functions known to gdb as long as it lives. The code must lie there longer.
class CodeSymbols {
public:
  explicit CodeSymbols(std::vector<CodeSymbol> symbols);
  ~CodeSymbols();
  CodeSymbols(const CodeSymbols &) = delete;
  CodeSymbols &operator=(const CodeSymbols &) = delete;

  /// From now on each new function, and each that is known already, has a line in /tmp/perf-<process>.map, where
  /// `perf report` looks. Also switched on by OXYFUEL_PERF_MAP in the environment.
  static void write_perf_map();

private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

} // namespace oxyfuel
