// The checks that make a plan safe to walk: whatever passes indexes no table out of range. What kernels do with their
// buffers is beyond them; images are trusted by their hash.
#include "runtime/plan.h"

namespace oxyfuel::runtime {
namespace {

constexpr int kMaxNesting = 64;
constexpr int64_t kMaxScratch = int64_t{1} << 32;

class Checker {
public:
  Checker(const Plan &plan, std::string &message) : plan_(plan), message_(message) {}

  bool run() {
    return check_symbols() && check_arguments() && check_outputs() && check_buffers() && check_kernels() &&
           check_bind_steps() && check_steps(0, static_cast<int64_t>(plan_.steps.size()), 0);
  }

private:
  bool fail(const std::string &what, size_t index, const std::string &problem) {
    message_ = what + " " + std::to_string(index) + " of the plan: " + problem;
    return false;
  }
  template <class T> static bool within(int64_t index, const std::vector<T> &list) {
    return index >= 0 && index < static_cast<int64_t>(list.size());
  }
  bool is_slot(Slot slot) const { return slot >= 0 && slot < plan_.slot_count; }
  bool are_slots(const std::vector<Slot> &slots) const {
    for (Slot slot : slots)
      if (!is_slot(slot))
        return false;
    return true;
  }
  bool is_tensor(int64_t argument) const {
    return within(argument, plan_.arguments) && plan_.arguments[argument].kind == Argument::Kind::kTensor;
  }

  bool check_symbols() {
    if (plan_.symbol_count < 0 || plan_.slot_count < plan_.symbol_count ||
        plan_.symbols.size() != static_cast<size_t>(plan_.symbol_count)) {
      message_ = "counts of symbols and slots of the plan do not agree";
      return false;
    }
    if (plan_.sizes_kernel != -1 && !within(plan_.sizes_kernel, plan_.kernels)) {
      message_ = "the plan's sizes kernel does not exist";
      return false;
    }
    if (plan_.sizes_kernel == -1 && plan_.slot_count != plan_.symbol_count) {
      message_ = "the plan has slots and no sizes kernel";
      return false;
    }
    for (size_t i = 0; i < plan_.symbols.size(); ++i) {
      const SymbolSource &symbol = plan_.symbols[i];
      if (symbol.kind == SymbolSource::Kind::kStep)
        continue;
      if (!within(symbol.argument, plan_.arguments))
        return fail("symbol", i, "its argument does not exist");
      const Argument &argument = plan_.arguments[symbol.argument];
      const bool integer = symbol.kind == SymbolSource::Kind::kInteger;
      if (integer != (argument.kind == Argument::Kind::kInteger))
        return fail("symbol", i, "its argument is of the other kind");
      if (!integer && !within(symbol.axis, argument.shape))
        return fail("symbol", i, "its axis does not exist");
    }
    return true;
  }

  bool check_arguments() {
    for (size_t i = 0; i < plan_.arguments.size(); ++i) {
      const Argument &argument = plan_.arguments[i];
      if (argument.shape.size() != argument.strides.size())
        return fail("argument", i, "as many strides as sizes are wanted");
      if (!are_slots(argument.shape) || !are_slots(argument.strides))
        return fail("argument", i, "a slot does not exist");
    }
    return true;
  }

  bool check_outputs() {
    for (size_t i = 0; i < plan_.outputs.size(); ++i) {
      const Output &output = plan_.outputs[i];
      if (output.shape.size() != output.strides.size() || !are_slots(output.shape) || !are_slots(output.strides))
        return fail("output", i, "a slot does not exist");
      if (output.offset != kNoSlot && !is_slot(output.offset))
        return fail("output", i, "its offset's slot does not exist");
      bool good = true;
      switch (output.kind) {
      case Output::Kind::kBuffer:
        good = within(output.source, plan_.buffers) && plan_.buffers[output.source].kind == Buffer::Kind::kOutput &&
               plan_.buffers[output.source].index == static_cast<int64_t>(i);
        break;
      case Output::Kind::kArgument: good = is_tensor(output.source); break;
      case Output::Kind::kView:
        good = output.source >= 0 ? is_tensor(output.source)
                                  : within(~output.source, plan_.outputs) && ~output.source != static_cast<int64_t>(i);
        break;
      case Output::Kind::kExtern:
        good = within(output.source, plan_.steps) && plan_.steps[output.source].kind == Step::Kind::kExtern &&
               output.result >= 0;
        break;
      case Output::Kind::kInteger: good = output.offset != kNoSlot; break;
      case Output::Kind::kNone: break;
      }
      if (!good)
        return fail("output", i, "its source does not fit its kind");
    }
    return true;
  }

