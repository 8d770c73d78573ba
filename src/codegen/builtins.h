// Functions of the C and compiler libraries that LLVM calls on its own when it lowers an instruction: an image may not
// look for them in its process, so it carries copies.
#pragma once

#include "codegen/target.h"

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace oxyfuel::codegen {

/// Self-contained code of the function `name` for `target`, starting with its entry; empty when there is no such
/// builtin. Compiled on the first request and kept for the life of the process. Safe to call from several threads.
///
/// All are exact or correctly rounded (to nearest even) and raise no floating-point exception that matters to us.
std::span<const std::byte> builtin_code(std::string_view name, const Target &target);

/// The names of all builtins, for tests.
std::vector<std::string> builtin_names();

} // namespace oxyfuel::codegen
