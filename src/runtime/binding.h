// What bind steps made from static arguments (packed weights), and when it is out of date. A binding belongs to one
// tuple of argument addresses; it holds while fingerprints, the sizes involved and a few sampled elements of each
// argument stay as they were. Samples notice most writes that version counters miss.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/frame.h"
#include "runtime/program.h"
#include "runtime/tables.h"
#include "support/memory.h"

namespace oxyfuel::runtime {

/// Bytes of one argument at a fixed offset.
struct Sample {
  int32_t argument;
  uint32_t size; ///< 1, 2, 4 or 8
  int64_t offset;
  uint64_t value;
};

struct Binding {
  uint64_t hash = 0;                   ///< of the addresses
  std::vector<const void *> addresses; ///< one a Tables::bound_arguments entry, as are the fingerprints
  std::vector<uint64_t> fingerprints;
  std::vector<int64_t> slots; ///< values of Tables::bound_slots
  std::vector<Sample> samples;
  mutable AlignedMemory memory;
  std::vector<void *> buffers; ///< one a Tables::bound_buffers entry
  mutable std::atomic<uint64_t> last_use{0};
  mutable std::atomic<bool> retired{false};
};

class BindingCache {
public:
  BindingCache(const Tables &tables, FramePool &frames) : tables_(tables), frames_(frames) {}

  /// Makes `frame.binding` and the addresses of the bound buffers fit the call's static arguments; runs the bind steps
  /// when nothing that fits is at hand. Needs the frame's slots. Callers that still use the old binding keep it to
  /// their end.
  OxyfuelStatus bind(const Call &call, Frame &frame, std::string *message);

  void invalidate();
  void set_limit(int limit);
  size_t held_bytes();
  uint64_t bind_count() const { return bind_count_.load(std::memory_order_relaxed); }

  /// For fork handlers: lock in this order.
  std::mutex binding_mutex, mutex;

private:
  bool has_same_identity(const Binding &binding, const Call &call, const Frame &frame) const;
  bool is_current(const Binding &binding, const Call &call) const;
  std::shared_ptr<Binding> find(const Call &call, const Frame &frame, uint64_t hash);
  OxyfuelStatus make(const Call &call, Frame &frame, Binding &binding, std::string *message);
  void take_samples(const Call &call, const Frame &frame, Binding &binding) const;
  void use(Frame &frame, std::shared_ptr<const Binding> binding) const;
  void retire(size_t index);
  void evict(uint64_t present);

  const Tables &tables_;
  FramePool &frames_;
  std::vector<std::shared_ptr<Binding>> bindings_; // guarded by mutex
  size_t limit_ = 64;
  std::atomic<uint64_t> clock_{0}, bind_count_{0};
  std::atomic<uint64_t> generation_{0}; // counts invalidations
};

} // namespace oxyfuel::runtime
