// Sections are built as byte strings, then laid out behind the ELF header. All addresses are absolute: the section
// headers hold them, and nothing has to be relocated.
#include "support/debug_object.h"

#include <algorithm>
#include <cstring>
#include <elf.h>
#include <map>
#include <string_view>

namespace oxyfuel {
namespace {

class Bytes {
public:
  std::vector<uint8_t> data;

  template <class T> void number(T value) { raw(&value, sizeof value); }
  void byte(int value) { data.push_back(static_cast<uint8_t>(value)); }
  void text(std::string_view value) {
    raw(value.data(), value.size());
    byte(0);
  }
  void raw(const void *from, size_t size) {
    auto *first = static_cast<const uint8_t *>(from);
    data.insert(data.end(), first, first + size);
  }
  void unsigned_leb(uint64_t value) {
    for (; value >= 0x80; value >>= 7)
      byte(static_cast<int>(value & 0x7f) | 0x80);
    byte(static_cast<int>(value));
  }
  void signed_leb(int64_t value) {
    while (value < -64 || value > 63) {
      byte(static_cast<int>(value & 0x7f) | 0x80);
      value >>= 7;
    }
    byte(static_cast<int>(value & 0x7f));
  }
  /// Room for a 32-bit length of what follows it; `close` fills it in.
  size_t open() {
    number(uint32_t{0});
    return data.size();
  }
  void close(size_t start) {
    const auto length = static_cast<uint32_t>(data.size() - start);
    std::memcpy(&data[start - sizeof length], &length, sizeof length);
  }
};

uint64_t address_of(const uint8_t *place) { return reinterpret_cast<uintptr_t>(place); }

// Numbers of DWARF 4.
enum : int {
  kTagCompileUnit = 0x11,
  kTagSubprogram = 0x2e,
  kAttributeName = 0x03,
  kAttributeLineTable = 0x10,
  kAttributeLowPc = 0x11,
  kAttributeHighPc = 0x12,
  kAttributeLanguage = 0x13,
  kAttributeFile = 0x3a,
  kAttributeLine = 0x3b,
  kAttributeExternal = 0x3f,
  kFormAddress = 0x01,
  kFormData2 = 0x05,
  kFormData8 = 0x07,
  kFormString = 0x08,
  kFormUnsigned = 0x0f,
  kFormSectionOffset = 0x17,
  kFormFlagPresent = 0x19,
  kLanguageCPlusPlus = 0x04,
};

std::vector<uint8_t> abbreviations() {
  Bytes bytes;
  auto entry = [&](int code, int tag, bool has_children, std::initializer_list<int> pairs) {
    bytes.byte(code);
    bytes.byte(tag);
    bytes.byte(has_children);
    for (int number : pairs)
      bytes.byte(number);
    bytes.byte(0);
    bytes.byte(0);
  };
  entry(1, kTagCompileUnit, true,
        {kAttributeName, kFormString, kAttributeLanguage, kFormData2, kAttributeLowPc, kFormAddress, kAttributeHighPc,
         kFormData8, kAttributeLineTable, kFormSectionOffset});
  entry(2, kTagSubprogram, false,
        {kAttributeName, kFormString, kAttributeLowPc, kFormAddress, kAttributeHighPc, kFormData8, kAttributeExternal,
         kFormFlagPresent, kAttributeFile, kFormUnsigned, kAttributeLine, kFormUnsigned});
  bytes.byte(0);
  return std::move(bytes.data);
}

/// Files by name, numbered from 1 as line tables do; a symbol without one has file 0.
std::map<std::string, unsigned> number_files(const std::vector<CodeSymbol> &symbols) {
  std::map<std::string, unsigned> files;
  for (const CodeSymbol &symbol : symbols)
    if (!symbol.file.empty())
      files.try_emplace(symbol.file, 0);
  unsigned next = 1;
  for (auto &[name, number] : files)
    number = next++;
  return files;
}

std::vector<uint8_t> information(const std::vector<CodeSymbol> &symbols, const std::map<std::string, unsigned> &files,
                                 uint64_t start, uint64_t size) {
  Bytes bytes;
  const size_t unit = bytes.open();
  bytes.number(uint16_t{4});
  bytes.number(uint32_t{0}); // abbreviations
  bytes.byte(8);             // bytes of an address
  bytes.byte(1);
  bytes.text("oxyfuel");
  bytes.number(uint16_t{kLanguageCPlusPlus});
  bytes.number(start);
  bytes.number(size);
  bytes.number(uint32_t{0}); // line table
  for (const CodeSymbol &symbol : symbols) {
    bytes.byte(2);
    bytes.text(symbol.name);
    bytes.number(address_of(symbol.start));
    bytes.number(uint64_t{symbol.size});
    bytes.unsigned_leb(symbol.file.empty() ? 0 : files.at(symbol.file));
    bytes.unsigned_leb(static_cast<uint64_t>(symbol.line));
  }
  bytes.byte(0);
  bytes.close(unit);
  return std::move(bytes.data);
}

/// One sequence a function, with one row that covers all of it.
std::vector<uint8_t> lines(const std::vector<CodeSymbol> &symbols, const std::map<std::string, unsigned> &files) {
  Bytes bytes;
  const size_t unit = bytes.open();
  bytes.number(uint16_t{4});
  const size_t header = bytes.open();
  for (int number : {1, 1, 1, 0, 1}) // least instruction, operations, is a statement, line base, line range
    bytes.byte(number);
  bytes.byte(10); // first special opcode; the lengths of the standard ones follow
  for (int length : {0, 1, 1, 1, 1, 0, 0, 0, 1})
    bytes.byte(length);
  bytes.byte(0); // no directories
  for (const auto &[name, number] : files) {
    bytes.text(name);
    for (int zero : {0, 0, 0}) // directory, time, length
      bytes.byte(zero);
  }
  bytes.byte(0);
  bytes.close(header);
  for (const CodeSymbol &symbol : symbols) {
    if (symbol.file.empty())
      continue;
    bytes.byte(0), bytes.byte(9), bytes.byte(2); // set address
    bytes.number(address_of(symbol.start));
    bytes.byte(4), bytes.unsigned_leb(files.at(symbol.file)); // set file
    bytes.byte(3), bytes.signed_leb(symbol.line - 1);         // advance line, which begins at 1
    bytes.byte(1);                                            // a row
    bytes.byte(2), bytes.unsigned_leb(symbol.size);           // advance address
    bytes.byte(0), bytes.byte(1), bytes.byte(1);              // end of the sequence
  }
  bytes.close(unit);
  return std::move(bytes.data);
}

/// .debug_frame: the architecture's entry, then one a function.
std::vector<uint8_t> frames(const std::vector<CodeSymbol> &symbols) {
  Bytes bytes;
  auto pad = [&](size_t start) {
    while ((bytes.data.size() - start) % 8 != 4) // so that length and entry fill words
      bytes.byte(0);
    bytes.close(start);
  };
  const size_t common = bytes.open();
  bytes.number(uint32_t{0xffffffff});
  bytes.byte(4), bytes.byte(0), bytes.byte(8), bytes.byte(0); // version, augmentation, address and segment size
  bytes.unsigned_leb(1);
  bytes.signed_leb(-8);
  bytes.unsigned_leb(16);                         // the return address' column
  bytes.byte(0x0c), bytes.byte(7), bytes.byte(8); // CFA = rsp + 8
  bytes.byte(0x80 | 16), bytes.byte(1);           // the return address at CFA - 8
  pad(common);
  for (const CodeSymbol &symbol : symbols) {
    if (symbol.unwind.empty())
      continue;
    const size_t entry = bytes.open();
    bytes.number(uint32_t{0}); // of the common entry
    bytes.number(address_of(symbol.start));
    bytes.number(uint64_t{symbol.size});
    bytes.raw(symbol.unwind.data(), symbol.unwind.size());
    pad(entry);
  }
  return std::move(bytes.data);
}

struct SectionPart {
  const char *name;
  uint32_t type;
  uint64_t flags;
  std::vector<uint8_t> data;
  uint64_t address = 0, size = 0; // of .text alone
  uint32_t link = 0, info = 0;
  uint64_t entry_size = 0;
};

std::vector<uint8_t> lay_out(std::vector<SectionPart> sections) {
  Bytes names;
  names.byte(0);
  std::vector<Elf64_Shdr> headers(sections.size() + 2);
  std::vector<uint8_t> file(sizeof(Elf64_Ehdr));
  sections.push_back({".shstrtab", SHT_STRTAB, 0, {}});
  for (size_t i = 0; i < sections.size(); ++i) {
    SectionPart &section = sections[i];
    Elf64_Shdr &header = headers[i + 1];
    header.sh_name = static_cast<Elf64_Word>(names.data.size());
    names.text(section.name);
    if (i + 1 == sections.size())
      section.data = names.data;
    file.resize((file.size() + 7) / 8 * 8);
    header.sh_type = section.type;
    header.sh_flags = section.flags;
    header.sh_addr = section.address;
    header.sh_offset = file.size();
    header.sh_size = section.type == SHT_NOBITS ? section.size : section.data.size();
    header.sh_link = section.link;
    header.sh_info = section.info;
    header.sh_addralign = section.type == SHT_NOBITS ? 16 : 8;
    header.sh_entsize = section.entry_size;
    file.insert(file.end(), section.data.begin(), section.data.end());
  }
  file.resize((file.size() + 7) / 8 * 8);
  Elf64_Ehdr start = {};
  std::memcpy(start.e_ident, ELFMAG, SELFMAG);
  start.e_ident[EI_CLASS] = ELFCLASS64;
  start.e_ident[EI_DATA] = ELFDATA2LSB;
  start.e_ident[EI_VERSION] = EV_CURRENT;
  start.e_type = ET_REL;
  start.e_machine = EM_X86_64;
  start.e_version = EV_CURRENT;
  start.e_shoff = file.size();
  start.e_ehsize = sizeof start;
  start.e_shentsize = sizeof(Elf64_Shdr);
  start.e_shnum = static_cast<Elf64_Half>(headers.size());
  start.e_shstrndx = static_cast<Elf64_Half>(headers.size() - 1);
  std::memcpy(file.data(), &start, sizeof start);
  auto *first = reinterpret_cast<const uint8_t *>(headers.data());
  file.insert(file.end(), first, first + headers.size() * sizeof(Elf64_Shdr));
  return file;
}

} // namespace

std::vector<uint8_t> make_debug_object(const std::vector<CodeSymbol> &symbols) {
#if defined(__x86_64__)
  uint64_t start = UINT64_MAX, end = 0;
  for (const CodeSymbol &symbol : symbols) {
    start = std::min(start, address_of(symbol.start));
    end = std::max(end, address_of(symbol.start) + symbol.size);
  }
  constexpr int kText = 1, kStrings = 3; // numbers of the sections below
  Bytes table, strings;
  strings.byte(0);
  table.number(Elf64_Sym{});
  for (const CodeSymbol &symbol : symbols) {
    Elf64_Sym entry = {};
    entry.st_name = static_cast<Elf64_Word>(strings.data.size());
    strings.text(symbol.name);
    entry.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
    entry.st_shndx = kText;
    entry.st_value = address_of(symbol.start) - start;
    entry.st_size = symbol.size;
    table.number(entry);
  }
  const std::map<std::string, unsigned> files = number_files(symbols);
  return lay_out({
      {".text", SHT_NOBITS, SHF_ALLOC | SHF_EXECINSTR, {}, start, end - start},
      {".symtab", SHT_SYMTAB, 0, std::move(table.data), 0, 0, kStrings, 1, sizeof(Elf64_Sym)},
      {".strtab", SHT_STRTAB, 0, std::move(strings.data)},
      {".debug_abbrev", SHT_PROGBITS, 0, abbreviations()},
      {".debug_info", SHT_PROGBITS, 0, information(symbols, files, start, end - start)},
      {".debug_line", SHT_PROGBITS, 0, lines(symbols, files)},
      {".debug_frame", SHT_PROGBITS, 0, frames(symbols)},
  });
#else
  (void)symbols;
  return {};
#endif
}

} // namespace oxyfuel
