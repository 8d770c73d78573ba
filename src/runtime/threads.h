// The thread pool. A caller opens a Region for the duration of a plan; the first parallel_for in it claims free
// workers, which stay with the caller until the region ends or pauses. Each parallel_for gives every member one
// contiguous range of chunks (the same member gets the same range each time, so its caches are warm); who is done with
// its own range takes chunks off the far end of the others'. A worker that lost its core therefore costs at most one
// chunk.
//
// Seats. A worker has a permanent seat with a 64-bit claim word {epoch, next chunk, end chunk}. The caller fills in the
// job and publishes the word; owner and thieves claim by compare-and-swap on it, and the epoch, unique in the process,
// makes claims of an earlier job fail. A claim may touch the job only after it succeeded, and the caller returns only
// when all words are empty and no seat is busy with this epoch, so jobs live on the caller's stack and late workers are
// harmless.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace oxyfuel::runtime {

struct Seat;

/// Number of threads that a call from this thread may use at most: CPUs of its affinity mask, capped by the container's
/// CPU quota (rounded down, at least 1). Read once a thread.
int thread_limit();

/// Replaces the machine's limit by `threads` for all callers, e.g. to test with more threads than CPUs; 0 undoes it.
void override_thread_limit(int threads);

/// A stretch of time in which one calling thread has workers. Not shared between threads; not nested on one thread
/// (a nested region works, with the workers that are left).
class Region {
public:
  /// Runs tasks [begin, end). `scratch` is private to the running thread, 64-byte aligned, of the size asked for.
  /// Returns 0 or an OxyfuelStatus.
  using TaskFunction = int32_t (*)(void *context, int64_t begin, int64_t end, void *scratch);

  /// `threads`: how many the caller wants, itself included; thread_limit() caps it. Claims nobody yet.
  explicit Region(int threads);
  ~Region() { pause(); }
  Region(const Region &) = delete;
  Region &operator=(const Region &) = delete;

  /// Runs all tasks [0, tasks) and returns when they are done: 0, or the non-zero status of a task, after which tasks
  /// that nobody has claimed are dropped. Claims are of at least `grain` tasks; with tasks <= grain, or one thread, all
  /// run on the caller in one call. kOxyfuelOutOfMemory when a thread cannot get its scratch memory.
  int32_t parallel_for(int64_t tasks, int64_t grain, size_t scratch_bytes, TaskFunction function, void *context);

  /// The same for a callable `int32_t f(int64_t begin, int64_t end, void *scratch)`.
  template <class F> int32_t parallel_for(int64_t tasks, int64_t grain, size_t scratch_bytes, F &&f) {
    using Callable = std::remove_reference_t<F>;
    return parallel_for(
        tasks, grain, scratch_bytes,
        [](void *context, int64_t begin, int64_t end, void *scratch) -> int32_t {
          return (*static_cast<Callable *>(context))(begin, end, scratch);
        },
        const_cast<void *>(static_cast<const void *>(&f)));
  }

  /// Hands the workers back until the next parallel_for, e.g. while PyTorch's own threads work.
  void pause();

  /// Members at work now, the caller included: 1 before the first parallel_for and after pause().
  int size() const { return seat_count_ + 1; }

private:
  void claim_workers();

  int threads_;
  int seat_count_ = 0;
  bool joined_ = false;
  static constexpr int kMaxWorkers = 255;
  Seat *seats_[kMaxWorkers];
};

} // namespace oxyfuel::runtime
