#include "support/code_symbols.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <mutex>
#include <string>
#include <unistd.h>

#include "support/fork.h"

// What gdb looks for by name: it reads the list that the descriptor begins, and stops in the function to learn of
// changes ("JIT Compilation Interface" of its manual). Other compilers in the process have their own under the same
// names; protected visibility keeps ours from being replaced by theirs.
extern "C" {

enum JitAction : uint32_t { kJitNoAction = 0, kJitRegister = 1, kJitUnregister = 2 };

struct JitCodeEntry {
  JitCodeEntry *next, *previous;
  const uint8_t *object;
  uint64_t size;
};

struct JitDescriptor {
  uint32_t version;
  uint32_t action;
  JitCodeEntry *relevant, *first;
};

__attribute__((visibility("protected"), noinline, used)) void __jit_debug_register_code() {
  asm volatile("" ::: "memory");
}
__attribute__((visibility("protected"), used)) JitDescriptor __jit_debug_descriptor = {1, kJitNoAction, nullptr,
                                                                                       nullptr};

} // extern "C"

namespace oxyfuel {

struct CodeSymbols::Implementation {
  std::vector<CodeSymbol> symbols;
  std::vector<uint8_t> object;
  JitCodeEntry entry = {};
};

namespace {

/// What is known, and the file that it is written to.
struct Known final : ForkHandler {
  std::mutex mutex;
  std::vector<const std::vector<CodeSymbol> *> symbols;
  bool writes_map = false;
  std::FILE *map = nullptr;

  Known() {
    const char *wanted = std::getenv("OXYFUEL_PERF_MAP");
    writes_map = wanted && *wanted && *wanted != '0';
    register_fork_handler(this, ForkRank::kPool);
  }
  void before_fork() override { mutex.lock(); }
  /// A child has a file of its own, which lists what it got from its parent too.
  void after_fork(bool in_child) override {
    if (in_child && map) {
      std::fclose(map);
      map = nullptr;
      write_all();
    }
    mutex.unlock();
  }

  void write(const std::vector<CodeSymbol> &list) {
    if (!map) {
      const std::string path = "/tmp/perf-" + std::to_string(getpid()) + ".map";
      // Nobody else's link is followed: the name can be guessed.
      const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
      map = file < 0 ? nullptr : fdopen(file, "a");
    }
    if (!map)
      return; // a map that cannot be written costs names in a profile, not the program
    for (const CodeSymbol &symbol : list)
      std::fprintf(map, "%" PRIxPTR " %zx %s%s\n", reinterpret_cast<uintptr_t>(symbol.start), symbol.size,
                   symbol.name.c_str(),
                   symbol.file.empty() ? "" : (" [" + symbol.file + ":" + std::to_string(symbol.line) + "]").c_str());
    std::fflush(map);
  }
  void write_all() {
    for (const std::vector<CodeSymbol> *list : symbols)
      write(*list);
  }
};

/// Never destroyed: programs may live until the process ends.
Known &known() {
  static Known *const instance = new Known;
  return *instance;
}

/// Made while the module loads: a fork in the middle of making it would leave the child waiting for it.
[[maybe_unused]] Known &made_at_load = known();

void tell_debugger(JitAction action, JitCodeEntry &entry) {
  __jit_debug_descriptor.action = action;
  __jit_debug_descriptor.relevant = &entry;
  __jit_debug_register_code();
}

} // namespace

CodeSymbols::CodeSymbols(std::vector<CodeSymbol> symbols) : implementation_(std::make_unique<Implementation>()) {
  Implementation &mine = *implementation_;
  mine.symbols = std::move(symbols);
  if (mine.symbols.empty())
    return;
  mine.object = make_debug_object(mine.symbols);
  Known &all = known();
  std::lock_guard lock(all.mutex);
  all.symbols.push_back(&mine.symbols);
  if (all.writes_map)
    all.write(mine.symbols);
  if (mine.object.empty())
    return;
  mine.entry = {__jit_debug_descriptor.first, nullptr, mine.object.data(), mine.object.size()};
  if (mine.entry.next)
    mine.entry.next->previous = &mine.entry;
  __jit_debug_descriptor.first = &mine.entry;
  tell_debugger(kJitRegister, mine.entry);
}

CodeSymbols::~CodeSymbols() {
  Implementation &mine = *implementation_;
  if (mine.symbols.empty())
    return;
  Known &all = known();
  std::lock_guard lock(all.mutex);
  std::erase(all.symbols, &mine.symbols);
  if (mine.object.empty())
    return;
  if (mine.entry.next)
    mine.entry.next->previous = mine.entry.previous;
  (mine.entry.previous ? mine.entry.previous->next : __jit_debug_descriptor.first) = mine.entry.next;
  tell_debugger(kJitUnregister, mine.entry);
}

void CodeSymbols::write_perf_map() {
  Known &all = known();
  std::lock_guard lock(all.mutex);
  if (all.writes_map)
    return;
  all.writes_map = true;
  all.write_all();
}

} // namespace oxyfuel
