// The functions of the process that images may call (runtime/abi.h).
#pragma once

#include "runtime/abi.h"

namespace oxyfuel::runtime {

/// The one table of this process, fully filled in.
const OxyfuelHostTable &host_table();

} // namespace oxyfuel::runtime
