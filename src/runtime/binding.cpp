#include "runtime/binding.h"

#include <algorithm>
#include <cstring>

#include "runtime/executor.h"
#include "runtime/memory_plan.h"
#include "runtime/threads.h"

namespace oxyfuel::runtime {
namespace {

constexpr int64_t kSamplesPerArgument = 4;
constexpr uint64_t kIdleCalls = 4096; // a binding that this many calls did not use belongs to a model that is gone

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15; // 2^64 / golden ratio
  return hash ^ hash >> 29;
}

uint64_t hash_of(const Tables &tables, const Call &call) {
  uint64_t hash = 0;
  for (int32_t argument : tables.bound_arguments)
    hash = mix(hash, reinterpret_cast<uintptr_t>(call.argument_data[argument]));
  return hash;
}

/// Reads bytes that another thread may be writing: a torn value only means one more binding.
#if defined(__SANITIZE_THREAD__)
__attribute__((no_sanitize("thread")))
#endif
uint64_t read_sample(const uint8_t *place, uint32_t size) {
  uint64_t value = 0;
  switch (size) {
  case 1: return *place;
  case 2: __builtin_memcpy(&value, place, 2); return value;
  case 4: __builtin_memcpy(&value, place, 4); return value;
  default: __builtin_memcpy(&value, place, 8); return value;
  }
}

} // namespace

bool BindingCache::has_same_identity(const Binding &binding, const Call &call, const Frame &frame) const {
  for (size_t i = 0; i < tables_.bound_arguments.size(); ++i)
    if (binding.addresses[i] != call.argument_data[tables_.bound_arguments[i]])
      return false;
  for (size_t i = 0; i < tables_.bound_slots.size(); ++i)
    if (binding.slots[i] != frame.slots[tables_.bound_slots[i]])
      return false;
  return true;
}

bool BindingCache::is_current(const Binding &binding, const Call &call) const {
  if (call.fingerprints)
    for (size_t i = 0; i < tables_.bound_arguments.size(); ++i)
      if (binding.fingerprints[i] != call.fingerprints[tables_.bound_arguments[i]])
        return false;
  for (const Sample &sample : binding.samples)
    if (read_sample(static_cast<const uint8_t *>(call.argument_data[sample.argument]) + sample.offset, sample.size) !=
        sample.value)
      return false;
  return true;
}

std::shared_ptr<Binding> BindingCache::find(const Call &call, const Frame &frame, uint64_t hash) {
  std::lock_guard lock(mutex);
  for (const auto &binding : bindings_)
    if (binding->hash == hash && has_same_identity(*binding, call, frame))
      return binding;
  return nullptr;
}

void BindingCache::use(Frame &frame, std::shared_ptr<const Binding> binding) const {
  for (size_t i = 0; i < tables_.bound_buffers.size(); ++i)
    frame.buffers[tables_.bound_buffers[i]] = binding->buffers[i];
  frame.binding = std::move(binding);
}

OxyfuelStatus BindingCache::bind(const Call &call, Frame &frame, std::string *message) {
  if (tables_.bind_actions.empty() && tables_.bound_buffers.empty())
    return kOxyfuelOk;
  const uint64_t present = clock_.fetch_add(1, std::memory_order_relaxed);
  if (const Binding *last = frame.binding.get(); last && !last->retired.load(std::memory_order_acquire) &&
                                                 has_same_identity(*last, call, frame) && is_current(*last, call)) {
    last->last_use.store(present, std::memory_order_relaxed);
    return kOxyfuelOk;
  }
  const uint64_t hash = hash_of(tables_, call);
  frame.binding = nullptr;
  if (auto found = find(call, frame, hash); found && is_current(*found, call)) {
    found->last_use.store(present, std::memory_order_relaxed);
    use(frame, std::move(found));
    return kOxyfuelOk;
  }

  std::lock_guard binding_lock(binding_mutex);
  auto found = find(call, frame, hash); // another caller may have bound meanwhile
  auto made = std::make_shared<Binding>();
  if (found && is_current(*found, call)) {
    made = std::move(found);
  } else {
    if (found) { // out of date: its memory serves again unless a call still reads it
      {
        std::lock_guard lock(mutex);
        if (auto place = std::find(bindings_.begin(), bindings_.end(), found); place != bindings_.end())
          retire(static_cast<size_t>(place - bindings_.begin()));
      }
      frames_.drop_retired_bindings();
      if (found.use_count() == 1)
        made->memory = std::move(found->memory);
    }
    made->hash = hash;
    const uint64_t generation = generation_.load(std::memory_order_acquire);
    if (const OxyfuelStatus status = make(call, frame, *made, message); status != kOxyfuelOk)
      return status;
    std::lock_guard lock(mutex);
    made->last_use.store(present, std::memory_order_relaxed);
    if (generation == generation_.load(std::memory_order_relaxed))
      bindings_.push_back(made);
    else
      made->retired.store(true, std::memory_order_release); // invalidated meanwhile: good for this call only
    evict(present);
  }
  frames_.drop_retired_bindings();
  made->last_use.store(present, std::memory_order_relaxed);
  use(frame, std::move(made));
  return kOxyfuelOk;
}

