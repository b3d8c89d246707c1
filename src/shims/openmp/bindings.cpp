#include "shims/openmp/bindings.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <string_view>

#include "shims/openmp/runtime.hpp"

namespace smelt::shims::openmp {

extern "C" {
/// What the stubs jump to, by the number of the entry.
[[gnu::visibility("hidden")]] constinit std::uintptr_t smelt_openmp_targets[most_entries] = {};
[[gnu::visibility("hidden")]] extern const char smelt_openmp_stubs[];
}

namespace {

#if defined(__x86_64__)
constexpr std::uint32_t by_call = R_X86_64_JUMP_SLOT, by_address = R_X86_64_GLOB_DAT, as_data = R_X86_64_64;
#else
constexpr std::uint32_t by_call = R_AARCH64_JUMP_SLOT, by_address = R_AARCH64_GLOB_DAT, as_data = R_AARCH64_ABS64;
#endif

struct Range {
  std::uintptr_t begin = 0, end = 0;
  bool contains(std::uintptr_t address) const noexcept { return address - begin < end - begin; }
};

Range around(const Range& a, const Range& b) noexcept { return {std::min(a.begin, b.begin), std::max(a.end, b.end)}; }

template <class T, class U>
const T* further(const U* from, std::size_t bytes) noexcept {
  return reinterpret_cast<const T*>(reinterpret_cast<const char*>(from) + bytes);
}

/// The tables of a loaded library.
struct Tables {
  std::uintptr_t base = 0;
  Range whole, read_only;
  const ElfW(Dyn)* dynamic = nullptr;
  const ElfW(Sym)* symbols = nullptr;
  const char* strings = nullptr;
  const ElfW(Rela)* data = nullptr;
  std::size_t data_count = 0, relative_count = 0;
  const ElfW(Rela)* calls = nullptr;
  std::size_t calls_count = 0;
  const ElfW(Half)* versions = nullptr;
  const ElfW(Verneed)* needed = nullptr;
  const ElfW(Verdef)* defined = nullptr;
  const std::uint32_t* hash = nullptr;

  explicit Tables(const dl_phdr_info& info) noexcept : base(info.dlpi_addr) {
    for (int i = 0; i < info.dlpi_phnum; ++i) {
      const auto& part = info.dlpi_phdr[i];
      const Range range = {base + part.p_vaddr, base + part.p_vaddr + part.p_memsz};
      if (part.p_type == PT_LOAD) whole = whole.end == 0 ? range : around(whole, range);
      if (part.p_type == PT_GNU_RELRO) read_only = range;
      if (part.p_type == PT_DYNAMIC) dynamic = reinterpret_cast<const ElfW(Dyn)*>(range.begin);
    }
    if (dynamic != nullptr) read_dynamic();
  }

