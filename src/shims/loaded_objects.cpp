#include "shims/loaded_objects.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

namespace smelt::shims {
namespace {

std::uint32_t gnu_hash_of(const char* name) noexcept {
  std::uint32_t hash = 5381;
  for (; *name != '\0'; ++name) hash = hash * 33 + static_cast<unsigned char>(*name);
  return hash;
}

std::uint32_t hash_of(const char* name) noexcept {
  std::uint32_t hash = 0;
  for (; *name != '\0'; ++name) {
    hash = (hash << 4) + static_cast<unsigned char>(*name);
    const std::uint32_t high = hash & 0xf0000000;
    hash ^= high >> 24;
    hash &= ~high;
  }
  return hash;
}

constexpr unsigned version_hidden = 0x8000, version_number = 0x7fff;

template <class T, class U>
const T* further(const U* from, std::size_t bytes) noexcept {
  return reinterpret_cast<const T*>(reinterpret_cast<const char*>(from) + bytes);
}

std::uintptr_t page() noexcept {
  static const auto bytes = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace

LoadedObject::LoadedObject(const dl_phdr_info& loaded) noexcept
    : base_(loaded.dlpi_addr), file_(loaded.dlpi_name), headers_(loaded.dlpi_phdr), header_count_(loaded.dlpi_phnum) {
  for (int i = 0; i < header_count_; ++i) {
    const auto& header = headers_[i];
    const Range part{base_ + header.p_vaddr, base_ + header.p_vaddr + header.p_memsz};
    if (header.p_type == PT_LOAD) {
      if (all_.end == 0) all_.begin = part.begin;
      all_.end = part.end;
    }
    if (header.p_type == PT_DYNAMIC) dynamic_ = reinterpret_cast<const ElfW(Dyn)*>(part.begin);
    // The loader leaves a page alone that belongs to it in part.
    if (header.p_type == PT_GNU_RELRO) read_only_ = {part.begin & ~(page() - 1), part.end & ~(page() - 1)};
  }
  if (dynamic_ != nullptr) read_dynamic();
}

const void* LoadedObject::id_of(const dl_phdr_info& loaded) noexcept {
  for (int i = 0; i < loaded.dlpi_phnum; ++i) {
    const auto& header = loaded.dlpi_phdr[i];
    if (header.p_type == PT_DYNAMIC) return reinterpret_cast<const void*>(loaded.dlpi_addr + header.p_vaddr);
  }
  return nullptr;
}

/// Addresses in a dynamic section may have been relocated already.
void LoadedObject::read_dynamic() noexcept {
  const auto table = [&](const ElfW(Dyn) & entry) {
    const std::uintptr_t value = entry.d_un.d_ptr;
    return value < base_ ? base_ + value : value;
  };
  std::size_t bytes = 0, import_bytes = 0, relative = 0, name = 0;
  const ElfW(Rela)* first = nullptr;
  bool with_addends = true;
  for (const auto* each = dynamic_; each->d_tag != DT_NULL; ++each) {
    switch (each->d_tag) {
      case DT_SYMTAB: symbols_ = reinterpret_cast<const ElfW(Sym)*>(table(*each)); break;
      case DT_STRTAB: names_ = reinterpret_cast<const char*>(table(*each)); break;
      case DT_GNU_HASH: gnu_hash_ = reinterpret_cast<const std::uint32_t*>(table(*each)); break;
      case DT_SONAME: name = each->d_un.d_val; break;
      case DT_VERSYM: versions_ = reinterpret_cast<const ElfW(Half)*>(table(*each)); break;
      case DT_VERNEED: needed_versions_ = reinterpret_cast<const ElfW(Verneed)*>(table(*each)); break;
      case DT_VERDEF: defined_versions_ = reinterpret_cast<const ElfW(Verdef)*>(table(*each)); break;
      case DT_HASH: hash_ = reinterpret_cast<const std::uint32_t*>(table(*each)); break;
      case DT_RELA: first = reinterpret_cast<const ElfW(Rela)*>(table(*each)); break;
      case DT_RELASZ: bytes = each->d_un.d_val; break;
      case DT_RELACOUNT: relative = each->d_un.d_val; break;
      case DT_JMPREL: imports_.first = reinterpret_cast<const ElfW(Rela)*>(table(*each)); break;
      case DT_PLTRELSZ: import_bytes = each->d_un.d_val; break;
      case DT_PLTREL: with_addends = each->d_un.d_val == DT_RELA; break;
      default: break;
    }
  }
  if (names_ == nullptr) symbols_ = nullptr;
  if (names_ != nullptr && name != 0) name_ = names_ + name;
  if (first != nullptr && bytes / sizeof *first >= relative) {
    relocations_ = {first + relative,
                    bytes / sizeof *first - relative};  // the relative ones, without symbols, come first
  }
  if (imports_.first != nullptr && with_addends) imports_.number = import_bytes / sizeof *imports_.first;
}

/// FNV-1a, of words.
std::uint64_t LoadedObject::fingerprint() const noexcept {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](std::uint64_t word) { hash = (hash ^ word) * 0x100000001b3; };
  add(base_);
  for (const char* each = file(); *each != '\0'; ++each) add(static_cast<unsigned char>(*each));
  for (const auto* each = dynamic_; each != nullptr && each->d_tag != DT_NULL; ++each) {
    add(static_cast<std::uint64_t>(each->d_tag));
    add(each->d_un.d_val);
  }
  return hash | 1;
}

LoadedObject LoadedObject::with(const void* inside) noexcept {
  LoadedObject found;
  each([&](const LoadedObject& object) {
    if (object.contains(inside)) found = object;
    return object.contains(inside);
  });
  return found;
}

const char* LoadedObject::version_needed(unsigned number) const noexcept {
  if (needed_versions_ == nullptr) return nullptr;
  for (const auto* file = needed_versions_;; file = further<ElfW(Verneed)>(file, file->vn_next)) {
    const auto* version = further<ElfW(Vernaux)>(file, file->vn_aux);
    for (int i = 0; i < file->vn_cnt; ++i, version = further<ElfW(Vernaux)>(version, version->vna_next)) {
      if ((version->vna_other & version_number) == number) return names_ + version->vna_name;
    }
    if (file->vn_next == 0) return nullptr;
  }
}

const char* LoadedObject::version_defined(unsigned number) const noexcept {
  if (defined_versions_ == nullptr) return nullptr;
  for (const auto* each = defined_versions_;; each = further<ElfW(Verdef)>(each, each->vd_next)) {
    if ((each->vd_ndx & version_number) == number) return names_ + further<ElfW(Verdaux)>(each, each->vd_aux)->vda_name;
    if (each->vd_next == 0) return nullptr;
  }
}

const char* LoadedObject::version_of(const ElfW(Sym) & symbol) const noexcept {
  if (versions_ == nullptr) return nullptr;
  const unsigned number = versions_[&symbol - symbols_] & version_number;
  if (number <= VER_NDX_GLOBAL) return nullptr;
  return symbol.st_shndx == SHN_UNDEF ? version_needed(number) : version_defined(number);
}

/// `version` null: whether it is the default one.
bool LoadedObject::has_version(const ElfW(Sym) & symbol, const char* version) const noexcept {
  if (version == nullptr) return versions_ == nullptr || (versions_[&symbol - symbols_] & version_hidden) == 0;
  const char* const own = version_of(symbol);
  return own != nullptr && std::strcmp(own, version) == 0;
}

/// A table by the newer of the two hash functions, else by the older one.
const ElfW(Sym) * LoadedObject::find(const char* name, const char* version) const noexcept {
  if (symbols_ == nullptr) return nullptr;
  const ElfW(Sym)* other = nullptr;  // of that name, in another version
  const auto is_it = [&](std::uint32_t index) {
    const auto& symbol = symbols_[index];
    if (symbol.st_shndx == SHN_UNDEF || symbol.st_value == 0 || std::strcmp(names_ + symbol.st_name, name) != 0) {
      return false;
    }
    if (has_version(symbol, version)) return true;
    if (other == nullptr || has_version(symbol, nullptr)) other = &symbol;
    return false;
  };
  if (gnu_hash_ != nullptr) {
    const std::uint32_t buckets = gnu_hash_[0], first = gnu_hash_[1], words = gnu_hash_[2];
    const std::uint32_t* const bucket = gnu_hash_ + 4 + words * (sizeof(ElfW(Addr)) / sizeof *gnu_hash_);
    const std::uint32_t* const chain = bucket + buckets;
    const std::uint32_t hash = gnu_hash_of(name);
    std::uint32_t index = buckets != 0 ? bucket[hash % buckets] : 0;
    if (index < first) return nullptr;
    for (;; ++index) {
      const std::uint32_t seen = chain[index - first];
      if ((seen | 1) == (hash | 1) && is_it(index)) return &symbols_[index];
      if ((seen & 1) != 0) return other;
    }
  }
  if (hash_ == nullptr || hash_[0] == 0) return nullptr;
  const std::uint32_t* const bucket = hash_ + 2;
  const std::uint32_t* const chain = bucket + hash_[0];
  for (std::uint32_t index = bucket[hash_of(name) % hash_[0]]; index != 0; index = chain[index]) {
    if (is_it(index)) return &symbols_[index];
  }
  return other;
}

std::size_t LoadedObject::number_of_symbols() const noexcept {
  if (hash_ != nullptr) return hash_[1];
  if (gnu_hash_ == nullptr || symbols_ == nullptr) return 0;
  const std::uint32_t buckets = gnu_hash_[0], first = gnu_hash_[1], words = gnu_hash_[2];
  const std::uint32_t* const bucket = gnu_hash_ + 4 + words * (sizeof(ElfW(Addr)) / sizeof *gnu_hash_);
  const std::uint32_t* const chain = bucket + buckets;
  std::uint32_t last = 0;
  for (std::uint32_t i = 0; i < buckets; ++i) last = bucket[i] > last ? bucket[i] : last;
  if (last < first) return 0;
  while ((chain[last - first] & 1) == 0) ++last;
  return last + 1;
}

bool LoadedObject::holds_address(const ElfW(Rela) & relocation) noexcept {
  if (ELF64_R_SYM(relocation.r_info) == 0) return false;
  switch (ELF64_R_TYPE(relocation.r_info)) {
#if defined(__x86_64__)
    case R_X86_64_GLOB_DAT:
    case R_X86_64_JUMP_SLOT: return true;
    case R_X86_64_64: return relocation.r_addend == 0;
#elif defined(__aarch64__)
    case R_AARCH64_GLOB_DAT:
    case R_AARCH64_JUMP_SLOT: return true;
    case R_AARCH64_ABS64: return relocation.r_addend == 0;
#endif
    default: return false;
  }
}

bool LoadedObject::permit(const void* begin, const void* end, bool writing) const noexcept {
  const auto from = reinterpret_cast<std::uintptr_t>(begin) & ~(page() - 1);
  const auto to = (reinterpret_cast<std::uintptr_t>(end) + page() - 1) & ~(page() - 1);
  int access = PROT_READ;
  for (int i = 0; i < header_count_; ++i) {
    const auto& header = headers_[i];
    if (header.p_type != PT_LOAD ||
        !Range{base_ + header.p_vaddr, base_ + header.p_vaddr + header.p_memsz}.contains(begin)) {
      continue;
    }
    if ((header.p_flags & PF_X) != 0) access |= PROT_EXEC;
    if ((header.p_flags & PF_W) != 0 && !read_only_.contains(begin)) access |= PROT_WRITE;
  }
  if (writing) access |= PROT_WRITE;
  return mprotect(reinterpret_cast<void*>(from), to - from, access) == 0;
}

bool LoadedObject::write(void** slot, void* value) const noexcept {
  const bool closed = read_only_.contains(slot);
  if (closed && !permit(slot, slot + 1, true)) return false;
  // Others may jump through it meanwhile. Release: what `value` uses has been written.
  __atomic_store_n(slot, value, __ATOMIC_RELEASE);
  return !closed || permit(slot, slot + 1, false);
}

}  // namespace smelt::shims
