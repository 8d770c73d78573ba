// The binary form of plans. One description of the fields (visit) serves writer and reader. Integers are little endian
// and of fixed width; a list or text is its length in 64 bits and its elements; an enumeration is one byte.
#include <bit>
#include <cstring>
#include <limits>

#include "runtime/abi.h"
#include "runtime/plan.h"

namespace oxyfuel::runtime {
namespace {

static_assert(std::endian::native == std::endian::little, "the binary form is little endian");

constexpr uint8_t kMagic[8] = {'O', 'X', 'Y', 'P', 'L', 'A', 'N', '2'};

class Writer {
public:
  std::vector<uint8_t> bytes;

  void raw(const void *data, size_t size) {
    auto *first = static_cast<const uint8_t *>(data);
    bytes.insert(bytes.end(), first, first + size);
  }
  template <class T> void number(const T &value) { raw(&value, sizeof value); }
  template <class E> void enumeration(const E &value, E) { number(static_cast<uint8_t>(value)); }
  void flag(const bool &value) { number(static_cast<uint8_t>(value)); }
  template <class T> void numbers(const std::vector<T> &list) {
    number(uint64_t{list.size()});
    raw(list.data(), list.size() * sizeof(T));
  }
  void text(const std::string &value) {
    number(uint64_t{value.size()});
    raw(value.data(), value.size());
  }
  template <class T, class F> void list(const std::vector<T> &items, F &&each) {
    number(uint64_t{items.size()});
    for (const T &item : items)
      each(*this, item);
  }
};

/// After the first failure everything reads as zero or empty, and `good` stays false.
class Reader {
public:
  Reader(const uint8_t *data, size_t size) : data_(data), size_(size) {}
  bool good = true;
  size_t left() const { return size_; }

  bool raw(void *data, size_t size) {
    if (!good || size > size_) {
      good = false;
      return false;
    }
    if (size > 0)
      std::memcpy(data, data_, size);
    data_ += size;
    size_ -= size;
    return true;
  }
  template <class T> void number(T &value) {
    if (!raw(&value, sizeof value))
      value = T{};
  }
  template <class E> void enumeration(E &value, E last) {
    uint8_t byte = 0;
    number(byte);
    good = good && byte <= static_cast<uint8_t>(last);
    value = static_cast<E>(good ? byte : 0);
  }
  void flag(bool &value) {
    uint8_t byte = 0;
    number(byte);
    good = good && byte <= 1;
    value = byte == 1;
  }
  template <class T> void numbers(std::vector<T> &list) {
    list.resize(length(sizeof(T)));
    raw(list.data(), list.size() * sizeof(T));
  }
  void text(std::string &value) {
    value.resize(length(1));
    raw(value.data(), value.size());
  }
  template <class T, class F> void list(std::vector<T> &items, F &&each) {
    items.resize(length(4)); // every record has at least one 32-bit number
    for (T &item : items) {
      each(*this, item);
      if (!good)
        return;
    }
  }

private:
  /// A length that the bytes left can hold, so that a hostile one allocates nothing.
  size_t length(size_t least_element) {
    uint64_t count = 0;
    number(count);
    good = good && count <= size_ / least_element;
    return good ? static_cast<size_t>(count) : 0;
  }
  const uint8_t *data_;
  size_t size_;
};

constexpr DType kLastDType = DType::kU64;

template <class Archive, class StepType> void visit_step(Archive &archive, StepType &step) {
  archive.enumeration(step.kind, Step::Kind::kCopy);
  archive.number(step.index);
  archive.numbers(step.buffers);
  archive.numbers(step.sizes);
  archive.number(step.grid);
  archive.number(step.scratch_bytes);
  archive.number(step.grain);
  archive.number(step.body);
  archive.number(step.other);
  archive.number(step.symbol);
  archive.flag(step.reverse);
  archive.text(step.name);
  archive.text(step.location);
}

/// All fields of a plan in order; `Archive` is Writer or Reader.
template <class Archive, class PlanType> void visit(Archive &archive, PlanType &plan) {
  archive.number(plan.symbol_count);
  archive.number(plan.slot_count);
  archive.list(plan.symbols, [](Archive &a, auto &symbol) {
    a.enumeration(symbol.kind, SymbolSource::Kind::kStep);
    a.number(symbol.argument);
    a.number(symbol.axis);
  });
  archive.number(plan.sizes_kernel);
  archive.list(plan.arguments, [](Archive &a, auto &argument) {
    a.enumeration(argument.kind, Argument::Kind::kInteger);
    a.enumeration(argument.dtype, kLastDType);
    a.numbers(argument.shape);
    a.numbers(argument.strides);
    a.flag(argument.is_static);
    a.flag(argument.is_mutated);
    a.text(argument.name);
  });
  archive.list(plan.outputs, [](Archive &a, auto &output) {
    a.enumeration(output.kind, Output::Kind::kNone);
    a.enumeration(output.dtype, kLastDType);
    a.number(output.source);
    a.number(output.result);
    a.numbers(output.shape);
    a.numbers(output.strides);
    a.number(output.offset);
  });
  archive.list(plan.buffers, [](Archive &a, auto &buffer) {
    a.enumeration(buffer.kind, Buffer::Kind::kDynamic);
    a.enumeration(buffer.dtype, kLastDType);
    a.number(buffer.index);
    a.number(buffer.bytes);
    a.number(buffer.first_step);
    a.number(buffer.last_step);
  });
  archive.list(plan.kernels, [](Archive &a, auto &kernel) {
    a.text(kernel.name);
    a.number(kernel.image);
    a.number(kernel.offset);
  });
  archive.list(plan.bind_steps, [](Archive &a, auto &step) { visit_step(a, step); });
  archive.list(plan.steps, [](Archive &a, auto &step) { visit_step(a, step); });
  archive.numbers(plan.constants);
}

} // namespace

std::vector<uint8_t> write_plan(const Plan &plan) {
  Writer writer;
  writer.raw(kMagic, sizeof kMagic);
  writer.number(uint32_t{kOxyfuelAbiVersion});
  visit(writer, plan);
  return std::move(writer.bytes);
}

bool read_plan(const uint8_t *data, size_t size, Plan &plan, std::string &message) {
  Reader reader(data, size);
  uint8_t magic[sizeof kMagic] = {};
  uint32_t version = 0;
  reader.raw(magic, sizeof magic);
  reader.number(version);
  if (!reader.good || std::memcmp(magic, kMagic, sizeof magic) != 0) {
    message = "not a plan";
    return false;
  }
  if (version != kOxyfuelAbiVersion) {
    message = "plan of interface version " + std::to_string(version) + ", this runtime has version " +
              std::to_string(int{kOxyfuelAbiVersion});
    return false;
  }
  Plan read;
  visit(reader, read);
  if (!reader.good || reader.left() != 0) {
    message = reader.good ? "plan with " + std::to_string(reader.left()) + " bytes too many" : "plan is damaged";
    return false;
  }
  if (!check_plan(read, message))
    return false;
  plan = std::move(read);
  return true;
}

} // namespace oxyfuel::runtime
