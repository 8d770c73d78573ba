#include "runtime/threads.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>

#include "runtime/abi.h"
#include "support/cpu.h"
#include "support/fork.h"
#include "support/memory.h"
#include "support/system.h"

namespace oxyfuel::runtime {

struct Job;

/// What one worker is asked to do. The first cache line is all that passes between caller and worker for a job.
struct alignas(64) Seat {
  std::atomic<uint64_t> word{0}; // claims: {epoch:32, next:16, end:16}
  std::atomic<uint32_t> busy{0}; // epoch that the worker is at, kAwaited when its caller sleeps on it, 0 for none
  std::atomic<uint32_t> caller_cpu{~0u}; // where the caller ran when it published the job
  const Job *job = nullptr;
  Region::TaskFunction function = nullptr; // job's fields again, to spare a cache miss
  void *context = nullptr;
  int64_t tasks = 0, chunk = 0;
  uint64_t unused = 0;

  std::atomic<uint32_t> parked{0}; // 1 while the worker sleeps or is about to; its futex word
  std::atomic<uint32_t> owned{0};  // 1 while a region has this seat
  int member = 0;                  // index of its word in Job::words
};

/// One parallel_for, on the caller's stack.
struct Job {
  std::atomic<uint64_t> *const *words; // claim words of all members; 0 is the caller's
  int members;
  size_t scratch_bytes;
  uint32_t float_control;
  std::atomic<int32_t> status{kOxyfuelOk}; // the first failure
};

namespace {

constexpr uint32_t kAwaited = ~0u;
constexpr int64_t kMaxChunks = 65535; // what a claim word counts to
// Claims a member has at least, where the grain allows: what one stalled claim can delay is a 64th of its range.
constexpr int64_t kClaimsPerMember = 64;
// A worker spins this long for the next job before it sleeps: about the time between two calls of a small model. Waking
// it again costs about 7 us.
constexpr int64_t kWorkerSpinNanoseconds = 50'000;
// A caller spins this long for the last claims of others; longer means that a worker has lost its CPU.
constexpr int64_t kCallerSpinNanoseconds = 30'000;
constexpr int kMaxWorkers = 255;

constexpr uint64_t pack(uint32_t epoch, int64_t next, int64_t end) {
  return uint64_t{epoch} << 32 | static_cast<uint64_t>(next) << 16 | static_cast<uint64_t>(end);
}
constexpr uint32_t epoch_of(uint64_t word) { return static_cast<uint32_t>(word >> 32); }
constexpr int64_t next_of(uint64_t word) { return static_cast<int64_t>(word >> 16 & 0xffff); }
constexpr int64_t end_of(uint64_t word) { return static_cast<int64_t>(word & 0xffff); }

/// Takes the first chunk (or the last) of a range if it still belongs to job `epoch`.
template <bool kFront> bool claim(std::atomic<uint64_t> &range, uint32_t epoch, int64_t &chunk) {
  uint64_t word = range.load(std::memory_order_acquire);
  while (epoch_of(word) == epoch && next_of(word) < end_of(word)) {
    const uint64_t rest = kFront ? word + (uint64_t{1} << 16) : word - 1;
    if (range.compare_exchange_weak(word, rest, std::memory_order_acq_rel, std::memory_order_acquire)) {
      chunk = kFront ? next_of(word) : end_of(rest);
      return true;
    }
  }
  return false;
}

/// This thread's private memory for kernels. Kept for the life of the thread.
void *scratch_memory(size_t bytes) {
  thread_local AlignedMemory memory;
  return memory.reserve(bytes) ? memory.data() : nullptr;
}

/// What a member runs: fixed for one job.
struct Work {
  Region::TaskFunction function;
  void *context;
  int64_t tasks, chunk;
  void *scratch;

  int32_t operator()(int64_t index) const {
    return function(context, index * chunk, std::min(tasks, (index + 1) * chunk), scratch);
  }
};

/// Works off a member's own range, from the chunk claimed already, then takes from the others until nothing is left.
void work_off(const Job &job, int member, uint32_t epoch, const Work &work, int64_t chunk,
              std::atomic<int32_t> &status) {
  auto run = [&](int64_t index) {
    if (status.load(std::memory_order_relaxed) != kOxyfuelOk)
      return; // claimed and dropped: ranges still drain, so everybody finishes soon
    if (const int32_t result = work(index); result != kOxyfuelOk) {
      int32_t none = kOxyfuelOk;
      status.compare_exchange_strong(none, result, std::memory_order_relaxed);
    }
  };
  do
    run(chunk);
  while (claim<true>(*job.words[member], epoch, chunk));
  for (int step = 1; step < job.members; ++step) {
    const int victim = member + step < job.members ? member + step : member + step - job.members;
    while (claim<false>(*job.words[victim], epoch, chunk))
      run(chunk);
  }
}

class Pool final : public ForkHandler {
public:
  static Pool &get() {
    static Pool *const pool = [] { // never destroyed: workers outlive static destructors
      auto *made = new Pool;
      register_fork_handler(made, ForkRank::kPool);
      return made;
    }();
    return *pool;
  }

