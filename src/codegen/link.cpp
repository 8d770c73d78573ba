// Linking with JITLink, of which only the object readers, the layout and the fix-ups are used: the memory manager lays
// the parts out in a byte vector from address 0, so that every address is an offset. All checks are made on the graph
// before the linker sees it, where an exception has no LLVM frames to cross.
#include "codegen/link.h"

#include "codegen/builtins.h"
#include "codegen/unwind.h"
#include "support/error.h"

#include <llvm/BinaryFormat/ELF.h>
#include <llvm/ExecutionEngine/JITLink/JITLink.h>
#include <llvm/ExecutionEngine/JITLink/JITLinkMemoryManager.h>
#include <llvm/ExecutionEngine/JITLink/aarch64.h>
#include <llvm/ExecutionEngine/JITLink/riscv.h>
#include <llvm/ExecutionEngine/JITLink/x86_64.h>
#include <llvm/ExecutionEngine/Orc/SymbolStringPool.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

namespace oxyfuel::codegen {
namespace {

using llvm::cantFail;
using llvm::jitlink::Block;
using llvm::jitlink::Edge;
using llvm::jitlink::LinkGraph;
using llvm::jitlink::Section;
using llvm::jitlink::Symbol;
using llvm::orc::ExecutorAddr;
using llvm::orc::MemProt;

bool includes(MemProt protection, MemProt bit) {
  return (static_cast<unsigned>(protection) & static_cast<unsigned>(bit)) != 0;
}

uint64_t align_up(uint64_t value, uint64_t alignment) { return (value + alignment - 1) / alignment * alignment; }

/// What the callbacks of one link share.
struct LinkState {
  Image image;
  uint64_t split_alignment = 1;
  /// Builtins that the object calls, and where each lies in the image.
  std::map<std::string, std::span<const std::byte>> builtins;
  std::map<std::string, uint64_t> builtin_offsets;
  /// Where each block's content lies in the object file, and then in the image.
  std::vector<std::pair<const Block *, uint64_t>> file_offsets;
  std::map<uint64_t, uint64_t> image_offset_of_file_offset;
  std::string error;
};

// clang-format off: one case a line would take a page
/// Whether a fix-up of this kind depends only on the distance between two places in the image.
bool is_relative(Arch arch, Edge::Kind kind) {
  switch (arch) {
  case Arch::kX86_64: {
    using namespace llvm::jitlink::x86_64;
    switch (kind) {
    case Delta64: case Delta32: case Delta16: case Delta8: case NegDelta64: case NegDelta32:
    case BranchPCRel32: case PCRel32:
      return true;
    default:
      return false;
    }
  }
  case Arch::kAArch64: {
    using namespace llvm::jitlink::aarch64;
    switch (kind) {
    case Branch26PCRel: case Delta64: case Delta32: case NegDelta64: case NegDelta32: case CondBranch19PCRel:
    case TestAndBranch14PCRel: case ADRLiteral21: case Page21: case PageOffset12: case LDRLiteral19:
      return true;
    default:
      return false;
    }
  }
  case Arch::kRiscV64: {
    using namespace llvm::jitlink::riscv;
    switch (kind) {
    case R_RISCV_BRANCH: case R_RISCV_JAL: case R_RISCV_CALL: case R_RISCV_CALL_PLT: case R_RISCV_PCREL_HI20:
    case R_RISCV_PCREL_LO12_I: case R_RISCV_PCREL_LO12_S: case R_RISCV_RVC_BRANCH: case R_RISCV_RVC_JUMP: case R_RISCV_32_PCREL:
    case R_RISCV_ADD8: case R_RISCV_ADD16: case R_RISCV_ADD32: case R_RISCV_ADD64: case R_RISCV_SUB8: case R_RISCV_SUB16:
    case R_RISCV_SUB32: case R_RISCV_SUB64: case R_RISCV_SET6: case R_RISCV_SET8: case R_RISCV_SET16: case R_RISCV_SET32:
    case R_RISCV_SUB6: case NegDelta32:
      return true;
    default:
      return false;
    }
  }
  }
  return false;
}
// clang-format on

std::string name_of(const Symbol &symbol) { return symbol.hasName() ? std::string(*symbol.getName()) : "(unnamed)"; }

/// Debug information and unwind tables stay in the object, which is kept beside the image.
void drop_side_sections(LinkGraph &graph) {
  std::vector<Section *> dropped;
  for (Section &section : graph.sections())
    if (section.getMemLifetime() == llvm::orc::MemLifetime::NoAlloc || section.getName() == ".eh_frame")
      dropped.push_back(&section);
  for (Section *section : dropped)
    graph.removeSection(*section);
}

void check_sections(LinkGraph &graph) {
  for (Section &section : graph.sections()) {
    if (section.empty())
      continue;
    std::string name(section.getName());
    if (includes(section.getMemProt(), MemProt::Write))
      throw InternalError("a kernel's object file has writable data", {.found = "section " + name});
    if (name.rfind(".init", 0) == 0 || name.rfind(".fini", 0) == 0 || name.rfind(".ctors", 0) == 0)
      throw InternalError("a kernel's object file has a constructor", {.found = "section " + name});
  }
}

void check_edges(LinkGraph &graph, Arch arch) {
  for (Block *block : graph.blocks())
    for (const Edge &edge : block->edges())
      if (edge.isRelocation() && !is_relative(arch, edge.getKind()) && !edge.getTarget().isExternal())
        throw InternalError("a kernel's object file has a relocation that needs its load address",
                            {.found = std::string(graph.getEdgeKindName(edge.getKind())) + " in section " +
                                      std::string(block->getSection().getName()) + " to " + name_of(edge.getTarget())});
}

/// Finds the builtin for each external symbol, and checks that it is only called.
void bind_externals(LinkGraph &graph, const Target &target, LinkState &state) {
  for (Symbol *symbol : graph.external_symbols()) {
    std::string name = name_of(*symbol);
    std::span<const std::byte> code = builtin_code(name, target);
    if (code.empty())
      throw InternalError("external symbol left over in a kernel's object file: " + name,
                          {.found = name + ", which is no builtin of ours",
                           .hint = "lower the operation that calls it, or add it to codegen/builtins.cpp"});
    state.builtins.emplace(name, code);
  }
  for (Block *block : graph.blocks())
    for (const Edge &edge : block->edges())
      if (edge.isRelocation() && edge.getTarget().isExternal() && !is_relative(target.arch, edge.getKind()))
        throw InternalError("a kernel's object file takes the address of an external symbol",
                            {.found = name_of(edge.getTarget()) + " by " + graph.getEdgeKindName(edge.getKind())});
}

/// Lays code, builtins and constants out from address 0.
class FlatMemory : public llvm::jitlink::JITLinkMemoryManager {
public:
  explicit FlatMemory(LinkState &state) : state_(state) {}

