#include "runtime/image.h"

#include <cstring>

namespace oxyfuel::runtime {
namespace {

#ifdef __aarch64__
constexpr size_t kImageAlignment = 4096; // code addresses its data relative to 4 KiB pages
#else
constexpr size_t kImageAlignment = 64; // the widest vector among the constants
#endif

constexpr size_t round_up(size_t size) { return (size + kImageAlignment - 1) / kImageAlignment * kImageAlignment; }

} // namespace

std::unique_ptr<LoadedImages> LoadedImages::load(const std::vector<CodeImage> &images, std::string &message) {
  auto loaded = std::make_unique<LoadedImages>();
  size_t total = 0;
  for (const CodeImage &image : images) {
    loaded->starts_.push_back(total);
    loaded->sizes_.push_back(image.size);
    if (image.size > SIZE_MAX / 4 || total > SIZE_MAX / 4) {
      message = "image " + image.name + " is too large";
      return nullptr;
    }
    total += round_up(image.size);
  }
  if (total == 0)
    return loaded;
  if (!loaded->memory_.allocate(total)) {
    message = "no memory for " + std::to_string(total) + " bytes of code";
    return nullptr;
  }
  for (size_t i = 0; i < images.size(); ++i)
    if (images[i].size > 0)
      std::memcpy(loaded->memory_.data() + loaded->starts_[i], images[i].data, images[i].size);
  if (!loaded->memory_.seal()) {
    message = "the system refuses to make pages executable";
    return nullptr;
  }
  return loaded;
}

OxyfuelKernel LoadedImages::entry(int32_t image, uint64_t offset) const {
  if (image < 0 || static_cast<size_t>(image) >= sizes_.size() || offset >= sizes_[image])
    return nullptr;
  return reinterpret_cast<OxyfuelKernel>(memory_.data() + starts_[image] + offset);
}

} // namespace oxyfuel::runtime