  uint32_t next_epoch() {
    for (;;) {
      const uint32_t epoch = epochs_.fetch_add(1, std::memory_order_relaxed);
      if (epoch != 0 && epoch != kAwaited)
        return epoch;
    }
  }

  /// Claims up to `wanted` free workers, in order, so that a lone caller gets the same ones each time.
  int claim_seats(int wanted, Seat **seats) {
    int count = 0;
    if (worker_count_.load(std::memory_order_acquire) < wanted)
      start_workers(wanted);
    const int existing = worker_count_.load(std::memory_order_acquire);
    for (int i = 0; i < existing && count < wanted; ++i) {
      uint32_t free = 0;
      if (seats_[i].owned.load(std::memory_order_relaxed) == 0 &&
          seats_[i].owned.compare_exchange_strong(free, 1, std::memory_order_acquire))
        seats[count++] = &seats_[i];
    }
    return count;
  }

  void before_fork() override { mutex_.lock(); }
  void after_fork(bool in_child) override {
    if (in_child) { // the workers do not exist here: start over
      worker_count_.store(0);
      callers.store(0);
      for (Seat &seat : seats_)
        new (&seat) Seat;
    }
    mutex_.unlock();
  }

  std::atomic<int> callers{0}; ///< regions that hold or want workers now

private:
  void start_workers(int wanted) {
    std::lock_guard lock(mutex_);
    int count = worker_count_.load(std::memory_order_relaxed);
    while (count < wanted && start_thread("oxyfuel", serve, &seats_[count])) // fewer threads are slower, not wrong
      ++count;
    worker_count_.store(count, std::memory_order_release);
  }

  static void *serve(void *argument) {
    Seat &seat = *static_cast<Seat *>(argument);
    uint32_t done = 0;
    for (;;) {
      await_job(seat, done);
      done = epoch_of(seat.word.load(std::memory_order_acquire));
      seat.busy.store(done, std::memory_order_relaxed);
      int64_t chunk;
      if (claim<true>(seat.word, done, chunk))
        run_job(seat, done, chunk);
      if (seat.busy.exchange(0, std::memory_order_acq_rel) == kAwaited)
        wake_one(seat.busy);
    }
    return nullptr;
  }

  static void run_job(Seat &seat, uint32_t epoch, int64_t chunk) {
    Job &job = *const_cast<Job *>(seat.job);
    if (float_control() != job.float_control)
      set_float_control(job.float_control);
    Work work{seat.function, seat.context, seat.tasks, seat.chunk, nullptr};
    if (job.scratch_bytes > 0) {
      work.scratch = scratch_memory(job.scratch_bytes);
      if (!work.scratch) {
        int32_t none = kOxyfuelOk;
        job.status.compare_exchange_strong(none, kOxyfuelOutOfMemory, std::memory_order_relaxed);
      }
    }
    work_off(job, seat.member, epoch, work, chunk, job.status);
  }

  /// Returns when the seat has a job other than `done`. Spins, then sleeps; sleeps at once when it finds itself on the
  /// caller's CPU, where spinning would keep the caller from working.
  static void await_job(Seat &seat, uint32_t done) {
    auto arrived = [&](std::memory_order order) { return epoch_of(seat.word.load(order)) != done; };
    const int64_t deadline = monotonic_nanoseconds() + kWorkerSpinNanoseconds;
    do {
      for (int i = 0; i < 32; ++i) {
        if (arrived(std::memory_order_acquire))
          return;
        spin_pause();
      }
      if (current_cpu() == seat.caller_cpu.load(std::memory_order_relaxed))
        break;
    } while (monotonic_nanoseconds() < deadline);
    while (!arrived(std::memory_order_acquire)) {
      seat.parked.store(1, std::memory_order_seq_cst);
      if (!arrived(std::memory_order_seq_cst))
        wait_while(seat.parked, 1);
      seat.parked.store(0, std::memory_order_relaxed);
    }
  }