  void allocate(const llvm::jitlink::JITLinkDylib *, LinkGraph &graph, OnAllocatedFunction done) override {
    llvm::jitlink::BasicLayout layout(graph);
    uint64_t end = 0;
    auto place = [&](bool executable) {
      for (auto &&[group, segment] : layout.segments())
        if (includes(group.getMemProt(), MemProt::Exec) == executable) {
          end = align_up(end, segment.Alignment.value());
          segment.Addr = ExecutorAddr(end);
          end += segment.ContentSize + segment.ZeroFillSize;
        }
    };
    place(true);
    for (const auto &[name, code] : state_.builtins) {
      end = align_up(end, 64);
      state_.builtin_offsets[name] = end;
      end += code.size();
    }
    uint64_t code_end = end;
    end = align_up(end, state_.split_alignment);
    state_.image.code_size = end;
    place(false);
    if (end == state_.image.code_size) // no constants: nothing to keep apart
      state_.image.code_size = end = code_end;

    std::vector<std::byte> &bytes = state_.image.bytes;
    bytes.resize(end);
    for (auto &&[group, segment] : layout.segments())
      segment.WorkingMem = reinterpret_cast<char *>(bytes.data()) + segment.Addr.getValue();
    for (const auto &[name, code] : state_.builtins)
      std::copy(code.begin(), code.end(), bytes.begin() + static_cast<ptrdiff_t>(state_.builtin_offsets[name]));
    if (llvm::Error error = layout.apply())
      return done(std::move(error));
    done(std::make_unique<Pending>());
  }

  using JITLinkMemoryManager::deallocate;
  void deallocate(std::vector<FinalizedAlloc> allocations, OnDeallocatedFunction done) override {
    for (FinalizedAlloc &allocation : allocations)
      allocation.release();
    done(llvm::Error::success());
  }

private:
  struct Pending : InFlightAlloc {
    void finalize(OnFinalizedFunction done) override { done(FinalizedAlloc(ExecutorAddr(0))); }
    void abandon(OnAbandonedFunction done) override { done(llvm::Error::success()); }
  };
  LinkState &state_;
};

class FlatContext : public llvm::jitlink::JITLinkContext {
public:
  explicit FlatContext(LinkState &state) : JITLinkContext(nullptr), state_(state), memory_(state) {}

