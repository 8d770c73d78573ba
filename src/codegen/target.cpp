// Named targets, the text form, and what LLVM knows about a processor's features.
#include "codegen/target.h"

#include "codegen/backend.h"
#include "support/error.h"

#include <llvm/MC/MCSubtargetInfo.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/Triple.h>

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

namespace oxyfuel::codegen {
namespace {

constexpr const char *kX86Triple = "x86_64-unknown-linux-gnu";
constexpr const char *kAArch64Triple = "aarch64-unknown-linux-gnu";
constexpr const char *kRiscV64Triple = "riscv64-unknown-linux-gnu";

struct NamedTarget {
  std::string_view name;
  const char *triple, *cpu, *features;
};

constexpr std::array<NamedTarget, 5> kNamedTargets = {{
    {"x86-64-v2", kX86Triple, "x86-64-v2", ""},
    {"x86-64-v3", kX86Triple, "x86-64-v3", ""},
    {"x86-64-v4", kX86Triple, "x86-64-v4", ""},
    {"aarch64", kAArch64Triple, "generic", "+neon"},
    {"riscv64", kRiscV64Triple, "generic-rv64", "+a,+c,+d,+f,+m"},
}};

std::vector<std::string> split(std::string_view list, char separator) {
  std::vector<std::string> parts;
  while (!list.empty()) {
    size_t end = std::min(list.find(separator), list.size());
    if (end)
      parts.emplace_back(list.substr(0, end));
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return parts;
}

std::string join(const std::vector<std::string> &parts) {
  std::string text;
  for (const std::string &part : parts)
    text += (text.empty() ? "" : ",") + part;
  return text;
}

/// Sorted by name, the last mention of a feature wins.
std::string normal_features(std::string_view list) {
  std::vector<std::string> features = split(list, ',');
  for (const std::string &feature : features)
    if (feature.size() < 2 || (feature[0] != '+' && feature[0] != '-'))
      throw CompileError("a target feature is written `+name` or `-name`", {.found = feature});
  std::reverse(features.begin(), features.end());
  auto by_name = [](const std::string &a, const std::string &b) { return a.substr(1) < b.substr(1); };
  std::stable_sort(features.begin(), features.end(), by_name);
  auto same_name = [](const std::string &a, const std::string &b) { return a.substr(1) == b.substr(1); };
  features.erase(std::unique(features.begin(), features.end(), same_name), features.end());
  return join(features);
}

Arch arch_of(const std::string &triple) {
  switch (llvm::Triple(triple).getArch()) {
  case llvm::Triple::x86_64: return Arch::kX86_64;
  case llvm::Triple::aarch64: return Arch::kAArch64;
  case llvm::Triple::riscv64: return Arch::kRiscV64;
  default:
    throw UnsupportedError("no code generation for this architecture",
                           {.found = triple, .hint = "x86_64, aarch64 or riscv64"});
  }
}

/// LLVM only warns on stderr about names it does not know, so they are looked up here first.
void check_names(const llvm::MCSubtargetInfo &plain, const Target &target) {
  if (!plain.isCPUStringValid(target.cpu))
    throw CompileError("unknown processor", {.found = target.cpu + " for " + target.triple});
  auto known = plain.getAllProcessorFeatures();
  for (const std::string &feature : split(target.features, ',')) {
    auto matches = [&](const llvm::SubtargetFeatureKV &entry) { return feature.substr(1) == entry.key(); };
    if (std::none_of(known.begin(), known.end(), matches))
      throw CompileError("unknown target feature", {.found = feature + " for " + target.triple});
  }
}

void derive_x86(const llvm::MCSubtargetInfo &info, Target &target) {
  auto has = [&](const char *features) { return info.checkFeatures(features); };
  if (!has("+sse4.2,+popcnt,+cx16"))
    throw UnsupportedError("x86-64 below x86-64-v2", {.found = target.cpu + " " + target.features});
  target.has_fma = has("+fma");
  target.has_f16c = has("+f16c");
  target.has_avx2 = has("+avx2");
  target.has_avx512 = has("+avx512f,+avx512bw,+avx512dq,+avx512vl,+avx512cd") && target.has_fma;
  target.has_avx512bf16 = target.has_avx512 && has("+avx512bf16");
  target.has_avx512fp16 = target.has_avx512 && has("+avx512fp16");
  target.has_vnni = (target.has_avx512 && has("+avx512vnni")) || (target.has_avx2 && has("+avxvnni"));
  target.has_amx_bf16 = has("+amx-tile,+amx-bf16");
  target.has_amx_int8 = has("+amx-tile,+amx-int8");
  target.vector_bits = target.has_avx512 ? 512 : target.has_avx2 ? 256 : 128;
  target.vector_registers = target.has_avx512 ? 32 : 16;
}

Target make_target(std::string triple, std::string cpu, std::string_view features) {
  Target target;
  target.arch = arch_of(triple);
  target.triple = std::move(triple);
  target.cpu = std::move(cpu);
  target.features = normal_features(features);

  const llvm::Target &backend = find_backend(target.triple);
  llvm::Triple parsed(target.triple);
  std::unique_ptr<llvm::MCSubtargetInfo> plain(backend.createMCSubtargetInfo(parsed, "", ""));
  check_names(*plain, target);
  std::unique_ptr<llvm::MCSubtargetInfo> info(backend.createMCSubtargetInfo(parsed, target.cpu, target.features));
  switch (target.arch) {
  case Arch::kX86_64: derive_x86(*info, target); break;
  case Arch::kAArch64:
    target.has_fma = target.has_f16c = true;
    target.has_vnni = info->checkFeatures("+dotprod");
    target.vector_registers = 32;
    break;
  case Arch::kRiscV64:
    target.has_fma = true;
    target.vector_registers = 32;
    break;
  }
  return target;
}

Target detect_host() {
#if defined(__x86_64__)
  std::string triple = kX86Triple;
#elif defined(__aarch64__)
  std::string triple = kAArch64Triple;
#elif defined(__riscv)
  std::string triple = kRiscV64Triple;
#else
  std::string triple = llvm::sys::getProcessTriple();
#endif
  // The processor's name alone is not enough: a virtual machine may hide features that every such processor has, and
  // the operating system may not save the wide registers.
  std::vector<std::string> features;
  for (const auto &feature : llvm::sys::getHostCPUFeatures())
    features.push_back((feature.second ? "+" : "-") + feature.first().str());
  return make_target(triple, llvm::sys::getHostCPUName().str(), join(features));
}

} // namespace

std::string Target::text() const { return triple + " cpu=" + cpu + " features=" + features; }

Target Target::parse(std::string_view text) {
  std::vector<std::string> words = split(text, ' ');
  if (words.size() == 3 && words[1].rfind("cpu=", 0) == 0 && words[2].rfind("features=", 0) == 0)
    return make_target(words[0], words[1].substr(4), words[2].substr(9));
  size_t comma = std::min(text.find(','), text.size());
  std::string_view name = text.substr(0, comma), extra = text.substr(comma);
  if (name == "host") {
    const Target &host = host_target();
    return make_target(host.triple, host.cpu, host.features + std::string(extra));
  }
  std::string names = "host";
  for (const NamedTarget &named : kNamedTargets) {
    if (named.name == name)
      return make_target(named.triple, named.cpu, named.features + std::string(extra));
    names += ", " + std::string(named.name);
  }
  throw CompileError("unknown target", {.found = std::string(text), .hint = "one of " + names});
}

const Target &host_target() {
  static const Target host = detect_host();
  return host;
}

} // namespace oxyfuel::codegen
