// What a pass gets beside the program: fuel, remarks, and the settings of the run that it is part of.
#pragma once

#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace oxyfuel::graph {
struct Node;
}

namespace oxyfuel {

/// Settings of a run of passes.
struct PassOptions {
  bool verify = false;             ///< check the rules of the IR, and the returned bools, after each pass
  bool round_trip = false;         ///< print and parse after each pass; texts must be equal
  bool fusion = true;              ///< false: each operator in a kernel of its own
  std::string dump_directory = {}; ///< empty: no dumps
  std::set<std::string, std::less<>> skipped = {};
  int64_t fuel = std::numeric_limits<int64_t>::max(); ///< rewrites that are allowed, to bisect a wrong one

  /// OXYFUEL_VERIFY (0 or 1), OXYFUEL_DUMP (a folder), OXYFUEL_SKIP (names, separated by commas), OXYFUEL_FUEL (a
  /// number).
  static PassOptions from_environment();
};

/// Why a pass declined, or what it decided: shown by `oxyfuel.explain`.
struct Remark {
  std::string pass;
  std::string where; ///< the operator and its place in the user's program; empty: the program as a whole
  std::string text;
};

/// How long one run of a pass took.
struct PassTime {
  std::string_view pass;
  double seconds;
};

/// Belongs to one compile, and is not thread-safe.
class PassContext {
public:
  PassContext() = default;
  explicit PassContext(PassOptions options) : options(std::move(options)) {}

  PassOptions options;
  std::vector<Remark> remarks;
  std::vector<PassTime> times;   ///< one entry a run of a pass
  std::string_view current_pass; ///< the one that runs now
  int dumps = 0;                 ///< files written, the next one's number

  /// Says why a pass declined or what it decided, at a node or of the program as a whole.
  void remark(const graph::Node &node, std::string text);
  void remark(std::string text) { remarks.push_back({std::string(current_pass), "", std::move(text)}); }
  /// A pass asks before each rewrite, and leaves things as they are when there is no fuel left.
  bool spend_fuel() { return options.fuel > 0 && options.fuel-- > 0; }
};

} // namespace oxyfuel