  llvm::jitlink::JITLinkMemoryManager &getMemoryManager() override { return memory_; }
  void notifyFailed(llvm::Error error) override { state_.error = llvm::toString(std::move(error)); }

  void lookup(const LookupMap &symbols, std::unique_ptr<llvm::jitlink::JITLinkAsyncLookupContinuation> next) override {
    llvm::jitlink::AsyncLookupResult found;
    for (const auto &entry : symbols)
      found[entry.first] = {ExecutorAddr(state_.builtin_offsets.at(std::string(*entry.first))),
                            llvm::JITSymbolFlags::Callable};
    next->run(std::move(found));
  }

  llvm::Error notifyResolved(LinkGraph &graph) override {
    for (Symbol *symbol : graph.defined_symbols())
      if (symbol->hasName() && symbol->getScope() == llvm::jitlink::Scope::Default)
        state_.image.exports[name_of(*symbol)] = symbol->getAddress().getValue();
    for (const auto &[block, offset] : state_.file_offsets)
      state_.image_offset_of_file_offset[offset] = block->getAddress().getValue();
    return llvm::Error::success();
  }

  void notifyFinalized(llvm::jitlink::JITLinkMemoryManager::FinalizedAlloc allocation) override {
    allocation.release();
  }

  // The default passes build global offset tables and stubs, which position-independent code without externals has no
  // use for.
  bool shouldAddDefaultTargetPasses(const llvm::Triple &) const override { return false; }
  llvm::Error modifyPassConfig(LinkGraph &, llvm::jitlink::PassConfiguration &passes) override {
    passes.PrePrunePasses.push_back(llvm::jitlink::markAllSymbolsLive);
    return llvm::Error::success();
  }

private:
  LinkState &state_;
  FlatMemory memory_;
};

/// The object with the sections' places in the image written into its section headers.
std::vector<std::byte> debug_part(std::span<const char> object, const LinkState &state) {
  std::vector<std::byte> debug(object.size());
  std::memcpy(debug.data(), object.data(), object.size());
  llvm::ELF::Elf64_Ehdr header;
  OXYFUEL_CHECK(object.size() >= sizeof header, "an object file is cut short");
  std::memcpy(&header, object.data(), sizeof header);
  for (unsigned index = 0; index < header.e_shnum; ++index) {
    std::byte *place = debug.data() + header.e_shoff + index * sizeof(llvm::ELF::Elf64_Shdr);
    llvm::ELF::Elf64_Shdr section;
    std::memcpy(&section, place, sizeof section);
    auto found = state.image_offset_of_file_offset.find(section.sh_offset);
    if (found == state.image_offset_of_file_offset.end() || !(section.sh_flags & llvm::ELF::SHF_ALLOC) ||
        section.sh_size == 0)
      continue;
    section.sh_addr = found->second + kDebugAddressBias;
    std::memcpy(place, &section, sizeof section);
  }
  return debug;
}

Image link(std::span<const char> object, const Target &target, uint64_t split_alignment, bool keep_debug) {
  llvm::MemoryBufferRef buffer(llvm::StringRef(object.data(), object.size()), "kernel.o");
  auto names = std::make_shared<llvm::orc::SymbolStringPool>();
  auto read = llvm::jitlink::createLinkGraphFromObject(buffer, names);
  if (!read)
    throw InternalError("an object file cannot be linked", {.found = llvm::toString(read.takeError())});
  std::unique_ptr<LinkGraph> graph = std::move(*read);

  LinkState state;
  state.split_alignment = split_alignment;
  drop_side_sections(*graph);
  check_sections(*graph);
  check_edges(*graph, target.arch);
  bind_externals(*graph, target, state);
  for (Block *block : graph->blocks())
    if (!block->isZeroFill() && block->getSize() > 0)
      state.file_offsets.emplace_back(block, static_cast<uint64_t>(block->getContent().data() - object.data()));

  llvm::jitlink::link(std::move(graph), std::make_unique<FlatContext>(state));
  if (!state.error.empty())
    throw InternalError("an object file cannot be linked", {.found = state.error});
  state.image.unwind = unwind_instructions(object);
  if (keep_debug)
    state.image.debug = debug_part(object, state);
  return std::move(state.image);
}

} // namespace

Image link_flat(std::span<const char> object, const Target &target, bool keep_debug) {
  return link(object, target, target.page_size(), keep_debug);
}

Image link_packed(std::span<const char> object, const Target &target) { return link(object, target, 1, false); }

} // namespace oxyfuel::codegen
