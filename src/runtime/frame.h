// What a call needs besides its arguments, kept for the next call: slot values, buffer addresses, the arena. Calls at
// the same time use different frames; a frame that comes back unchanged sizes needs no work at all.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/tables.h"
#include "support/memory.h"

namespace oxyfuel::runtime {

struct Binding;

/// All that follows from the symbols' values. Immutable.
struct Layout {
  std::vector<int64_t> symbols, slots;
  std::vector<int64_t> arena_offsets; ///< one a Tables::arena_buffers entry
  int64_t arena_bytes = 0;
};

struct Frame {
  explicit Frame(const Tables &tables);

  std::vector<int64_t> symbols; ///< of the present call
  std::shared_ptr<const Layout> layout;
  std::vector<int64_t> slots;
  std::vector<void *> buffers;    ///< address of each buffer of the plan
  std::vector<uint8_t> allocated; ///< one an output: made in this call
  std::vector<void *> output_data;
  AlignedMemory arena;
  std::vector<AlignedMemory> dynamic;
  std::shared_ptr<const Binding> binding;

  // Operands of the step that runs.
  std::vector<void *> step_buffers;
  std::vector<int64_t> step_sizes, step_strides;

  size_t held_bytes() const;
  /// Takes over another layout and points the arena buffers to their places. kOxyfuelOutOfMemory without a change.
  OxyfuelStatus use_layout(const Tables &tables, std::shared_ptr<const Layout> other, std::string *message);
};

/// Layouts for the sizes seen last, shared by all frames.
class LayoutCache {
public:
  explicit LayoutCache(const Tables &tables) : tables_(tables) {}
  OxyfuelStatus find(const std::vector<int64_t> &symbols, std::shared_ptr<const Layout> &layout, std::string *message);
  /// The one used last; null before the first call.
  std::shared_ptr<const Layout> latest();
  std::mutex mutex;

private:
  OxyfuelStatus make(Layout &layout, std::string *message) const;
  const Tables &tables_;
  std::vector<std::shared_ptr<const Layout>> layouts_; // the one used last at the front
};

/// Idle frames. The one that came back last goes out first: its arena is in the cache.
class FramePool {
public:
  explicit FramePool(const Tables &tables) : tables_(tables) {}
  std::unique_ptr<Frame> take();
  void give_back(std::unique_ptr<Frame> frame);
  void clear();
  size_t held_bytes();
  /// Idle frames let go of bindings that are out of date, so that their memory can go.
  void drop_retired_bindings();
  std::mutex mutex;

private:
  const Tables &tables_;
  std::vector<std::unique_ptr<Frame>> idle_;
};

} // namespace oxyfuel::runtime