void BindingCache::take_samples(const Call &call, const Frame &frame, Binding &binding) const {
  for (int32_t index : tables_.bound_arguments) {
    const Argument &argument = tables_.plan.arguments[index];
    int64_t count = 1;
    for (Slot extent : argument.shape)
      count *= frame.slots[extent];
    const int64_t samples = std::min(count, kSamplesPerArgument), item = static_cast<int64_t>(size_of(argument.dtype));
    for (int64_t k = 0; k < samples; ++k) {
      int64_t rest = samples == 1 ? 0 : (count - 1) / (samples - 1) * k, offset = 0;
      if (k == samples - 1)
        rest = count - 1;
      for (size_t axis = argument.shape.size(); axis-- > 0;) {
        const int64_t extent = frame.slots[argument.shape[axis]];
        offset += rest % extent * frame.slots[argument.strides[axis]];
        rest /= extent;
      }
      Sample sample{index, static_cast<uint32_t>(std::min<int64_t>(item, 8)), offset * item, 0};
      sample.value = read_sample(static_cast<const uint8_t *>(call.argument_data[index]) + sample.offset, sample.size);
      binding.samples.push_back(sample);
    }
  }
}

OxyfuelStatus BindingCache::make(const Call &call, Frame &frame, Binding &binding, std::string *message) {
  for (int32_t argument : tables_.bound_arguments) {
    binding.addresses.push_back(call.argument_data[argument]);
    binding.fingerprints.push_back(call.fingerprints ? call.fingerprints[argument] : 0);
  }
  for (Slot slot : tables_.bound_slots)
    binding.slots.push_back(frame.slots[slot]);
  take_samples(call, frame, binding); // before packing: a write during it is noticed by the next call
  std::vector<Lifetime> lifetimes;
  for (int32_t buffer : tables_.bound_buffers)
    lifetimes.push_back({frame.slots[tables_.plan.buffers[buffer].bytes], 0, 0});
  MemoryPlan plan;
  const bool planned = plan_memory(lifetimes, plan);
  if (!planned || !binding.memory.reserve(static_cast<size_t>(plan.arena_bytes))) {
    if (message)
      *message = "no memory for " + std::to_string(plan.arena_bytes) + " bytes of packed weights";
    return kOxyfuelOutOfMemory;
  }
  for (size_t i = 0; i < tables_.bound_buffers.size(); ++i) {
    binding.buffers.push_back(binding.memory.data() + plan.offsets[i]);
    frame.buffers[tables_.bound_buffers[i]] = binding.buffers.back();
  }
  bind_count_.fetch_add(1, std::memory_order_relaxed);
  Region region(call.threads);
  for (size_t i = 0; i < tables_.bind_actions.size(); ++i)
    if (const OxyfuelStatus status = run_action(tables_, tables_.bind_actions[i], frame, region);
        status != kOxyfuelOk) {
      if (message)
        *message = describe_failure(status, tables_.plan.bind_steps[i]);
      return status;
    }
  return kOxyfuelOk;
}

void BindingCache::retire(size_t index) {
  bindings_[index]->retired.store(true, std::memory_order_release);
  bindings_.erase(bindings_.begin() + static_cast<ptrdiff_t>(index));
}

void BindingCache::evict(uint64_t present) {
  for (size_t i = bindings_.size(); i-- > 0;)
    if (bindings_[i]->last_use.load(std::memory_order_relaxed) + kIdleCalls < present)
      retire(i);
  while (bindings_.size() > limit_) {
    size_t oldest = 0;
    for (size_t i = 1; i < bindings_.size(); ++i)
      if (bindings_[i]->last_use.load(std::memory_order_relaxed) <
          bindings_[oldest]->last_use.load(std::memory_order_relaxed))
        oldest = i;
    retire(oldest);
  }
}

void BindingCache::invalidate() {
  {
    std::lock_guard lock(mutex);
    generation_.fetch_add(1, std::memory_order_release);
    while (!bindings_.empty())
      retire(bindings_.size() - 1);
  }
  frames_.drop_retired_bindings();
}

void BindingCache::set_limit(int limit) {
  {
    std::lock_guard lock(mutex);
    limit_ = static_cast<size_t>(std::max(limit, 1));
    evict(clock_.load(std::memory_order_relaxed));
  }
  frames_.drop_retired_bindings();
}

size_t BindingCache::held_bytes() {
  std::lock_guard lock(mutex);
  size_t bytes = 0;
  for (const auto &binding : bindings_)
    bytes += binding->memory.size();
  return bytes;
}

} // namespace oxyfuel::runtime
