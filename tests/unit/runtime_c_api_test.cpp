// Programs as bytes, through the C interface, with machine code written by hand.
#include <cstring>
#include <gtest/gtest.h>

#include "oxyfuel/runtime.h"
#include "runtime/program_file.h"
#include "support/cpu.h"

namespace oxyfuel::runtime {
namespace {

#if defined(__x86_64__)

// int32_t sizes(buffers, symbols, …): slots[1] = 1
constexpr uint8_t kSizesCode[] = {0x48, 0x8b, 0x07,                               // mov rax, [rdi]
                                  0x48, 0xc7, 0x40, 0x08, 0x01, 0x00, 0x00, 0x00, // mov qword [rax + 8], 1
                                  0x31, 0xc0, 0xc3};                              // xor eax, eax; ret
// int32_t negate(buffers, sizes, begin, end, …) on i64
constexpr uint8_t kNegateCode[] = {0x4c, 0x8b, 0x07,       // mov r8, [rdi]
                                   0x4c, 0x8b, 0x4f, 0x08, // mov r9, [rdi + 8]
                                   0x48, 0x39, 0xca,       // loop: cmp rdx, rcx
                                   0x7d, 0x10,             // jge done
                                   0x49, 0x8b, 0x04, 0xd0, // mov rax, [r8 + 8 rdx]
                                   0x48, 0xf7, 0xd8,       // neg rax
                                   0x49, 0x89, 0x04, 0xd1, // mov [r9 + 8 rdx], rax
                                   0x48, 0xff, 0xc2,       // inc rdx
                                   0xeb, 0xeb,             // jmp loop
                                   0x31, 0xc0, 0xc3};      // done: xor eax, eax; ret

Plan negate_plan() {
  Plan plan;
  plan.symbol_count = 1;
  plan.slot_count = 2;
  plan.symbols = {{SymbolSource::Kind::kSize, 0, 0}};
  plan.sizes_kernel = 0;
  plan.kernels = {{"sizes", 0, 0}, {"negate", 1, 0}};
  Argument argument;
  argument.dtype = DType::kI64;
  argument.shape = {0}, argument.strides = {1};
  argument.name = "x";
  plan.arguments = {argument};
  plan.buffers = {{Buffer::Kind::kArgument, DType::kI64, 0, kNoSlot, 0, 0},
                  {Buffer::Kind::kOutput, DType::kI64, 0, kNoSlot, 0, 0}};
  Output output;
  output.dtype = DType::kI64;
  output.source = 1;
  output.shape = {0}, output.strides = {1};
  Output same, size;
  same.kind = Output::Kind::kArgument;
  size.kind = Output::Kind::kInteger;
  size.offset = 0;
  plan.outputs = {output, same, size};
  Step step;
  step.index = 1;
  step.buffers = {0, 1};
  step.grid = 0;
  plan.steps = {step};
  return plan;
}

std::vector<uint8_t> negate_bytes(uint32_t features = 0) {
  return write_program(
      negate_plan(), {{kSizesCode, sizeof kSizesCode, "sizes"}, {kNegateCode, sizeof kNegateCode, "negate"}}, features);
}

TEST(CApi, LoadsAndRuns) {
  const std::vector<uint8_t> bytes = negate_bytes();
  oxyfuel_program *program = oxyfuel_load(bytes.data(), bytes.size());
  ASSERT_NE(program, nullptr) << oxyfuel_error();
  EXPECT_EQ(oxyfuel_argument_count(program), 1u);
  ASSERT_EQ(oxyfuel_output_count(program), 3u);
  EXPECT_STREQ(oxyfuel_argument_name(program, 0), "x");
  EXPECT_EQ(oxyfuel_argument_name(program, 1), nullptr);
  std::vector<int64_t> x(1000);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<int64_t>(i);
  oxyfuel_tensor argument{x.data(), OXYFUEL_I64, 1, {1000}, {1}, nullptr}, outputs[3];
  for (int threads : {1, 2}) {
    ASSERT_EQ(oxyfuel_run(program, &argument, outputs, threads), 0) << oxyfuel_error();
    EXPECT_EQ(outputs[0].shape[0], 1000);
    for (int64_t i = 0; i < 1000; ++i)
      ASSERT_EQ(static_cast<int64_t *>(outputs[0].data)[i], -i);
    EXPECT_EQ(outputs[1].data, x.data());
    EXPECT_EQ(*static_cast<int64_t *>(outputs[2].data), 1000);
    oxyfuel_release(outputs, 3);
  }
  argument.dtype = OXYFUEL_F32;
  EXPECT_NE(oxyfuel_run(program, &argument, outputs, 1), 0);
  EXPECT_STREQ(oxyfuel_error(), "argument 0 (x): found f32, wanted i64");
  oxyfuel_unload(program);
}

TEST(CApi, RefusesWhatDoesNotFit) {
  std::vector<uint8_t> bytes = negate_bytes();
  EXPECT_EQ(bytes, negate_bytes()); // the same input, the same bytes
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::vector<uint8_t> damaged = bytes;
    damaged[i] ^= 0x10;
    ASSERT_EQ(oxyfuel_load(damaged.data(), damaged.size()), nullptr) << i;
    ASSERT_EQ(oxyfuel_load(bytes.data(), i), nullptr) << i;
  }
  EXPECT_EQ(oxyfuel_load(nullptr, 0), nullptr);
  EXPECT_STREQ(oxyfuel_error(), "not a program");
  bytes = negate_bytes(static_cast<uint32_t>(CpuFeature::kSve));
  EXPECT_EQ(oxyfuel_load(bytes.data(), bytes.size()), nullptr);
  EXPECT_STREQ(oxyfuel_error(), "program needs instructions that this machine lacks: sve");
  Plan plan = negate_plan();
  plan.kernels[1].image = 7;
  bytes = write_program(plan, {{kSizesCode, sizeof kSizesCode, "sizes"}}, 0);
  EXPECT_EQ(oxyfuel_load(bytes.data(), bytes.size()), nullptr);
  EXPECT_STREQ(oxyfuel_error(), "kernel negate lies outside of image 7");
}

#endif

} // namespace
} // namespace oxyfuel::runtime
