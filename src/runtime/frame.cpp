#include "runtime/frame.h"

#include <algorithm>

#include "runtime/binding.h"
#include "runtime/host_table.h"
#include "runtime/memory_plan.h"

namespace oxyfuel::runtime {
namespace {

constexpr size_t kMaxLayouts = 16; // sizes that alternate, as prompt lengths do, beyond this are planned again
constexpr size_t kMaxIdleFrames = 4;

void report(std::string *message, const std::string &text) {
  if (message)
    *message = text;
}

} // namespace

Frame::Frame(const Tables &tables)
    : symbols(tables.first_symbols), slots(tables.plan.slot_count), buffers(tables.plan.buffers.size()),
      allocated(tables.plan.outputs.size()), output_data(tables.plan.outputs.size()),
      dynamic(tables.dynamic_buffers.size()), step_buffers(tables.most_buffers), step_sizes(tables.most_sizes) {
  for (size_t i = 0; i < tables.plan.buffers.size(); ++i)
    if (tables.plan.buffers[i].kind == Buffer::Kind::kConstant)
      buffers[i] = tables.constants.data() + tables.plan.buffers[i].index;
  size_t most_axes = 0;
  for (const Output &output : tables.plan.outputs)
    most_axes = std::max(most_axes, output.shape.size());
  step_sizes.resize(std::max(step_sizes.size(), most_axes));
  step_strides.resize(most_axes);
}

size_t Frame::held_bytes() const {
  size_t bytes = arena.size();
  for (const AlignedMemory &memory : dynamic)
    bytes += memory.size();
  return bytes;
}

OxyfuelStatus Frame::use_layout(const Tables &tables, std::shared_ptr<const Layout> other, std::string *message) {
  layout = nullptr; // whatever happens, the addresses below are no longer those of the old one
  if (!arena.reserve(static_cast<size_t>(other->arena_bytes))) {
    report(message, "no memory for an arena of " + std::to_string(other->arena_bytes) + " bytes");
    return kOxyfuelOutOfMemory;
  }
  for (size_t i = 0; i < tables.arena_buffers.size(); ++i)
    buffers[tables.arena_buffers[i]] = arena.data() + other->arena_offsets[i];
  slots = other->slots;
  layout = std::move(other);
  return kOxyfuelOk;
}

OxyfuelStatus LayoutCache::make(Layout &layout, std::string *message) const {
  const Plan &plan = tables_.plan;
  layout.slots.assign(plan.slot_count, 0);
  std::copy(layout.symbols.begin(), layout.symbols.end(), layout.slots.begin());
  if (tables_.sizes_kernel) {
    void *const buffers[] = {layout.slots.data()};
    const int32_t status = tables_.sizes_kernel(buffers, layout.symbols.data(), 0, 1, nullptr, &host_table());
    if (status != kOxyfuelOk) {
      report(message, "the sizes of this call cannot be computed");
      return static_cast<OxyfuelStatus>(status);
    }
  }
  std::vector<Lifetime> lifetimes;
  for (int32_t index : tables_.arena_buffers) {
    const Buffer &buffer = plan.buffers[index];
    lifetimes.push_back({layout.slots[buffer.bytes], buffer.first_step, buffer.last_step});
  }
  MemoryPlan memory;
  if (!plan_memory(lifetimes, memory)) {
    report(message, "the sizes of this call exceed what memory can hold");
    return kOxyfuelOutOfMemory;
  }
  layout.arena_offsets = std::move(memory.offsets);
  layout.arena_bytes = memory.arena_bytes;
  return kOxyfuelOk;
}

OxyfuelStatus LayoutCache::find(const std::vector<int64_t> &symbols, std::shared_ptr<const Layout> &layout,
                                std::string *message) {
  {
    std::lock_guard lock(mutex);
    for (auto it = layouts_.begin(); it != layouts_.end(); ++it)
      if ((*it)->symbols == symbols) {
        std::rotate(layouts_.begin(), it, it + 1);
        layout = layouts_.front();
        return kOxyfuelOk;
      }
  }
  auto made = std::make_shared<Layout>();
  made->symbols = symbols;
  if (const OxyfuelStatus status = make(*made, message); status != kOxyfuelOk)
    return status;
  layout = made;
  std::lock_guard lock(mutex); // two callers may have made the same one: harmless, the older falls out
  if (layouts_.size() == kMaxLayouts)
    layouts_.pop_back();
  layouts_.insert(layouts_.begin(), std::move(made));
  return kOxyfuelOk;
}

std::shared_ptr<const Layout> LayoutCache::latest() {
  std::lock_guard lock(mutex);
  return layouts_.empty() ? nullptr : layouts_.front();
}

std::unique_ptr<Frame> FramePool::take() {
  {
    std::lock_guard lock(mutex);
    if (!idle_.empty()) {
      auto frame = std::move(idle_.back());
      idle_.pop_back();
      return frame;
    }
  }
  return std::make_unique<Frame>(tables_);
}

void FramePool::give_back(std::unique_ptr<Frame> frame) {
  if (frame->binding && frame->binding->retired.load(std::memory_order_acquire))
    frame->binding = nullptr;
  std::lock_guard lock(mutex);
  if (idle_.size() < kMaxIdleFrames)
    idle_.push_back(std::move(frame));
}

void FramePool::clear() {
  std::vector<std::unique_ptr<Frame>> gone;
  std::lock_guard lock(mutex);
  gone.swap(idle_);
}

size_t FramePool::held_bytes() {
  std::lock_guard lock(mutex);
  size_t bytes = 0;
  for (const auto &frame : idle_)
    bytes += frame->held_bytes();
  return bytes;
}

void FramePool::drop_retired_bindings() {
  std::lock_guard lock(mutex);
  for (const auto &frame : idle_)
    if (frame->binding && frame->binding->retired.load(std::memory_order_acquire))
      frame->binding = nullptr;
}

} // namespace oxyfuel::runtime
