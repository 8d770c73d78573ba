// How debuggers leave a kernel: its call frame instructions, taken from an object file's unwind table.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace oxyfuel::codegen {

/// The instructions of the only entry of the object's .eh_frame, as support/debug_object.h wants them. Empty when the
/// object describes no function, or several: entries are told apart by relocations, which are not looked at.
std::vector<std::byte> unwind_instructions(std::span<const char> object);

} // namespace oxyfuel::codegen
