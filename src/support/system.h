// What the thread pool asks of the operating system.
#pragma once

#include <atomic>
#include <cstdint>

namespace oxyfuel {

/// Nanoseconds of a clock that never goes back.
int64_t monotonic_nanoseconds();

/// The CPU that the calling thread runs on at this moment.
uint32_t current_cpu();

/// Sleeps while `word` holds `expected`; may return early. Between threads of one process.
void wait_while(std::atomic<uint32_t> &word, uint32_t expected);
/// Wakes one thread that sleeps on `word`.
void wake_one(std::atomic<uint32_t> &word);

/// Starts a thread that nobody joins: named, without signals (these are for the program's own threads), and free to run
/// where the process may, not only where the thread that starts it may. False when the system has no more threads.
bool start_thread(const char *name, void *(*function)(void *), void *argument);

} // namespace oxyfuel
