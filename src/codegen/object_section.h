// Sections of an ELF object file by name.
#pragma once

#include <span>
#include <string_view>

namespace oxyfuel::codegen {

/// Contents of the first section of that name; empty when there is none. Bytes that are no such file are harmless.
std::span<const char> object_section(std::span<const char> object, std::string_view name);

} // namespace oxyfuel::codegen