  bool check_buffers() {
    for (size_t i = 0; i < plan_.buffers.size(); ++i) {
      const Buffer &buffer = plan_.buffers[i];
      if (buffer.bytes != kNoSlot && !is_slot(buffer.bytes))
        return fail("buffer", i, "its size's slot does not exist");
      bool good = true, has_life = false;
      switch (buffer.kind) {
      case Buffer::Kind::kArgument: good = is_tensor(buffer.index); break;
      case Buffer::Kind::kOutput:
        good = within(buffer.index, plan_.outputs) && plan_.outputs[buffer.index].kind == Output::Kind::kBuffer &&
               plan_.outputs[buffer.index].source == static_cast<int64_t>(i);
        has_life = true;
        break;
      case Buffer::Kind::kArena:
      case Buffer::Kind::kDynamic:
        good = buffer.bytes != kNoSlot;
        has_life = true;
        break;
      case Buffer::Kind::kBound: good = buffer.bytes != kNoSlot; break;
      case Buffer::Kind::kConstant:
        good = buffer.index >= 0 && static_cast<size_t>(buffer.index) <= plan_.constants.size();
        break;
      case Buffer::Kind::kExtern: break;
      }
      if (!good)
        return fail("buffer", i, "its index or size does not fit its kind");
      const int64_t steps = static_cast<int64_t>(plan_.steps.size());
      if (has_life && steps > 0 &&
          !(0 <= buffer.first_step && buffer.first_step <= buffer.last_step && buffer.last_step < steps))
        return fail("buffer", i, "its life lies outside of the steps");
    }
    return true;
  }

  bool check_kernels() {
    for (size_t i = 0; i < plan_.kernels.size(); ++i)
      if (plan_.kernels[i].image < 0)
        return fail("kernel", i, "its image does not exist");
    return true;
  }

  bool check_operands(const char *what, const Step &step, size_t index) {
    for (int32_t buffer : step.buffers)
      if (!within(buffer, plan_.buffers))
        return fail(what, index, "a buffer does not exist");
    if (!are_slots(step.sizes) || (step.grid != kNoSlot && !is_slot(step.grid)))
      return fail(what, index, "a slot does not exist");
    if (step.scratch_bytes < 0 || step.scratch_bytes > kMaxScratch || step.grain < 1)
      return fail(what, index, "its scratch or grain is out of range");
    bool good = true;
    switch (step.kind) {
    case Step::Kind::kKernel: good = within(step.index, plan_.kernels) && step.grid != kNoSlot; break;
    case Step::Kind::kExtern: break;
    case Step::Kind::kSizes: good = plan_.sizes_kernel != -1; break;
    case Step::Kind::kLoop:
      good = step.grid != kNoSlot && step.symbol >= -1 &&
             (step.symbol == -1 ||
              (within(step.symbol, plan_.symbols) && plan_.symbols[step.symbol].kind == SymbolSource::Kind::kStep));
      break;
    case Step::Kind::kBranch:
    case Step::Kind::kWhile: good = step.buffers.size() == 1; break;
    case Step::Kind::kCopy: good = step.buffers.size() == 2 && step.grid != kNoSlot; break;
    }
    return good || fail(what, index, "its operands do not fit its kind");
  }

  bool check_bind_steps() {
    for (size_t i = 0; i < plan_.bind_steps.size(); ++i) {
      const Step &step = plan_.bind_steps[i];
      if (step.kind != Step::Kind::kKernel && step.kind != Step::Kind::kCopy)
        return fail("bind step", i, "only kernels and copies can bind");
      if (!check_operands("bind step", step, i))
        return false;
      for (int32_t index : step.buffers) {
        const Buffer &buffer = plan_.buffers[index];
        const bool is_static = buffer.kind == Buffer::Kind::kArgument && plan_.arguments[buffer.index].is_static;
        if (!is_static && buffer.kind != Buffer::Kind::kBound && buffer.kind != Buffer::Kind::kConstant)
          return fail("bind step", i, "it may use static arguments, constants and bound buffers only");
      }
      if (step.kind == Step::Kind::kCopy && plan_.buffers[step.buffers[1]].kind != Buffer::Kind::kBound)
        return fail("bind step", i, "it may write bound buffers only");
    }
    return true;
  }

  /// Steps [begin, end) are well formed and the bodies of their control steps lie within.
  bool check_steps(int64_t begin, int64_t end, int depth) {
    for (int64_t i = begin; i < end; ++i) {
      const Step &step = plan_.steps[i];
      if (!check_operands("step", step, i))
        return false;
      const bool one = step.kind == Step::Kind::kLoop;
      const bool two = step.kind == Step::Kind::kBranch || step.kind == Step::Kind::kWhile;
      if (!one && !two)
        continue;
      const int64_t body = step.body, other = two ? step.other : 0;
      if (body < 0 || other < 0 || body + other > end - i - 1 || depth == kMaxNesting)
        return fail("step", i, "its body does not nest");
      if (!check_steps(i + 1, i + 1 + body, depth + 1) || !check_steps(i + 1 + body, i + 1 + body + other, depth + 1))
        return false;
      i += body + other;
    }
    return true;
  }

  const Plan &plan_;
  std::string &message_;
};

} // namespace

bool check_plan(const Plan &plan, std::string &message) { return Checker(plan, message).run(); }

} // namespace oxyfuel::runtime
