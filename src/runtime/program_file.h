// A program in one piece of bytes: plan and code images, with what they need of the machine. What the cache keeps and
// what an artifact carries.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/image.h"
#include "runtime/plan.h"
#include "runtime/program.h"

namespace oxyfuel::runtime {

/// `features`: CpuFeature bits that the code uses. The same input gives the same bytes.
std::vector<uint8_t> write_program(const Plan &plan, const std::vector<CodeImage> &images, uint32_t features);

/// Null with a message when the bytes are damaged (their SHA-256 is checked), made for another architecture or
/// interface version, or need instructions that this machine lacks.
std::unique_ptr<Program> read_program(const uint8_t *data, size_t size, std::string &message);

} // namespace oxyfuel::runtime
