#include "runtime/program_file.h"

#include <cstring>
#include <string_view>

#include "support/cpu.h"
#include "support/sha256.h"

namespace oxyfuel::runtime {
namespace {

// magic[8], SHA-256 of all that follows[32], interface version and features (32 bits each), then texts (64-bit length
// and bytes): architecture, plan, and name, code and call frame instructions of each image.
constexpr std::string_view kMagic = "OXYPROG2";
constexpr size_t kBodyStart = 8 + 32;

#if defined(__x86_64__)
constexpr std::string_view kArchitecture = "x86_64";
#elif defined(__aarch64__)
constexpr std::string_view kArchitecture = "aarch64";
#elif defined(__riscv)
constexpr std::string_view kArchitecture = "riscv64";
#else
constexpr std::string_view kArchitecture = "unknown";
#endif

void append(std::vector<uint8_t> &bytes, const void *data, size_t size) {
  auto *first = static_cast<const uint8_t *>(data);
  bytes.insert(bytes.end(), first, first + size);
}
void append_text(std::vector<uint8_t> &bytes, std::string_view text) {
  const uint64_t size = text.size();
  append(bytes, &size, sizeof size);
  append(bytes, text.data(), text.size());
}
std::string_view as_text(const uint8_t *data, size_t size) { return {reinterpret_cast<const char *>(data), size}; }

struct Cursor {
  const uint8_t *data;
  size_t left;
  bool good = true;

  const uint8_t *take(uint64_t size) {
    good = good && size <= left;
    if (!good)
      return nullptr;
    const uint8_t *start = data;
    data += size;
    left -= static_cast<size_t>(size);
    return start;
  }
  template <class T> T number() {
    T value{};
    if (const uint8_t *place = take(sizeof value))
      std::memcpy(&value, place, sizeof value);
    return value;
  }
  std::string_view text() {
    const auto size = number<uint64_t>();
    const uint8_t *place = take(size);
    return place ? as_text(place, static_cast<size_t>(size)) : std::string_view();
  }
};

} // namespace

std::vector<uint8_t> write_program(const Plan &plan, const std::vector<CodeImage> &images, uint32_t features) {
  std::vector<uint8_t> bytes(kMagic.begin(), kMagic.end());
  bytes.resize(kBodyStart);
  const uint32_t version = kOxyfuelAbiVersion;
  append(bytes, &version, sizeof version);
  append(bytes, &features, sizeof features);
  append_text(bytes, kArchitecture);
  const std::vector<uint8_t> plan_bytes = write_plan(plan);
  append_text(bytes, as_text(plan_bytes.data(), plan_bytes.size()));
  for (const CodeImage &image : images) {
    append_text(bytes, image.name);
    append_text(bytes, as_text(image.data, image.size));
    append_text(bytes, as_text(image.unwind, image.unwind_size));
  }
  const Sha256::Digest digest = sha256(bytes.data() + kBodyStart, bytes.size() - kBodyStart);
  std::memcpy(bytes.data() + kMagic.size(), digest.data(), digest.size());
  return bytes;
}

std::unique_ptr<Program> read_program(const uint8_t *data, size_t size, std::string &message) {
  auto refuse = [&](std::string why) {
    message = std::move(why);
    return nullptr;
  };
  if (size < kBodyStart || as_text(data, kMagic.size()) != kMagic)
    return refuse("not a program");
  const Sha256::Digest digest = sha256(data + kBodyStart, size - kBodyStart);
  if (std::memcmp(data + kMagic.size(), digest.data(), digest.size()) != 0)
    return refuse("program is damaged: its hash does not match");
  Cursor cursor{data + kBodyStart, size - kBodyStart};
  const auto version = cursor.number<uint32_t>();
  if (version != kOxyfuelAbiVersion)
    return refuse("program of interface version " + std::to_string(version) + ", this runtime has version " +
                  std::to_string(int{kOxyfuelAbiVersion}));
  const uint32_t features = cursor.number<uint32_t>(), missing = features & ~cpu_info().features;
  const std::string_view architecture = cursor.text(), plan_bytes = cursor.text();
  if (architecture != kArchitecture)
    return refuse("program for " + std::string(architecture) + ", this machine is " + std::string(kArchitecture));
  if (missing != 0)
    return refuse("program needs instructions that this machine lacks: " + describe_features(missing));
  std::vector<CodeImage> images;
  while (cursor.good && cursor.left > 0) {
    const std::string_view name = cursor.text(), code = cursor.text(), unwind = cursor.text();
    images.push_back({reinterpret_cast<const uint8_t *>(code.data()), code.size(), std::string(name),
                      reinterpret_cast<const uint8_t *>(unwind.data()), unwind.size()});
  }
  if (!cursor.good)
    return refuse("program is damaged");
  Plan plan;
  if (!read_plan(reinterpret_cast<const uint8_t *>(plan_bytes.data()), plan_bytes.size(), plan, message))
    return nullptr;
  return Program::load(std::move(plan), images, message);
}

} // namespace oxyfuel::runtime
