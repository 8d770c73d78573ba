// Locks across fork(). A child has only the thread that forked; a lock that another thread held at that moment would
// stay locked for good. Whoever owns locks registers a handler: all are taken before the fork and released on both
// sides.
#pragma once

namespace oxyfuel {

class ForkHandler {
public:
  /// Takes all locks of the owner.
  virtual void before_fork() = 0;
  /// Releases them; in the child also forgets what other threads were doing.
  virtual void after_fork(bool in_child) = 0;

protected:
  ~ForkHandler() = default;
};

/// Order of locking: whoever may take another's lock while it holds its own has the lower rank.
enum class ForkRank { kProgram = 0, kPool = 1 };

void register_fork_handler(ForkHandler *handler, ForkRank rank);
/// Returns when no fork is in progress that could still call the handler.
void unregister_fork_handler(ForkHandler *handler);

} // namespace oxyfuel
