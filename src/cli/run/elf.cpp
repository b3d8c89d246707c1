#include "cli/run/elf.hpp"

#include <elf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>

namespace smelt::cli {
namespace {

static_assert(sizeof(void*) == 8, "files are read as 64-bit ELF");

constexpr std::size_t max_name_bytes = 64u << 10;

/// A copy of the T at `offset`, if it lies inside the file.
template <class T>
std::optional<T> at(std::string_view bytes, std::uint64_t offset) {
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return std::nullopt;
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

/// The zero-terminated text at `offset`; empty if it does not end inside the file or is too long.
std::string_view text_at(std::string_view bytes, std::uint64_t offset) {
  if (offset >= bytes.size()) return {};
  const auto text = bytes.substr(offset, max_name_bytes);
  const auto end = text.find('\0');
  return end == std::string_view::npos ? std::string_view() : text.substr(0, end);
}

bool is_of_this_machine(const Elf64_Ehdr& header) {
  return header.e_ident[EI_CLASS] == ELFCLASS64 && header.e_ident[EI_DATA] == ELFDATA2LSB &&
         header.e_machine == own_machine();
}

class Reader {
 public:
  Reader(std::string_view bytes, const Elf64_Ehdr& header, AsksFor asks_for)
      : bytes_(bytes), header_(header), asks_for_(asks_for) {}

  std::optional<Elf> read() {
    Elf elf;
    elf.loadable = true;
    elf.machine = header_.e_machine;
    if (!read_segments(elf)) return std::nullopt;
    read_dynamic(elf);
    if (text_left_ == 0) return std::nullopt;
    return elf;
  }

 private:
  bool read_segments(Elf& elf) {
    if (header_.e_phnum != 0 && header_.e_phentsize != sizeof(Elf64_Phdr)) return false;
    for (std::uint64_t i = 0; i < header_.e_phnum; ++i) {
      const auto segment = at<Elf64_Phdr>(bytes_, header_.e_phoff + i * sizeof(Elf64_Phdr));
      if (!segment) return false;
      if (segment->p_type == PT_LOAD) loads_.push_back(*segment);
      if (segment->p_type == PT_DYNAMIC) dynamic_ = *segment;
      if (segment->p_type == PT_INTERP) elf.loader = text_at(bytes_, segment->p_offset);
    }
    // A static position-independent program differs from a library by a flag only.
    elf.program = header_.e_type == ET_EXEC || !elf.loader.empty();
    return true;
  }

  void read_dynamic(Elf& elf) {
    if (!dynamic_) return;
    std::vector<Elf64_Dyn> entries;
    for (std::uint64_t i = 0; i < dynamic_->p_filesz / sizeof(Elf64_Dyn); ++i) {
      const auto entry = at<Elf64_Dyn>(bytes_, dynamic_->p_offset + i * sizeof(Elf64_Dyn));
      if (!entry || entry->d_tag == DT_NULL) break;
      entries.push_back(*entry);
    }
    for (const auto& entry : entries) {
      if (entry.d_tag == DT_STRTAB) strings_ = offset_of(entry.d_un.d_ptr);
      if (entry.d_tag == DT_SYMTAB) symbols_ = offset_of(entry.d_un.d_ptr);
      if (entry.d_tag == DT_HASH) hash_ = offset_of(entry.d_un.d_ptr);
      if (entry.d_tag == DT_GNU_HASH) gnu_hash_ = offset_of(entry.d_un.d_ptr);
      if (entry.d_tag == DT_FLAGS_1 && (entry.d_un.d_val & DF_1_PIE) != 0) elf.program = true;
    }
    for (const auto& entry : entries) {
      if (entry.d_tag == DT_NEEDED) elf.needed.emplace_back(string(entry.d_un.d_val));
      if (entry.d_tag == DT_SONAME) elf.soname = string(entry.d_un.d_val);
      if (entry.d_tag == DT_RPATH) elf.rpath = string(entry.d_un.d_val);
      if (entry.d_tag == DT_RUNPATH) elf.runpath = string(entry.d_un.d_val);
    }
    read_wanted(elf);
    elf.intercepts = defines("pthread_create") && defines("sigaction");
  }

  /// Looks in the newer kind of hash table, which all compilers with sanitizers write.
  bool defines(std::string_view name) const {
    const auto buckets = at<std::uint32_t>(bytes_, gnu_hash_), first = at<std::uint32_t>(bytes_, gnu_hash_ + 4);
    const auto words = at<std::uint32_t>(bytes_, gnu_hash_ + 8);
    if (!buckets || !first || !words || *buckets == 0) return false;
    std::uint32_t hash = 5381;
    for (const char each : name) hash = hash * 33 + static_cast<unsigned char>(each);
    const std::uint64_t bucket = gnu_hash_ + 16 + std::uint64_t{*words} * 8,
                        chain = bucket + std::uint64_t{*buckets} * 4;
    for (std::uint64_t i = at<std::uint32_t>(bytes_, bucket + hash % *buckets * 4).value_or(0); i >= *first; ++i) {
      const auto seen = at<std::uint32_t>(bytes_, chain + (i - *first) * 4);
      const auto symbol = at<Elf64_Sym>(bytes_, symbols_ + i * sizeof(Elf64_Sym));
      if (!seen || !symbol) return false;
      const bool same = (*seen | 1) == (hash | 1) && text_at(bytes_, strings_ + symbol->st_name) == name;
      if (same && symbol->st_shndx != SHN_UNDEF) return true;
      if ((*seen & 1) != 0) return false;
    }
    return false;
  }

  void read_wanted(Elf& elf) {
    for (std::uint64_t i = 1; i < symbols_to_look_at(); ++i) {
      const auto symbol = at<Elf64_Sym>(bytes_, symbols_ + i * sizeof(Elf64_Sym));
      if (!symbol || text_left_ == 0) return;
      if (symbol->st_shndx != SHN_UNDEF || symbol->st_name == 0) continue;
      const auto name = string(symbol->st_name);
      if (asks_for_(name)) elf.wanted.emplace_back(name);
    }
  }

  /// The file does not contain the number of symbols. Imported symbols precede those in the hash table of newer files.
  /// An older table has a chain for each symbol.
  std::uint64_t symbols_to_look_at() const {
    if (gnu_hash_ != nowhere) return at<std::uint32_t>(bytes_, gnu_hash_ + 4).value_or(0);
    if (hash_ != nowhere) return at<std::uint32_t>(bytes_, hash_ + 4).value_or(0);
    return 0;
  }

  /// A name. All names together are shorter than the file. A file that gives the same long name again and again was not
  /// written by a linker, and would take unlimited memory.
  std::string_view string(std::uint64_t offset) {
    if (strings_ == nowhere || text_left_ == 0) return {};
    const auto text = text_at(bytes_, strings_ + offset);
    text_left_ -= std::min<std::uint64_t>(text_left_, text.size());
    return text_left_ == 0 ? std::string_view() : text;
  }

  /// Converts an address in the loaded image to an offset in the file.
  std::uint64_t offset_of(std::uint64_t address) const {
    for (const auto& load : loads_) {
      if (address >= load.p_vaddr && address - load.p_vaddr < load.p_filesz) {
        return address - load.p_vaddr + load.p_offset;
      }
    }
    return nowhere;
  }

  static constexpr std::uint64_t nowhere = std::numeric_limits<std::uint64_t>::max() / 2;

  std::string_view bytes_;
  std::uint64_t text_left_ = bytes_.size();
  Elf64_Ehdr header_;
  AsksFor asks_for_;
  std::vector<Elf64_Phdr> loads_;
  std::optional<Elf64_Phdr> dynamic_;
  std::uint64_t strings_ = nowhere, symbols_ = nowhere, hash_ = nowhere, gnu_hash_ = nowhere;
};

}  // namespace

std::uint16_t own_machine() {
#if defined(__x86_64__)
  return EM_X86_64;
#elif defined(__aarch64__)
  return EM_AARCH64;
#else
  return EM_NONE;
#endif
}

std::string machine_name(std::uint16_t machine) {
  switch (machine) {
    case EM_X86_64: return "x86-64";
    case EM_AARCH64: return "AArch64";
    case EM_386: return "32-bit x86";
    case EM_ARM: return "32-bit ARM";
    case EM_RISCV: return "RISC-V";
    case EM_PPC64: return "POWER";
    case EM_S390: return "S/390";
    default: return fmt::format("machine {}", machine);
  }
}

std::optional<Elf> parse_elf(std::string_view bytes, AsksFor asks_for) {
  if (bytes.substr(0, SELFMAG) != ELFMAG) return std::nullopt;
  const auto header = at<Elf64_Ehdr>(bytes, 0);
  if (!header) return std::nullopt;
  if (!is_of_this_machine(*header)) {
    Elf foreign;
    const bool swapped = header->e_ident[EI_DATA] == ELFDATA2MSB;
    foreign.machine = swapped ? __builtin_bswap16(header->e_machine) : header->e_machine;
    return foreign;
  }
  return Reader(bytes, *header, asks_for).read();
}

std::optional<Elf> read_elf(const std::string& file, AsksFor asks_for) {
  const int fd = open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return std::nullopt;
  struct stat status = {};
  std::optional<Elf> elf;
  if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
    const auto size = static_cast<std::size_t>(status.st_size);
    void* const memory = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (memory != MAP_FAILED) {
      elf = parse_elf({static_cast<const char*>(memory), size}, asks_for);
      munmap(memory, size);
    }
  }
  close(fd);
  return elf;
}

}  // namespace smelt::cli
