// The thread pool: every task runs exactly once, whoever calls, however many at once.
#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <random>
#include <set>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "runtime/abi.h"
#include "runtime/threads.h"
#include "support/cpu.h"

// Tests of what happens without memory ask for more than the sanitizers' allocators grant.
#define OXYFUEL_SANITIZER_OPTIONS(name)                                                                                \
  extern "C" __attribute__((visibility("default"))) const char *name() { return "allocator_may_return_null=1"; }
OXYFUEL_SANITIZER_OPTIONS(__asan_default_options)
OXYFUEL_SANITIZER_OPTIONS(__tsan_default_options)

namespace oxyfuel::runtime {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr int kEffort = 1;
#else
constexpr int kEffort = 10;
#endif

class ThreadsTest : public testing::Test {
protected:
  ThreadsTest() { override_thread_limit(4); }
  ~ThreadsTest() override { override_thread_limit(0); }
};

/// Runs `tasks` tasks and checks that each ran once and that the region saw all their effects.
void check_tasks(Region &region, int64_t tasks, int64_t grain) {
  std::vector<int> counts(static_cast<size_t>(tasks));
  const int32_t status = region.parallel_for(tasks, grain, 0, [&](int64_t begin, int64_t end, void *) -> int32_t {
    for (int64_t i = begin; i < end; ++i)
      ++counts[static_cast<size_t>(i)];
    return 0;
  });
  ASSERT_EQ(status, 0);
  for (int64_t i = 0; i < tasks; ++i)
    ASSERT_EQ(counts[static_cast<size_t>(i)], 1) << "task " << i << " of " << tasks << " with grain " << grain;
}

TEST_F(ThreadsTest, EveryTaskRunsOnce) {
  for (int threads : {1, 2, 3, 4}) {
    Region region(threads);
    for (int64_t tasks : {0, 1, 2, 3, 5, 64, 129, 1000, 100'000})
      for (int64_t grain : {1, 2, 7, 1000})
        check_tasks(region, tasks, grain);
  }
}

TEST_F(ThreadsTest, HugeGrid) {
  Region region(4);
  std::atomic<int64_t> sum{0};
  const int64_t tasks = int64_t{1} << 40;
  ASSERT_EQ(region.parallel_for(tasks, 1, 0,
                                [&](int64_t begin, int64_t end, void *) -> int32_t {
                                  sum += end - begin;
                                  return 0;
                                }),
            0);
  EXPECT_EQ(sum, tasks);
}

TEST_F(ThreadsTest, ManyShortJobsInARow) {
  Region region(3);
  for (int round = 0; round < 2000 * kEffort; ++round)
    check_tasks(region, 1 + round % 17, 1);
}

TEST_F(ThreadsTest, ManyRegions) {
  for (int round = 0; round < 300 * kEffort; ++round) {
    Region region(1 + round % 4);
    check_tasks(region, 50, 1);
    if (round % 3 == 0)
      region.pause();
    check_tasks(region, 20, 1);
    if (round % 50 == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(200)); // workers park meanwhile
  }
}

TEST_F(ThreadsTest, ManyCallersAtOnce) {
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 8; ++caller)
    callers.emplace_back([caller] {
      std::mt19937 random(static_cast<unsigned>(caller));
      for (int round = 0; round < 50 * kEffort; ++round) {
        Region region(2 + static_cast<int>(random() % 3));
        for (int job = 0; job < 10; ++job)
          check_tasks(region, static_cast<int64_t>(random() % 300), 1 + static_cast<int64_t>(random() % 4));
      }
    });
  for (std::thread &caller : callers)
    caller.join();
}

TEST_F(ThreadsTest, OthersStealFromWhoIsLate) {
  Region region(2);
  std::atomic<int> done{0};
  // Task 0 is the caller's and lasts until all others are done: some of its range must go to the worker.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  ASSERT_EQ(region.parallel_for(64, 1, 0,
                                [&](int64_t begin, int64_t end, void *) -> int32_t {
                                  if (begin == 0)
                                    while (done < 63 && std::chrono::steady_clock::now() < deadline)
                                      std::this_thread::yield();
                                  done += static_cast<int>(end - begin);
                                  return 0;
                                }),
            0);
  EXPECT_EQ(done, 64);
  EXPECT_LT(std::chrono::steady_clock::now(), deadline);
}

TEST_F(ThreadsTest, TheFirstFailureComesBack) {
  Region region(3);
  for (int64_t bad : {0, 31, 63}) {
    const int32_t status = region.parallel_for(64, 1, 0, [&](int64_t begin, int64_t end, void *) -> int32_t {
      return begin <= bad && bad < end ? kOxyfuelIndexOutOfRange : kOxyfuelOk;
    });
    EXPECT_EQ(status, kOxyfuelIndexOutOfRange);
    check_tasks(region, 100, 1); // and the next job is fine
  }
}

TEST_F(ThreadsTest, ScratchIsPrivateAndAligned) {
  Region region(4);
  for (size_t bytes : {64, 5000, 3 << 20}) {
    std::atomic<int> clashes{0};
    region.parallel_for(200, 1, bytes, [&](int64_t begin, int64_t, void *scratch) -> int32_t {
      if (reinterpret_cast<uintptr_t>(scratch) % 64 != 0)
        ++clashes;
      auto *words = static_cast<volatile int64_t *>(scratch);
      words[0] = begin;
      words[bytes / 8 - 1] = begin;
      std::this_thread::yield();
      if (words[0] != begin || words[bytes / 8 - 1] != begin)
        ++clashes;
      return 0;
    });
    EXPECT_EQ(clashes, 0);
  }
  EXPECT_EQ(region.parallel_for(10, 1, SIZE_MAX / 2 - 100, [](int64_t, int64_t, void *) -> int32_t { return 0; }),
            kOxyfuelOutOfMemory);
  check_tasks(region, 100, 1);
}

#if defined(__x86_64__)
TEST_F(ThreadsTest, WorkersTakeTheCallersRounding) {
  const uint32_t before = float_control();
  for (uint32_t wanted : {before | 0x8040, before}) { // flush to zero, denormals are zero; then the default
    set_float_control(wanted);
    std::atomic<int> wrong{0};
    Region region(4);
    region.parallel_for(200, 1, 0, [&](int64_t, int64_t, void *) -> int32_t {
      if (float_control() != wanted)
        ++wrong;
      return 0;
    });
    EXPECT_EQ(wrong, 0);
  }
  set_float_control(before);
}
#endif

TEST_F(ThreadsTest, LimitIsObeyed) {
  override_thread_limit(1);
  Region region(8);
  std::set<std::thread::id> threads;
  region.parallel_for(100, 1, 0, [&](int64_t, int64_t, void *) -> int32_t {
    threads.insert(std::this_thread::get_id());
    return 0;
  });
  EXPECT_EQ(threads.size(), 1u);
}

#if !defined(__SANITIZE_THREAD__) // a child of a process with threads is not what the sanitizer supports
TEST_F(ThreadsTest, AForkedChildHasItsOwnPool) {
  {
    Region region(4);
    check_tasks(region, 1000, 1);
  }
  const pid_t child = fork();
  if (child == 0) {
    Region region(4);
    std::atomic<int64_t> sum{0};
    for (int round = 0; round < 100; ++round)
      region.parallel_for(100, 1, 0, [&](int64_t begin, int64_t end, void *) -> int32_t {
        sum += end - begin;
        return 0;
      });
    _exit(sum == 10'000 && region.size() == 4 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  Region region(4);
  check_tasks(region, 1000, 1);
}
#endif

} // namespace
} // namespace oxyfuel::runtime
