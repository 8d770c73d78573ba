// Code for a set of kernels. A cache entry is one file a kernel, named by the hash of everything that decides its code:
// text, target, the sources that make code. It holds the hash of its contents, so a damaged or foreign file is only a
// miss.
#include "driver/kernels.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>

#include "codegen/compile.h"
#include "driver/pipeline.h"
#include "runtime/abi.h"
#include "support/error.h"
#include "support/file.h"
#include "support/sha256.h"

namespace oxyfuel {
namespace {

constexpr const char *kCacheVersion = "oxyfuel kernel 2";

struct CacheHeader {
  uint8_t digest[32]; ///< of what follows
  uint64_t entry;
  uint64_t image_size; ///< of the image, which the unwind instructions follow
};

std::string cache_path(const std::string &directory, const std::string &text, const codegen::Target &target) {
  Sha256 hash;
  hash.field(kCacheVersion)
      .field(OXYFUEL_CODE_IDENTITY)
      .field(std::to_string(kOxyfuelAbiVersion))
      .field(target.text())
      .field(text);
  return directory + "/" + hex(hash.finish()) + ".kernel";
}

Sha256::Digest digest_of(const CacheHeader &header, const uint8_t *body, size_t size) {
  return Sha256()
      .update(&header.entry, sizeof header.entry)
      .update(&header.image_size, sizeof header.image_size)
      .update(body, size)
      .finish();
}

enum class Found { kNothing, kDamaged, kCode };

Found read_cache(const std::string &path, KernelCode &code) {
  std::vector<uint8_t> bytes;
  if (!is_private_file(path) || !read_file(path, bytes))
    return Found::kNothing;
  if (bytes.size() <= sizeof(CacheHeader))
    return Found::kDamaged;
  CacheHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  const uint8_t *body = bytes.data() + sizeof header;
  size_t size = bytes.size() - sizeof header;
  Sha256::Digest digest = digest_of(header, body, size);
  if (std::memcmp(digest.data(), header.digest, digest.size()) != 0 || header.image_size > size ||
      header.entry >= header.image_size)
    return Found::kDamaged;
  code.entry = header.entry;
  code.image.assign(body, body + header.image_size);
  code.unwind.assign(body + header.image_size, body + size);
  touch_file(path); // those not used for longest go first
  return Found::kCode;
}

bool write_cache(const std::string &path, const KernelCode &code) {
  std::vector<uint8_t> bytes(sizeof(CacheHeader));
  bytes.insert(bytes.end(), code.image.begin(), code.image.end());
  bytes.insert(bytes.end(), code.unwind.begin(), code.unwind.end());
  CacheHeader header;
  header.entry = code.entry;
  header.image_size = code.image.size();
  Sha256::Digest digest = digest_of(header, bytes.data() + sizeof header, bytes.size() - sizeof header);
  std::memcpy(header.digest, digest.data(), digest.size());
  std::memcpy(bytes.data(), &header, sizeof header);
  return write_file(path, bytes.data(), bytes.size());
}

std::vector<uint8_t> to_bytes(const std::vector<std::byte> &bytes) {
  const auto *first = reinterpret_cast<const uint8_t *>(bytes.data());
  return {first, first + bytes.size()};
}

} // namespace

int KernelSet::add(std::unique_ptr<loop::Kernel> kernel) {
  kernel->name = "kernel";
  std::string text = loop::print(*kernel, true);
  auto [it, is_new] = by_text_.try_emplace(text, count());
  if (is_new)
    kernels_.push_back({std::move(kernel), std::move(text), {}});
  return it->second;
}

void KernelSet::generate(const CompileSettings &settings, PassContext &passes, CompileReport &report) {
  codegen::Target target = codegen::Target::parse(settings.target);
  std::string message;
  bool has_cache = !settings.cache_directory.empty() && make_private_directory(settings.cache_directory, message);
  if (!settings.cache_directory.empty() && !has_cache)
    report.cache_problem = message;

  std::atomic<int> next{0}, generated{0}, cached{0};
  std::mutex mutex;
  std::exception_ptr failure;
  auto note = [&](const std::string &problem) {
    std::lock_guard lock(mutex);
    if (report.cache_problem.empty())
      report.cache_problem = problem;
  };
  auto work = [&] {
    try {
      for (int i = next++; i < count(); i = next++) {
        Entry &entry = kernels_[i];
        std::string path = has_cache ? cache_path(settings.cache_directory, entry.text, target) : "";
        const Found found = has_cache ? read_cache(path, entry.code) : Found::kNothing;
        if (found == Found::kDamaged)
          note(path + " is damaged");
        if (found == Found::kCode) {
          ++cached;
          continue;
        }
        PassOptions options = passes.options;
        options.dump_directory.clear();
        PassContext context(options);
        run_loop_pipeline(*entry.kernel, context);
        codegen::CompileOptions compile_options;
        compile_options.target = target;
        compile_options.verify = settings.verify;
        if (!settings.dump_directory.empty()) {
          compile_options.dump_dir = settings.dump_directory;
          compile_options.dump_name = "kernel_" + std::to_string(i);
        }
        const loop::Kernel *kernel = entry.kernel.get();
        codegen::CompiledKernels compiled = codegen::compile_kernels({&kernel, 1}, compile_options);
        entry.code = {to_bytes(compiled.image.bytes), compiled.entries[0], to_bytes(compiled.image.unwind)};
        ++generated;
        if (has_cache && !write_cache(path, entry.code))
          note("cannot write " + path + ": " + std::strerror(errno));
      }
    } catch (...) {
      std::lock_guard lock(mutex);
      failure = std::current_exception();
      next = count();
    }
  };
  int workers = std::clamp(settings.threads, 1, std::max(1, count()));
  std::vector<std::thread> threads;
  try {
    for (int i = 1; i < workers; ++i)
      threads.emplace_back(work);
  } catch (const std::system_error &) {
    // No memory for another stack, or no right to another thread: those that are there do the work.
  }
  work();
  for (std::thread &thread : threads)
    thread.join();
  if (failure)
    std::rethrow_exception(failure);
  report.kernels_generated = generated;
  report.kernels_cached = cached;
}

std::vector<runtime::CodeImage> KernelSet::images() const {
  std::vector<runtime::CodeImage> images;
  for (const Entry &entry : kernels_)
    images.push_back({entry.code.image.data(), entry.code.image.size(), entry.kernel->name, entry.code.unwind.data(),
                      entry.code.unwind.size()});
  return images;
}

} // namespace oxyfuel
