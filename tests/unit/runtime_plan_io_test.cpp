// The binary form of plans: round trip, and no crash or acceptance of what is damaged.
#include <gtest/gtest.h>
#include <random>

#include "runtime_plan_builder.h"

namespace oxyfuel::runtime {
namespace {

/// A plan that has one of everything.
Plan rich_plan() {
  PlanBuilder builder(2);
  Plan &plan = builder.plan;
  plan.arguments[1].is_static = true;
  plan.arguments[1].is_mutated = true;
  Argument integer;
  integer.kind = Argument::Kind::kInteger;
  plan.arguments.push_back(integer);
  const int32_t x = builder.buffer(Buffer::Kind::kArgument, 0), w = builder.buffer(Buffer::Kind::kArgument, 1);
  const int32_t packed = builder.buffer(Buffer::Kind::kBound), arena = builder.buffer(Buffer::Kind::kArena);
  const int32_t made = builder.buffer(Buffer::Kind::kExtern), constant = builder.buffer(Buffer::Kind::kConstant, 0);
  const int32_t dynamic = builder.buffer(Buffer::Kind::kDynamic, 0, kBytesM);
  plan.constants = {1, 2, 3, 4};
  builder.step(twice, {w, packed});
  plan.bind_steps = plan.steps;
  plan.steps.clear();
  builder.control(Step::Kind::kExtern, {x, made}).index = 3;
  builder.control(Step::Kind::kSizes);
  Step &loop = builder.control(Step::Kind::kLoop);
  loop.grid = kThree, loop.symbol = kM, loop.body = 4, loop.reverse = true;
  Step &branch = builder.control(Step::Kind::kBranch, {x});
  branch.body = 1, branch.other = 2;
  builder.step(add, {x, packed, arena}, {kN, kM}).scratch_bytes = 128;
  builder.step(add, {x, packed, dynamic});
  builder.step(add, {constant, made, builder.output()}).grain = 16;
  builder.control(Step::Kind::kCopy, {x, arena}).grid = kBytesN;
  Step &loop2 = builder.control(Step::Kind::kWhile, {arena});
  loop2.body = 0, loop2.other = 0;
  for (Output::Kind kind : {Output::Kind::kArgument, Output::Kind::kView, Output::Kind::kExtern, Output::Kind::kInteger,
                            Output::Kind::kNone}) {
    Output output;
    output.kind = kind;
    output.offset = kThree;
    output.shape = output.strides = {kN};
    output.source = kind == Output::Kind::kView ? ~0 : 0;
    plan.outputs.push_back(output);
  }
  builder.set_lives();
  return plan;
}

TEST(PlanForm, RoundTrip) {
  const Plan plan = rich_plan();
  const std::vector<uint8_t> bytes = write_plan(plan);
  Plan read;
  std::string message;
  ASSERT_TRUE(read_plan(bytes.data(), bytes.size(), read, message)) << message;
  EXPECT_EQ(write_plan(read), bytes);
  EXPECT_EQ(read.steps.size(), plan.steps.size());
  EXPECT_EQ(read.steps[2].symbol, kM);
  EXPECT_TRUE(read.steps[2].reverse);
  EXPECT_EQ(read.arguments[1].name, "x1");
  EXPECT_EQ(read.constants, plan.constants);
}

TEST(PlanForm, EveryPrefixIsRefused) {
  const std::vector<uint8_t> bytes = write_plan(rich_plan());
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::vector<uint8_t> prefix(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size));
    Plan read;
    std::string message;
    ASSERT_FALSE(read_plan(prefix.data(), prefix.size(), read, message)) << size;
    ASSERT_FALSE(message.empty());
  }
  std::vector<uint8_t> longer = bytes;
  longer.push_back(0);
  Plan read;
  std::string message;
  EXPECT_FALSE(read_plan(longer.data(), longer.size(), read, message));
  EXPECT_EQ(message, "plan with 1 bytes too many");
}

TEST(PlanForm, DamagedBytesNeverGiveAPlanThatIndexesOutOfRange) {
  const std::vector<uint8_t> bytes = write_plan(rich_plan());
  std::mt19937 random(3);
  for (int round = 0; round < 20'000; ++round) {
    std::vector<uint8_t> damaged = bytes;
    for (int change = 0; change < 1 + round % 4; ++change)
      damaged[random() % damaged.size()] = static_cast<uint8_t>(random() % 2 ? random() : 0xff);
    Plan read;
    std::string message;
    if (!read_plan(damaged.data(), damaged.size(), read, message)) {
      ASSERT_FALSE(message.empty());
      continue;
    }
    // What is accepted can be loaded: all tables are made from it without reading beyond them.
    Program::make(read, std::vector<OxyfuelKernel>(read.kernels.size(), test_sizes), message);
  }
}

TEST(PlanForm, OtherVersionsAreNamed) {
  std::vector<uint8_t> bytes = write_plan(rich_plan());
  bytes[8] = 99;
  Plan read;
  std::string message;
  EXPECT_FALSE(read_plan(bytes.data(), bytes.size(), read, message));
  EXPECT_EQ(message,
            "plan of interface version 99, this runtime has version " + std::to_string(int{kOxyfuelAbiVersion}));
}

TEST(PlanCheck, BadPlansAreNamed) {
  auto message_of = [](auto &&change) {
    Plan plan = rich_plan();
    change(plan);
    std::string message;
    EXPECT_FALSE(check_plan(plan, message));
    return message;
  };
  EXPECT_EQ(message_of([](Plan &plan) { plan.steps[4].buffers[0] = 99; }),
            "step 4 of the plan: a buffer does not exist");
  EXPECT_EQ(message_of([](Plan &plan) { plan.steps[4].grid = 99; }), "step 4 of the plan: a slot does not exist");
  EXPECT_EQ(message_of([](Plan &plan) { plan.steps[2].body = 99; }), "step 2 of the plan: its body does not nest");
  EXPECT_EQ(message_of([](Plan &plan) { plan.bind_steps[0].buffers[1] = 3; }),
            "bind step 0 of the plan: it may use static arguments, constants and bound buffers only");
  EXPECT_EQ(message_of([](Plan &plan) { plan.buffers[3].last_step = 99; }),
            "buffer 3 of the plan: its life lies outside of the steps");
}

} // namespace
} // namespace oxyfuel::runtime