 private:
  void read_dynamic() noexcept {
    bool with_addends = true;
    // The linker has relocated these addresses in place, but for a few libraries (the vDSO).
    const auto at = [&](ElfW(Addr) address) { return address < base ? base + address : address; };
    for (const auto* each = dynamic; each->d_tag != DT_NULL; ++each) {
      const auto value = each->d_un.d_val;
      switch (each->d_tag) {
        case DT_SYMTAB: symbols = reinterpret_cast<const ElfW(Sym)*>(at(value)); break;
        case DT_STRTAB: strings = reinterpret_cast<const char*>(at(value)); break;
        case DT_RELA: data = reinterpret_cast<const ElfW(Rela)*>(at(value)); break;
        case DT_RELASZ: data_count = value / sizeof(ElfW(Rela)); break;
        case DT_RELACOUNT: relative_count = value; break;
        case DT_JMPREL: calls = reinterpret_cast<const ElfW(Rela)*>(at(value)); break;
        case DT_PLTRELSZ: calls_count = value / sizeof(ElfW(Rela)); break;
        case DT_PLTREL: with_addends = value == DT_RELA; break;
        case DT_VERSYM: versions = reinterpret_cast<const ElfW(Half)*>(at(value)); break;
        case DT_VERNEED: needed = reinterpret_cast<const ElfW(Verneed)*>(at(value)); break;
        case DT_VERDEF: defined = reinterpret_cast<const ElfW(Verdef)*>(at(value)); break;
        case DT_GNU_HASH: hash = reinterpret_cast<const std::uint32_t*>(at(value)); break;
        default: break;
      }
    }
    if (!with_addends) calls = nullptr;
  }
};

/// The version of a symbol that the library needs; null: none.
const char* version_needed(const Tables& of, std::size_t symbol) noexcept {
  if (of.versions == nullptr || of.needed == nullptr) return nullptr;
  const auto wanted = of.versions[symbol] & 0x7fff;
  for (const auto* file = of.needed;; file = further<ElfW(Verneed)>(file, file->vn_next)) {
    const auto* version = further<ElfW(Vernaux)>(file, file->vn_aux);
    for (int i = 0; i < file->vn_cnt; ++i, version = further<ElfW(Vernaux)>(version, version->vna_next)) {
      if ((version->vna_other & 0x7fff) == wanted) return of.strings + version->vna_name;
    }
    if (file->vn_next == 0) return nullptr;
  }
}

/// The version of a symbol that the library defines is LLVM's.
bool defined_for_llvm(const Tables& of, std::size_t symbol) noexcept {
  if (of.versions == nullptr || of.defined == nullptr) return false;
  const auto wanted = of.versions[symbol] & 0x7fff;
  for (const auto* each = of.defined;; each = further<ElfW(Verdef)>(each, each->vd_next)) {
    const auto* name = further<ElfW(Verdaux)>(each, each->vd_aux);
    if ((each->vd_ndx & 0x7fff) == wanted) return std::strcmp(of.strings + name->vda_name, "VERSION") == 0;
    if (each->vd_next == 0) return false;
  }
}

/// By the hash table of the GNU linker.
bool defines(const Tables& library, const char* name) noexcept {
  if (library.hash == nullptr || library.symbols == nullptr || library.strings == nullptr) return false;
  std::uint32_t hash = 5381;
  for (const char* each = name; *each != '\0'; ++each) hash = hash * 33 + static_cast<unsigned char>(*each);
  const std::uint32_t buckets = library.hash[0], first = library.hash[1], bloom_words = library.hash[2];
  const auto* bucket = further<std::uint32_t>(library.hash + 4, bloom_words * sizeof(ElfW(Addr)));
  const std::uint32_t* chain = bucket + buckets;
  for (std::uint32_t i = buckets != 0 ? bucket[hash % buckets] : 0; i >= first && i != 0; ++i) {
    const auto own = chain[i - first];
    const auto& symbol = library.symbols[i];
    const bool same = (own | 1) == (hash | 1) && std::strcmp(library.strings + symbol.st_name, name) == 0;
    if (same && symbol.st_shndx != SHN_UNDEF) return true;
    if ((own & 1) != 0) break;
  }
  return false;
}

// ---- the entries of the shim -------------------------------------------------------------------------

struct Entry {
  std::string_view name;
  std::uintptr_t address = 0;
  bool llvm = false;
};
constinit Entry entries[most_entries] = {};
constinit int entry_count = 0;

bool is_function_of_runtimes(std::string_view name) noexcept {
  for (std::string_view prefix : {"GOMP_", "omp_", "__kmpc_", "kmp_", "kmpc_", "ompc_"}) {
    if (name.starts_with(prefix)) return true;
  }
  return false;
}

void read_own_entries(const Tables& own) noexcept {
  if (own.hash == nullptr) return;
  const std::uint32_t buckets = own.hash[0], first = own.hash[1], bloom_words = own.hash[2];
  const auto* bucket = further<std::uint32_t>(own.hash + 4, bloom_words * sizeof(ElfW(Addr)));
  const std::uint32_t* chain = bucket + buckets;
  for (std::uint32_t b = 0; b < buckets; ++b) {
    for (std::uint32_t i = bucket[b]; i >= first && i != 0; ++i) {
      const auto& symbol = own.symbols[i];
      const std::string_view name = own.strings + symbol.st_name;
      if (symbol.st_shndx != SHN_UNDEF && is_function_of_runtimes(name) && entry_count < most_entries) {
        const bool llvm = name.starts_with("omp_") ? defined_for_llvm(own, i) : !name.starts_with("GOMP_");
        entries[entry_count++] = {name, own.base + symbol.st_value, llvm};
      }
      if ((chain[i - first] & 1) != 0) break;
    }
  }
  std::sort(entries, entries + entry_count, [](const Entry& a, const Entry& b) {
    return a.name != b.name ? a.name < b.name : a.llvm < b.llvm;
  });
  for (int i = 0; i < entry_count; ++i) smelt_openmp_targets[i] = entries[i].address;
}

/// Both entries of a name where there are two.
std::pair<const Entry*, const Entry*> entries_of(std::string_view name) noexcept {
  const auto by_name = [](const auto& a, const auto& b) {
    if constexpr (std::is_same_v<std::decay_t<decltype(a)>, Entry>) {
      return a.name < b;
    } else {
      return a < b.name;
    }
  };
  return {std::lower_bound(entries, entries + entry_count, name, by_name),
          std::upper_bound(entries, entries + entry_count, name, by_name)};
}

void* stub(int copy, const Entry& entry) noexcept {
  const auto number = (copy - 1) * most_entries + static_cast<int>(&entry - entries);
  return const_cast<char*>(smelt_openmp_stubs + static_cast<std::ptrdiff_t>(number) * stub_bytes);
}

// ---- imports of a library ---------------------------------------------------------------------------

/// Calls visit(slot, symbol number, entry) for every import that is bound to the shim, or not yet bound.
template <class Visit>
void for_each_import(const Tables& library, const Visit& visit) noexcept {
  if (library.symbols == nullptr || library.strings == nullptr) return;
  const auto look = [&](const ElfW(Rela)& each) {
    const auto type = ELF64_R_TYPE(each.r_info);
    if (type != by_call && type != by_address && type != as_data) return;
    const auto number = ELF64_R_SYM(each.r_info);
    const auto& symbol = library.symbols[number];
    if (number == 0 || symbol.st_shndx != SHN_UNDEF) return;
    const char* const name = library.strings + symbol.st_name;
    if (!is_function_of_runtimes(name)) return;
    auto* const slot = reinterpret_cast<std::uintptr_t*>(library.base + each.r_offset);
    const auto [begin, end] = entries_of(name);
    for (const Entry* entry = begin; entry != end; ++entry) {
      const bool lazy = type == by_call && library.whole.contains(*slot);
      if (*slot != entry->address && !lazy) continue;
      const char* const version = version_needed(library, number);
      const bool llvm = version != nullptr ? std::strcmp(version, "VERSION") == 0 : entry->llvm;
      if (lazy && std::distance(begin, end) > 1 && llvm != entry->llvm) continue;
      visit(slot, symbol, *entry);
      return;
    }
  };
  const std::size_t data_count = library.data != nullptr ? library.data_count : 0;
  for (std::size_t i = library.relative_count; i < data_count; ++i) look(library.data[i]);
  const std::size_t calls_count = library.calls != nullptr ? library.calls_count : 0;
  for (std::size_t i = 0; i < calls_count; ++i) look(library.calls[i]);
}

/// The slots that are filled when the library is loaded are read-only from then on.
void write(const Tables& library, std::uintptr_t* slot, std::uintptr_t value) noexcept {
  static const auto page_bytes = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<std::uintptr_t>(slot);
  auto* const page = reinterpret_cast<void*>(address & ~(page_bytes - 1));
  const bool locked = library.read_only.contains(address);
  if (locked && mprotect(page, page_bytes, PROT_READ | PROT_WRITE) != 0) return;
  // Others may call through it meanwhile; both values serve.
  __atomic_store_n(slot, value, __ATOMIC_RELEASE);
  // The pages of that part are read-only as a whole, but for the rest of its last one.
  if (locked && (address | (page_bytes - 1)) < library.read_only.end) mprotect(page, page_bytes, PROT_READ);
}

void bind(const Tables& library, const link_map* map) noexcept {
  std::optional<Bound> bound[2];  // by family, as far as it is asked for
  for_each_import(library, [&](std::uintptr_t* slot, const ElfW(Sym)& symbol, const Entry& entry) {
    auto& asked = bound[entry.llvm ? 1 : 0];
    if (!asked) asked = bound_to(entry.llvm ? Family::llvm : Family::gnu, map);
    const Bound& to = *asked;
    if (to.everybodys) return;
    void* original = to.original(library.strings + symbol.st_name, entry.llvm);
    if (original == nullptr) {
      // What is not there a library may ask for.
      if (ELF64_ST_BIND(symbol.st_info) == STB_WEAK) write(library, slot, 0);
      return;
    }
    const bool by_stub = to.copy != 0 && !to.itself;
    write(library, slot, reinterpret_cast<std::uintptr_t>(by_stub ? stub(to.copy, entry) : original));
  });
}

// ---- libraries as they come ----------------------------------------------------------------------------

constexpr std::size_t most_seen = 4096;
constinit const void* seen[most_seen] = {};  ///< by the address of their dynamic section; a hash table
constinit std::size_t seen_count = 0;
constinit unsigned long long unloads = 0;
constinit std::atomic<unsigned long long> loads{0};  ///< as of the last look

bool see(const void* dynamic) noexcept {
  for (auto i = (reinterpret_cast<std::uintptr_t>(dynamic) >> 4) % most_seen;; i = (i + 1) % most_seen) {
    if (seen[i] == dynamic) return false;
    if (seen[i] != nullptr) continue;
    seen[i] = dynamic;
    ++seen_count;
    return true;
  }
}

void forget() noexcept {
  std::fill(std::begin(seen), std::end(seen), nullptr);
  seen_count = 0;
}

struct Search {
  const void* dynamic[32];  ///< of libraries with imports; more of them are found the next time
  int count = 0;
  unsigned long long loads = 0;
};

int look_at(dl_phdr_info* info, std::size_t, void* argument) noexcept {
  Search& search = *static_cast<Search*>(argument);
  search.loads = info->dlpi_adds;
  if (info->dlpi_subs != unloads || seen_count > most_seen / 2) forget();
  unloads = info->dlpi_subs;
  const Tables library(*info);
  if (library.dynamic == nullptr || library.whole.contains(reinterpret_cast<std::uintptr_t>(&look_at))) return 0;
  if (search.count == static_cast<int>(std::size(search.dynamic))) {
    search.loads = 0;
    return 1;
  }
  if (!see(library.dynamic)) return 0;
  bool imports = false;
  for_each_import(library, [&](auto&&...) { imports = true; });
  if (imports) search.dynamic[search.count++] = library.dynamic;
  return 0;
}

/// Binds the library with this dynamic section, if it is still there.
void bind_library(const void* dynamic) noexcept {
  Dl_info info = {};
  link_map* map = nullptr;
  if (dladdr1(dynamic, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0 || map == nullptr) return;
  // Loaded for as long as its slots are written to.
  void* const handle = dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return;
  struct Wanted {
    const void* dynamic;
    std::aligned_storage_t<sizeof(Tables), alignof(Tables)> tables;
    bool found = false;
  } wanted = {dynamic, {}, false};
  const auto find = [](dl_phdr_info* each, std::size_t, void* argument) {
    auto& own = *static_cast<Wanted*>(argument);
    const Tables tables(*each);
    if (tables.dynamic != own.dynamic) return 0;
    new (&own.tables) Tables(tables);
    own.found = true;
    return 1;
  };
  dl_iterate_phdr(find, &wanted);
  if (wanted.found) bind(*reinterpret_cast<const Tables*>(&wanted.tables), map);
  release_library(handle);
}

unsigned long long loads_now() noexcept {
  unsigned long long count = 0;
  const auto look = [](dl_phdr_info* info, std::size_t, void* argument) {
    *static_cast<unsigned long long*>(argument) = info->dlpi_adds;
    return 1;
  };
  dl_iterate_phdr(look, &count);
  return count;
}

void prepare_entries() noexcept {
  const auto look = [](dl_phdr_info* info, std::size_t, void*) {
    const Tables library(*info);
    if (!library.whole.contains(reinterpret_cast<std::uintptr_t>(&prepare_entries))) return 0;
    read_own_entries(library);
    return 1;
  };
  dl_iterate_phdr(look, nullptr);
}

constinit std::mutex mutex;
thread_local constinit bool binding = false;  ///< what it calls may come back here

}  // namespace

void bind_new_libraries() noexcept {
  if (binding || loads_now() == loads.load(std::memory_order_acquire)) return;
  binding = true;
  {
    const std::lock_guard lock(mutex);
    if (entry_count == 0) prepare_entries();
    for (int rounds = 0; rounds < 64; ++rounds) {
      Search search;
      dl_iterate_phdr(look_at, &search);
      for (int i = 0; i < search.count; ++i) bind_library(search.dynamic[i]);
      loads.store(search.loads, std::memory_order_release);
      if (search.loads != 0) break;
    }
  }
  binding = false;
}

bool somebody_defines(const char* name) noexcept {
  struct Search {
    const char* name;
    bool found = false;
  } search = {name, false};
  const auto look = [](dl_phdr_info* info, std::size_t, void* argument) {
    auto& own = *static_cast<Search*>(argument);
    const Tables library(*info);
    const bool shim = library.whole.contains(reinterpret_cast<std::uintptr_t>(&look_at));
    own.found = library.dynamic != nullptr && !shim && defines(library, own.name);
    return own.found ? 1 : 0;
  };
  dl_iterate_phdr(look, &search);
  return search.found;
}

void* stub_of(int copy, const char* name, bool gnu) noexcept {
  const auto [begin, end] = entries_of(name);
  for (const Entry* entry = begin; entry != end; ++entry) {
    if (entry->llvm != gnu) return stub(copy, *entry);
  }
  return nullptr;
}

}  // namespace smelt::shims::openmp