  std::mutex mutex_; // starting workers
  std::atomic<int> worker_count_{0};
  std::atomic<uint32_t> epochs_{1};
  Seat seats_[kMaxWorkers];
};

/// Waits until the worker is through with job `epoch`.
void await_worker(Seat &seat, uint32_t epoch) {
  if (seat.busy.load(std::memory_order_acquire) != epoch)
    return;
  const int64_t deadline = monotonic_nanoseconds() + kCallerSpinNanoseconds;
  do
    for (int i = 0; i < 32; ++i) {
      if (seat.busy.load(std::memory_order_acquire) != epoch)
        return;
      spin_pause();
    }
  while (monotonic_nanoseconds() < deadline);
  uint32_t expected = epoch;
  if (!seat.busy.compare_exchange_strong(expected, kAwaited, std::memory_order_acq_rel))
    return;
  while (seat.busy.load(std::memory_order_acquire) == kAwaited)
    wait_while(seat.busy, kAwaited);
}

std::atomic<int> limit_override{0};

} // namespace

int thread_limit() {
  if (const int limit = limit_override.load(std::memory_order_relaxed))
    return limit;
  thread_local const int limit = usable_cpu_count();
  return limit;
}

void override_thread_limit(int threads) { limit_override.store(std::max(threads, 0), std::memory_order_relaxed); }

Region::Region(int threads) : threads_(std::clamp(threads, 1, std::min(thread_limit(), runtime::kMaxWorkers + 1))) {}

void Region::claim_workers() {
  // Callers at the same time share the CPUs: each takes its part at most, and what is free of it.
  joined_ = true;
  const int callers = Pool::get().callers.fetch_add(1, std::memory_order_relaxed) + 1;
  const int share = std::max(1, thread_limit() / std::max(callers, 1));
  seat_count_ = Pool::get().claim_seats(std::min(threads_, share) - 1, seats_);
}

void Region::pause() {
  if (!joined_)
    return;
  for (int i = 0; i < seat_count_; ++i)
    seats_[i]->owned.store(0, std::memory_order_release);
  seat_count_ = 0;
  joined_ = false;
  Pool::get().callers.fetch_sub(1, std::memory_order_relaxed);
}

int32_t Region::parallel_for(int64_t tasks, int64_t grain, size_t scratch_bytes, TaskFunction function, void *context) {
  if (tasks <= 0)
    return kOxyfuelOk;
  void *scratch = scratch_bytes > 0 ? scratch_memory(scratch_bytes) : nullptr;
  if (scratch_bytes > 0 && !scratch)
    return kOxyfuelOutOfMemory;
  grain = std::max<int64_t>(grain, 1);
  if (threads_ > 1 && tasks > grain && !joined_)
    claim_workers();
  if (tasks <= grain || seat_count_ == 0)
    return function(context, 0, tasks, scratch);

  const int64_t claims = std::min(kMaxChunks, (seat_count_ + 1) * kClaimsPerMember);
  const int64_t chunk = std::max(grain, (tasks - 1) / claims + 1), chunks = (tasks - 1) / chunk + 1;
  const int members = static_cast<int>(std::min<int64_t>(seat_count_ + 1, chunks));
  if (members == 1)
    return function(context, 0, tasks, scratch);

  alignas(64) std::atomic<uint64_t> own;
  std::atomic<uint64_t> *words[runtime::kMaxWorkers + 1];
  words[0] = &own;
  for (int member = 1; member < members; ++member)
    words[member] = &seats_[member - 1]->word;
  Job job{words, members, scratch_bytes, float_control()};
  const uint32_t epoch = Pool::get().next_epoch(), cpu = current_cpu();
  // The first chunk is the caller's from the start: no claim needed.
  own.store(pack(epoch, 1, chunks / members), std::memory_order_release);
  for (int member = 1; member < members; ++member) {
    Seat &seat = *seats_[member - 1];
    seat.job = &job;
    seat.function = function, seat.context = context;
    seat.tasks = tasks, seat.chunk = chunk;
    seat.member = member;
    seat.caller_cpu.store(cpu, std::memory_order_relaxed);
  }
  for (int member = 1; member < members; ++member) {
    Seat &seat = *seats_[member - 1];
    seat.word.exchange(pack(epoch, chunks * member / members, chunks * (member + 1) / members),
                       std::memory_order_seq_cst);
    if (seat.parked.load(std::memory_order_seq_cst) != 0 && seat.parked.exchange(0, std::memory_order_seq_cst) != 0)
      wake_one(seat.parked);
  }
  work_off(job, 0, epoch, Work{function, context, tasks, chunk, scratch}, 0, job.status);
  for (int member = 1; member < members; ++member)
    await_worker(*seats_[member - 1], epoch);
  return job.status.load(std::memory_order_relaxed);
}

} // namespace oxyfuel::runtime
