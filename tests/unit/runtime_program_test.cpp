// Programs over hand-written kernels: sizes, arenas, control flow, extern steps, failures, many callers.
#include <atomic>
#include <cstring>
#include <gtest/gtest.h>
#include <numeric>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "runtime/threads.h"
#include "runtime_plan_builder.h"

namespace oxyfuel::runtime {
namespace {

using Floats = std::vector<float>;

Floats ramp(size_t count, float start = 0) {
  Floats values(count);
  std::iota(values.begin(), values.end(), start);
  return values;
}

/// x → 2 (x + 1) over an arena buffer.
PlanBuilder chain(int length = 1) {
  PlanBuilder builder;
  const int32_t x = builder.buffer(Buffer::Kind::kArgument, 0);
  int32_t previous = x;
  for (int i = 0; i < length; ++i) {
    const int32_t next = builder.buffer(Buffer::Kind::kArena);
    builder.step(add_one, {previous, next});
    previous = next;
  }
  builder.step(twice, {previous, builder.output()});
  return builder;
}

TEST(Program, RunsForAnySizeAndReusesItsArena) {
  auto program = chain(5).make();
  for (size_t n : {3, 1000, 3, 0, 17, 1000}) {
    Floats x = ramp(n);
    TestCall call({&x}, 2);
    ASSERT_EQ(call.run(*program), kOxyfuelOk) << call.message;
    ASSERT_EQ(call.outputs[0].size(), n);
    for (size_t i = 0; i < n; ++i)
      ASSERT_EQ(call.outputs[0][i], 2 * (x[i] + 5));
    EXPECT_EQ(call.order, "abe");
  }
  // Two buffers alive at a time, of 4000 bytes each.
  EXPECT_EQ(program->memory().arenas, 2 * 4032u);
  program->trim();
  EXPECT_EQ(program->memory().arenas, 0u);
}

TEST(Program, PoisonReachesArenaAndOutputs) {
  PlanBuilder builder;
  builder.buffer(Buffer::Kind::kArgument, 0);
  const int32_t arena = builder.buffer(Buffer::Kind::kArena);
  builder.step(twice, {arena, builder.output()}); // reads what nobody wrote
  builder.step(nothing, {builder.output()});      // writes nothing
  auto program = builder.make();
  Floats x = ramp(9);
  TestCall call({&x});
  call.call.poison = true;
  ASSERT_EQ(call.run(*program), kOxyfuelOk);
  for (const Floats &output : call.outputs)
    for (float value : output)
      EXPECT_NE(value, value);
}

TEST(Program, ArgumentsThatDoNotFitAreNamed) {
  PlanBuilder builder(2);
  builder.step(
      add, {builder.buffer(Buffer::Kind::kArgument, 0), builder.buffer(Buffer::Kind::kArgument, 1), builder.output()});
  auto program = builder.make();
  Floats x = ramp(4), y = ramp(5);
  TestCall call({&x, &y});
  EXPECT_EQ(call.run(*program), kOxyfuelBadArgument);
  EXPECT_EQ(call.message, "argument 1 (x1): found shape [5], wanted [4]");
  EXPECT_EQ(call.order, "");

  TestCall strided({&x, &x});
  const int64_t two = 2, one = 1;
  const int64_t *strides[] = {&one, &two};
  strided.call.argument_strides = strides;
  EXPECT_EQ(strided.run(*program), kOxyfuelBadArgument);
  EXPECT_EQ(strided.message, "argument 1 (x1): found strides [2], wanted [1] for shape [4]");

  Floats single = ramp(1);
  TestCall indifferent({&single, &single}); // the stride of one element does not matter
  indifferent.call.argument_strides = strides;
  EXPECT_EQ(indifferent.run(*program), kOxyfuelOk) << indifferent.message;

  TestCall kinds({&x, &x});
  const int32_t ranks[] = {1, 2};
  kinds.call.argument_ranks = ranks;
  EXPECT_EQ(kinds.run(*program), kOxyfuelBadArgument);
  EXPECT_EQ(kinds.message, "argument 1 (x1): found 2 axes, wanted 1");
  const DType dtypes[] = {DType::kF32, DType::kI64};
  kinds.call.argument_ranks = nullptr;
  kinds.call.argument_dtypes = dtypes;
  EXPECT_EQ(kinds.run(*program), kOxyfuelBadArgument);
  EXPECT_EQ(kinds.message, "argument 1 (x1): found i64, wanted f32");
}

OXYFUEL_TEST_KERNEL(add_step, in(0)[i] = in(0)[i] * 10 + static_cast<float>(sizes[0]))

TEST(Program, LoopsCount) {
  for (bool reverse : {false, true}) {
    PlanBuilder builder;
    const int32_t x = builder.buffer(Buffer::Kind::kArgument, 0), y = builder.output();
    Step &copy = builder.control(Step::Kind::kCopy, {x, y});
    copy.grid = kBytesN;
    Step &loop = builder.control(Step::Kind::kLoop);
    loop.grid = kThree;
    loop.symbol = kM;
    loop.reverse = reverse;
    loop.body = 1;
    builder.step(add_step, {y}, {kM});
    auto program = builder.make();
    Floats zeros(100);
    TestCall call({&zeros}, 2);
    for (int round = 0; round < 2; ++round) {
      ASSERT_EQ(call.run(*program), kOxyfuelOk) << call.message;
      for (float value : call.outputs[0])
        ASSERT_EQ(value, reverse ? 210 : 12);
    }
  }
}

TEST(Program, BranchesTakeOneSide) {
  PlanBuilder builder;
  const int32_t x = builder.buffer(Buffer::Kind::kArgument, 0), y = builder.output();
  Step &branch = builder.control(Step::Kind::kBranch, {x});
  branch.body = 1, branch.other = 1;
  builder.step(add_one, {x, y});
  builder.step(twice, {x, y});
  auto program = builder.make();
  Floats yes = ramp(5, 3), no = ramp(5, 0), negative_zero = ramp(5, 0);
  negative_zero[0] = -0.0f;
  TestCall first({&yes}), second({&no}), third({&negative_zero});
  ASSERT_EQ(first.run(*program), kOxyfuelOk);
  ASSERT_EQ(second.run(*program), kOxyfuelOk);
  ASSERT_EQ(third.run(*program), kOxyfuelOk);
  EXPECT_EQ(first.outputs[0], ramp(5, 4));
  EXPECT_EQ(second.outputs[0], Floats({0, 2, 4, 6, 8}));
  EXPECT_EQ(third.outputs[0], Floats({-0.0f, 2, 4, 6, 8}));
}

OXYFUEL_TEST_KERNEL(is_below_100, in(1)[0] = in(0)[0] < 100)
OXYFUEL_TEST_KERNEL(double_in_place, in(0)[i] *= 2)

TEST(Program, WhileRunsUntilItsConditionFails) {
  PlanBuilder builder;
  const int32_t x = builder.buffer(Buffer::Kind::kArgument, 0), y = builder.output();
  const int32_t flag = builder.buffer(Buffer::Kind::kArena);
  builder.control(Step::Kind::kCopy, {x, y}).grid = kBytesN;
  Step &loop = builder.control(Step::Kind::kWhile, {flag});
  loop.body = 1, loop.other = 1;
  builder.step(is_below_100, {y, flag}, {}, kOne);
  builder.step(double_in_place, {y});
  auto program = builder.make();
  Floats x_values = {3, 1}, large = {100, 1};
  TestCall call({&x_values}), none({&large});
  ASSERT_EQ(call.run(*program), kOxyfuelOk);
  ASSERT_EQ(none.run(*program), kOxyfuelOk);
  EXPECT_EQ(call.outputs[0], Floats({192, 64}));
  EXPECT_EQ(none.outputs[0], large);
}

OXYFUEL_TEST_KERNEL(fail_at_7, if (i == 7) return kOxyfuelIndexOutOfRange)

TEST(Program, AFailingKernelIsNamedAndTheNextCallWorks) {
  PlanBuilder builder;
  const int32_t x = builder.buffer(Buffer::Kind::kArgument, 0);
  builder.step(fail_at_7, {x}).name = "gather";
  builder.step(add_one, {x, builder.output()});
  auto program = builder.make();
  Floats long_one = ramp(50), short_one = ramp(5);
  TestCall bad({&long_one}, 2), good({&short_one}, 2);
  EXPECT_EQ(bad.run(*program), kOxyfuelIndexOutOfRange);
  EXPECT_EQ(bad.message, "gather: index out of range");
  EXPECT_EQ(bad.order, "abe");
  ASSERT_EQ(good.run(*program), kOxyfuelOk);
  EXPECT_EQ(good.outputs[0], ramp(5, 1));
}

int32_t huge_sizes(void *const *buffers, const int64_t *symbols, int64_t, int64_t, void *, const OxyfuelHostTable *) {
  auto *slots = static_cast<int64_t *>(buffers[0]);
  slots[kOne] = 1;
  slots[kBytesN] = symbols[kN] == 13 ? int64_t{1} << 52 : symbols[kN] == 14 ? INT64_MAX : symbols[kN] * 4;
  return kOxyfuelOk;
}

TEST(Program, NoMemoryIsAStatusAndTheNextCallWorks) {
  PlanBuilder builder = chain();
  builder.kernels[static_cast<size_t>(builder.plan.sizes_kernel)] = huge_sizes;
  auto program = builder.make();
  for (size_t n : {5, 13, 5, 14, 5}) {
    Floats x = ramp(n);
    TestCall call({&x});
    if (n == 5) {
      ASSERT_EQ(call.run(*program), kOxyfuelOk) << call.message;
      EXPECT_EQ(call.outputs[0], Floats({2, 4, 6, 8, 10}));
    } else {
      EXPECT_EQ(call.run(*program), kOxyfuelOutOfMemory);
      EXPECT_FALSE(call.message.empty());
      EXPECT_EQ(call.order, "");
    }
  }
  Floats x = ramp(5);
  TestCall refused({&x});
  refused.call.allocate = [](void *, int32_t, DType, int32_t, const int64_t *, const int64_t *, void **) {
    return kOxyfuelOutOfMemory;
  };
  EXPECT_EQ(refused.run(*program), kOxyfuelOutOfMemory);
  EXPECT_EQ(refused.message, "no memory for output 0 of 20 bytes");
}

/// An extern step makes a buffer of m elements; m is known only then, and so is the output's size.
TEST(Program, ExternStepsBindSizes) {
  PlanBuilder builder;
  const int32_t x = builder.buffer(Buffer::Kind::kArgument, 0);
  const int32_t made = builder.buffer(Buffer::Kind::kExtern, 0, kNoSlot);
  const int32_t dynamic = builder.buffer(Buffer::Kind::kDynamic, 0, kBytesM);
  Step &call_host = builder.control(Step::Kind::kExtern, {x, made});
  call_host.index = 42;
  builder.control(Step::Kind::kSizes);
  builder.step(add_one, {made, dynamic}, {}, kM);
  builder.step(twice, {dynamic, builder.output(kM)}, {}, kM);
  Output extern_output;
  extern_output.kind = Output::Kind::kExtern;
  builder.plan.outputs.push_back(extern_output);
  Output integer;
  integer.kind = Output::Kind::kInteger;
  integer.offset = kBytesM;
  builder.plan.outputs.push_back(integer);
  auto program = builder.make();

  static Floats made_values;
  auto handler = [](void *context, const ExternStep &step) {
    static_cast<TestCall *>(context)->order += 'x';
    EXPECT_EQ(step.id, 42);
    EXPECT_EQ(step.step, 0);
    EXPECT_EQ(step.slots[kBytesN], step.slots[kN] * 4);
    auto *x_values = static_cast<float *>(step.buffers[0]);
    made_values.assign(x_values, x_values + step.slots[kN] / 2);
    step.buffers[1] = made_values.data();
    step.symbols[kM] = static_cast<int64_t>(made_values.size());
    return kOxyfuelOk;
  };
  for (size_t n : {10, 4, 0, 300}) {
    Floats x_values = ramp(n);
    TestCall call({&x_values}, 2);
    call.call.run_extern = handler;
    ASSERT_EQ(call.run(*program), kOxyfuelOk) << call.message;
    EXPECT_EQ(call.order, "bxaedd");
    ASSERT_EQ(call.outputs[0].size(), n / 2);
    for (size_t i = 0; i < n / 2; ++i)
      ASSERT_EQ(call.outputs[0][i], 2 * (x_values[i] + 1));
    EXPECT_EQ(call.delivered[1], std::vector<int64_t>({2, static_cast<int64_t>(n / 2 * 4)}));
  }
  Floats x_values = ramp(3);
  TestCall failing({&x_values});
  EXPECT_EQ(failing.run(*program), kOxyfuelExternFailed); // no handler
}

TEST(Program, ViewsIntegersAndConstants) {
  PlanBuilder builder;
  const float numbers[] = {7, 8, 9};
  builder.plan.constants.assign(64, 0);
  builder.plan.constants.resize(64 + sizeof numbers);
  std::memcpy(builder.plan.constants.data() + 64, numbers, sizeof numbers);
  const int32_t constant = builder.buffer(Buffer::Kind::kConstant, 64, kNoSlot);
  builder.step(add_one, {constant, builder.output(kThree)}, {}, kThree);
  Output view;
  view.kind = Output::Kind::kView;
  view.source = 0;
  view.shape = {kThree, kN}, view.strides = {kOne, kThree};
  view.offset = kThree;
  builder.plan.outputs.push_back(view);
  Output same;
  same.kind = Output::Kind::kArgument;
  builder.plan.outputs.push_back(same);
  auto program = builder.make();
  Floats x = ramp(6);
  TestCall call({&x});
  ASSERT_EQ(call.run(*program), kOxyfuelOk) << call.message;
  EXPECT_EQ(call.outputs[0], Floats({8, 9, 10}));
  EXPECT_EQ(call.delivered, (std::vector<std::vector<int64_t>>{{1, 3, 3, 6}, {2, 0}}));
}

TEST(Program, CopiesMayOverlapAndBeLarge) {
  PlanBuilder builder(2);
  const int32_t from = builder.buffer(Buffer::Kind::kArgument, 0), to = builder.buffer(Buffer::Kind::kArgument, 1);
  builder.control(Step::Kind::kCopy, {from, to}).grid = kBytesN;
  auto program = builder.make();
  Floats all = ramp(100'000);
  Floats part;
  TestCall call({&part, &part}, 2);
  call.data = {all.data(), all.data() + 1};
  call.extents = {99'999, 99'999};
  ASSERT_EQ(call.run(*program), kOxyfuelOk) << call.message;
  EXPECT_EQ(all[1], 0);
  EXPECT_EQ(all[99'999], 99'998);
  Floats x = ramp(1'000'000), y(1'000'000);
  TestCall large({&x, &y}, 2);
  ASSERT_EQ(large.run(*program), kOxyfuelOk);
  EXPECT_EQ(x, y);
}

TEST(Program, ProfilesSteps) {
  auto program = chain(2).make();
  Floats x = ramp(1000);
  TestCall call({&x});
  std::vector<StepTime> times(3);
  call.call.step_times = times.data();
  ASSERT_EQ(call.run(*program), kOxyfuelOk);
  ASSERT_EQ(call.run(*program), kOxyfuelOk);
  for (size_t i = 0; i < times.size(); ++i) {
    EXPECT_EQ(times[i].runs, 2);
    EXPECT_GT(times[i].end, times[i].begin);
    EXPECT_GT(times[i].nanoseconds, times[i].end - times[i].begin);
    EXPECT_TRUE(i == 0 || times[i].begin >= times[i - 1].end);
  }
}

TEST(Program, TellsOfEachStep) {
  auto program = chain(2).make();
  Floats x = ramp(1000);
  TestCall call({&x});
  static std::vector<int32_t> told;
  told.clear();
  call.call.begin_step = [](void *, int32_t step) { told.push_back(step); };
  call.call.end_step = [](void *, int32_t step) { told.push_back(~step); };
  ASSERT_EQ(call.run(*program), kOxyfuelOk);
  EXPECT_EQ(told, (std::vector<int32_t>{0, ~0, 1, ~1, 2, ~2}));
}

TEST(Program, ManyCallersGetTheSameBits) {
  override_thread_limit(3);
  auto program = chain(20).make();
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 8; ++caller)
    callers.emplace_back([&, caller] {
      for (int round = 0; round < 50; ++round) {
        Floats x = ramp(static_cast<size_t>(50 + 10 * ((caller + round) % 5)), static_cast<float>(caller));
        TestCall call({&x}, 1 + round % 3);
        bool good = call.run(*program) == kOxyfuelOk;
        for (size_t i = 0; good && i < x.size(); ++i)
          good = call.outputs[0][i] == 2 * (x[i] + 20);
        wrong += !good;
      }
    });
  for (std::thread &caller : callers)
    caller.join();
  override_thread_limit(0);
  EXPECT_EQ(wrong, 0);
}

#if !defined(__SANITIZE_THREAD__)
TEST(Program, AForkedChildRunsItWhileOthersCall) {
  override_thread_limit(3);
  auto program = chain(5).make();
  std::atomic<bool> stop{false};
  std::thread other([&] {
    Floats x = ramp(200);
    TestCall call({&x}, 3);
    while (!stop)
      call.run(*program);
  });
  for (int round = 0; round < 20; ++round) {
    const pid_t child = fork();
    if (child == 0) {
      Floats x = ramp(100);
      TestCall call({&x}, 3);
      for (int i = 0; i < 10; ++i)
        if (call.run(*program) != kOxyfuelOk || call.outputs[0][99] != 2 * (99 + 5))
          _exit(1);
      _exit(0);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  stop = true;
  other.join();
  override_thread_limit(0);
}
#endif

} // namespace
} // namespace oxyfuel::runtime
