// Bound weights: bind steps run when needed and only then, for several instances and callers.
#include <atomic>
#include <gtest/gtest.h>
#include <numeric>
#include <thread>

#include "runtime/threads.h"
#include "runtime_plan_builder.h"

namespace oxyfuel::runtime {
namespace {

using Floats = std::vector<float>;

/// Argument 1 is a weight w; the binding holds 2 w; the output is x + 2 w.
std::unique_ptr<Program> make_program() {
  PlanBuilder builder(2);
  builder.plan.arguments[1].is_static = true;
  const int32_t x = builder.buffer(Buffer::Kind::kArgument, 0), w = builder.buffer(Buffer::Kind::kArgument, 1);
  const int32_t packed = builder.buffer(Buffer::Kind::kBound);
  builder.step(twice, {w, packed}).name = "pack";
  builder.plan.bind_steps.push_back(builder.plan.steps[0]);
  builder.plan.steps.clear();
  builder.step(add, {x, packed, builder.output()});
  return builder.make();
}

Floats run(Program &program, Floats &x, Floats &w, uint64_t fingerprint = 0, int threads = 1) {
  TestCall call({&x, &w}, threads);
  call.fingerprints[1] = fingerprint;
  EXPECT_EQ(call.run(program), kOxyfuelOk) << call.message;
  return call.outputs.at(0);
}

TEST(Binding, BindsOnceUntilSomethingChanges) {
  auto program = make_program();
  Floats x(100, 1), w(100, 3);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(run(*program, x, w), Floats(100, 7));
  EXPECT_EQ(program->bind_count(), 1u);
  EXPECT_GE(program->memory().bindings, 400u);

  std::fill(w.begin(), w.end(), 4.0f); // no counter tells: the samples do
  EXPECT_EQ(run(*program, x, w), Floats(100, 9));
  EXPECT_EQ(program->bind_count(), 2u);

  w[50] = 5; // between the samples: the fingerprint tells
  EXPECT_EQ(run(*program, x, w, 1)[50], 11);
  EXPECT_EQ(program->bind_count(), 3u);

  w[51] = 6; // nothing tells: invalidate
  program->invalidate();
  EXPECT_EQ(program->memory().bindings, 0u);
  EXPECT_EQ(run(*program, x, w, 1)[51], 13);
  EXPECT_EQ(program->bind_count(), 4u);

  Floats other(100, 7); // another address
  EXPECT_EQ(run(*program, x, other, 1), Floats(100, 15));
  EXPECT_EQ(program->bind_count(), 5u);
}

TEST(Binding, InstancesKeepTheirsUpToTheLimit) {
  auto program = make_program();
  Floats x(10, 1);
  std::vector<Floats> weights;
  for (int i = 0; i < 12; ++i)
    weights.emplace_back(10, static_cast<float>(i));
  for (int round = 0; round < 3; ++round)
    for (int i = 0; i < 12; ++i)
      EXPECT_EQ(run(*program, x, weights[static_cast<size_t>(i)]), Floats(10, static_cast<float>(1 + 2 * i)));
  EXPECT_EQ(program->bind_count(), 12u);
  program->set_binding_limit(2);
  EXPECT_LE(program->memory().bindings, 2 * 64u);
  for (int i = 0; i < 3; ++i)
    run(*program, x, weights[static_cast<size_t>(i)]);
  EXPECT_EQ(program->bind_count(), 15u);
  run(*program, x, weights[2]);
  run(*program, x, weights[1]);
  EXPECT_EQ(program->bind_count(), 15u);
}

TEST(Binding, SizesBelongToTheKey) {
  auto program = make_program();
  Floats x(100, 1), w(100, 3), short_x(50, 1);
  Floats both = w;
  EXPECT_EQ(run(*program, x, both), Floats(100, 7));
  both.resize(50); // same address, fewer elements
  EXPECT_EQ(run(*program, short_x, both), Floats(50, 7));
  EXPECT_EQ(program->bind_count(), 2u);
  Floats none_x, none_w;
  EXPECT_EQ(run(*program, none_x, none_w), Floats());
}

OXYFUEL_TEST_KERNEL(refuse_negative, if (in(0)[i] < 0) return kOxyfuelAssertFailed; in(1)[i] = in(0)[i])

TEST(Binding, AFailedBindIsTriedAgain) {
  PlanBuilder builder(2);
  builder.plan.arguments[1].is_static = true;
  const int32_t x = builder.buffer(Buffer::Kind::kArgument, 0), w = builder.buffer(Buffer::Kind::kArgument, 1);
  const int32_t packed = builder.buffer(Buffer::Kind::kBound);
  builder.step(refuse_negative, {w, packed}).name = "pack w";
  builder.plan.bind_steps.push_back(builder.plan.steps[0]);
  builder.plan.steps.clear();
  builder.step(add, {x, packed, builder.output()});
  auto program = builder.make();
  Floats x_values(5, 1), w_values(5, -1);
  TestCall call({&x_values, &w_values});
  EXPECT_EQ(call.run(*program), kOxyfuelAssertFailed);
  EXPECT_EQ(call.message, "pack w: an assertion of the program failed");
  EXPECT_EQ(call.order, "abe");
  std::fill(w_values.begin(), w_values.end(), 2.0f);
  ASSERT_EQ(call.run(*program), kOxyfuelOk);
  EXPECT_EQ(call.outputs[0], Floats(5, 3));
}

TEST(Binding, ManyCallersBindTogether) {
  override_thread_limit(3);
  auto program = make_program();
  std::vector<Floats> weights;
  for (int i = 0; i < 4; ++i)
    weights.emplace_back(300, static_cast<float>(i));
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 6; ++caller)
    callers.emplace_back([&, caller] {
      Floats x(300, static_cast<float>(caller));
      for (int round = 0; round < 60; ++round) {
        const int which = (caller + round) % 4;
        const Floats found = run(*program, x, weights[static_cast<size_t>(which)], 0, 1 + round % 3);
        wrong += found != Floats(300, static_cast<float>(caller + 2 * which));
        if (caller == 0 && round % 10 == 9)
          program->invalidate();
      }
    });
  for (std::thread &caller : callers)
    caller.join();
  override_thread_limit(0);
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(program->bind_count(), 4u * 7);
}

} // namespace
} // namespace oxyfuel::runtime
