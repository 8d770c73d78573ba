#include "support/fork.h"

#include <algorithm>
#include <mutex>
#include <pthread.h>
#include <utility>
#include <vector>

namespace oxyfuel {
namespace {

struct Registry {
  std::mutex mutex;
  std::vector<std::pair<ForkRank, ForkHandler *>> handlers; // by ascending rank
};

/// Never destroyed: threads may still work while the process exits.
Registry &registry() {
  static Registry *const instance = [] {
    pthread_atfork(
        [] {
          registry().mutex.lock();
          for (auto &[rank, handler] : registry().handlers)
            handler->before_fork();
        },
        [] {
          for (auto &[rank, handler] : registry().handlers)
            handler->after_fork(false);
          registry().mutex.unlock();
        },
        [] {
          for (auto &[rank, handler] : registry().handlers)
            handler->after_fork(true);
          registry().mutex.unlock();
        });
    return new Registry;
  }();
  return *instance;
}

} // namespace

void register_fork_handler(ForkHandler *handler, ForkRank rank) {
  Registry &all = registry();
  std::lock_guard lock(all.mutex);
  auto place = std::upper_bound(all.handlers.begin(), all.handlers.end(), rank,
                                [](ForkRank wanted, const auto &entry) { return wanted < entry.first; });
  all.handlers.insert(place, {rank, handler});
}

void unregister_fork_handler(ForkHandler *handler) {
  Registry &all = registry();
  std::lock_guard lock(all.mutex);
  std::erase_if(all.handlers, [&](const auto &entry) { return entry.second == handler; });
}

} // namespace oxyfuel
