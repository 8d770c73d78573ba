#include "runtime/program.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "runtime/arguments.h"
#include "runtime/binding.h"
#include "runtime/code_names.h"
#include "runtime/executor.h"
#include "runtime/frame.h"
#include "runtime/tables.h"
#include "support/code_symbols.h"
#include "support/fork.h"

namespace oxyfuel::runtime {

struct Program::Implementation final : ForkHandler {
  Implementation(std::unique_ptr<Tables> made, std::unique_ptr<LoadedImages> loaded)
      : images(std::move(loaded)), tables(std::move(made)), layouts(*tables), frames(*tables),
        bindings(*tables, frames) {
    register_fork_handler(this, ForkRank::kProgram);
  }
  ~Implementation() { unregister_fork_handler(this); }

  void before_fork() override {
    bindings.binding_mutex.lock();
    bindings.mutex.lock();
    layouts.mutex.lock();
    frames.mutex.lock();
  }
  void after_fork(bool) override {
    frames.mutex.unlock();
    layouts.mutex.unlock();
    bindings.mutex.unlock();
    bindings.binding_mutex.unlock();
  }

  OxyfuelStatus run(const Call &call, Frame &frame, std::string *message);
  OxyfuelStatus prepare(const Call &call, Frame &frame, std::string *message);

  std::unique_ptr<LoadedImages> images; // null when the kernels came from outside
  std::unique_ptr<CodeSymbols> names;   // of the code in `images`
  std::unique_ptr<Tables> tables;
  LayoutCache layouts;
  FramePool frames;
  BindingCache bindings;
};

/// From the arguments to a frame whose slots, arena and argument buffers fit this call.
OxyfuelStatus Program::Implementation::prepare(const Call &call, Frame &frame, std::string *message) {
  const Plan &plan = tables->plan;
  if (const OxyfuelStatus status = check_kinds(plan, call, message); status != kOxyfuelOk)
    return status;
  if (tables->has_step_symbols)
    frame.symbols = tables->first_symbols;
  read_symbols(plan, call, frame.symbols);
  if (!frame.layout || frame.layout->symbols != frame.symbols) {
    std::shared_ptr<const Layout> layout;
    OxyfuelStatus status = layouts.find(frame.symbols, layout, message);
    if (status == kOxyfuelOk)
      status = frame.use_layout(*tables, std::move(layout), message);
    if (status != kOxyfuelOk)
      return status;
  } else if (tables->has_step_symbols) {
    frame.slots = frame.layout->slots; // the last call's steps have changed them
  }
  if (const OxyfuelStatus status = check_arguments(plan, call, frame.slots.data(), message); status != kOxyfuelOk)
    return status;
  for (int32_t buffer : tables->argument_buffers)
    frame.buffers[buffer] = call.argument_data[plan.buffers[buffer].index];
  for (int32_t buffer : tables->extern_buffers)
    frame.buffers[buffer] = nullptr;
  std::fill(frame.allocated.begin(), frame.allocated.end(), uint8_t{0});
  if (call.poison && frame.arena.size() > 0)
    std::memset(frame.arena.data(), 0xff, frame.arena.size());
  return kOxyfuelOk;
}

OxyfuelStatus Program::Implementation::run(const Call &call, Frame &frame, std::string *message) {
  if (const OxyfuelStatus status = prepare(call, frame, message); status != kOxyfuelOk)
    return status;
  Executor executor(*tables, call, frame, message);
  if (const OxyfuelStatus status = executor.allocate_early_outputs(); status != kOxyfuelOk)
    return status;
  if (call.begin)
    call.begin(call.context);
  OxyfuelStatus status = bindings.bind(call, frame, message);
  if (status == kOxyfuelOk)
    status = executor.run_steps();
  if (call.end)
    call.end(call.context);
  return status == kOxyfuelOk ? executor.deliver_outputs() : status;
}

Program::Program(std::unique_ptr<Implementation> implementation) : implementation_(std::move(implementation)) {}
Program::~Program() = default;

std::unique_ptr<Program> Program::load(Plan plan, const std::vector<CodeImage> &images, std::string &message) {
  auto loaded = LoadedImages::load(images, message);
  if (!loaded)
    return nullptr;
  std::vector<OxyfuelKernel> kernels;
  for (const Kernel &kernel : plan.kernels) {
    kernels.push_back(loaded->entry(kernel.image, kernel.offset));
    if (!kernels.back()) {
      message = "kernel " + kernel.name + " lies outside of image " + std::to_string(kernel.image);
      return nullptr;
    }
  }
  auto tables = Tables::make(std::move(plan), std::move(kernels), message);
  if (!tables)
    return nullptr;
  auto names = std::make_unique<CodeSymbols>(name_code(tables->plan, images, *loaded));
  auto implementation = std::make_unique<Implementation>(std::move(tables), std::move(loaded));
  implementation->names = std::move(names);
  return std::unique_ptr<Program>(new Program(std::move(implementation)));
}

std::unique_ptr<Program> Program::make(Plan plan, std::vector<OxyfuelKernel> kernels, std::string &message) {
  auto tables = Tables::make(std::move(plan), std::move(kernels), message);
  if (!tables)
    return nullptr;
  return std::unique_ptr<Program>(new Program(std::make_unique<Implementation>(std::move(tables), nullptr)));
}

const Plan &Program::plan() const { return implementation_->tables->plan; }

OxyfuelStatus Program::run(const Call &call, std::string *message) {
  if (message)
    message->clear();
  std::unique_ptr<Frame> frame = implementation_->frames.take();
  const OxyfuelStatus status = implementation_->run(call, *frame, message);
  implementation_->frames.give_back(std::move(frame));
  return status;
}

void Program::invalidate() { implementation_->bindings.invalidate(); }
void Program::set_binding_limit(int limit) { implementation_->bindings.set_limit(limit); }
Program::Memory Program::memory() const {
  return {implementation_->frames.held_bytes(), implementation_->bindings.held_bytes()};
}
Program::MemoryMap Program::memory_map() const {
  MemoryMap map;
  const std::shared_ptr<const Layout> layout = implementation_->layouts.latest();
  if (!layout)
    return map;
  const Tables &tables = *implementation_->tables;
  map.arena_bytes = layout->arena_bytes;
  std::vector<int64_t> offsets(tables.plan.buffers.size(), -1);
  for (size_t i = 0; i < tables.arena_buffers.size(); ++i)
    offsets[tables.arena_buffers[i]] = layout->arena_offsets[i];
  for (size_t i = 0; i < offsets.size(); ++i)
    if (const Buffer &buffer = tables.plan.buffers[i]; buffer.bytes != kNoSlot)
      map.buffers.push_back({static_cast<int32_t>(i), layout->slots[buffer.bytes], offsets[i]});
  return map;
}
void Program::trim() { implementation_->frames.clear(); }
uint64_t Program::bind_count() const { return implementation_->bindings.bind_count(); }

} // namespace oxyfuel::runtime
