// Files that the dynamic loader has loaded, inspected in memory: the symbols that they define, and the slots in which
// they keep the addresses of imported ones.
//
// The loader fills one slot for each imported function, when the file is loaded or on the first call. Calls jump
// through the slot. Slots that are filled at load time may be in memory that is read-only afterwards (RELRO).
//
// All of this only reads memory. dlopen(RTLD_NOLOAD) is no substitute: it runs the constructors of a file that is not
// initialized yet, out of order.
#pragma once

#include <link.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace smelt::shims {

struct Range {
  std::uintptr_t begin = 0, end = 0;
  bool contains(std::uintptr_t address) const noexcept { return address >= begin && address < end; }
  bool contains(const void* address) const noexcept { return contains(reinterpret_cast<std::uintptr_t>(address)); }
};

class LoadedObject {
 public:
  LoadedObject() = default;
  explicit LoadedObject(const dl_phdr_info& loaded) noexcept;

  /// The object that contains an address; empty if none does.
  static LoadedObject with(const void* inside) noexcept;

  /// Calls visit(Object) for each, in the order in which they were loaded, until it returns true. No file comes or goes
  /// meanwhile, in any thread; visit() may call this again, and none of the loader's functions, as its locks are held.
  template <class Visit>
  static void each(Visit visit) noexcept {
    dl_iterate_phdr([](dl_phdr_info* loaded, std::size_t,
                       void* context) { return (*static_cast<Visit*>(context))(LoadedObject(*loaded)) ? 1 : 0; },
                    &visit);
  }

  /// As each(), for those for whose id() wanted(id) is true. The others cost little.
  template <class Wanted, class Visit>
  static void each_of(Wanted wanted, Visit visit) noexcept {
    const auto look = [&](const dl_phdr_info& loaded) { return wanted(id_of(loaded)) && visit(LoadedObject(loaded)); };
    dl_iterate_phdr([](dl_phdr_info* loaded, std::size_t,
                       void* context) { return (*static_cast<decltype(look)*>(context))(*loaded) ? 1 : 0; },
                    const_cast<void*>(static_cast<const void*>(&look)));
  }

  explicit operator bool() const noexcept { return symbols_ != nullptr; }
  friend bool operator==(const LoadedObject& a, const LoadedObject& b) noexcept { return a.dynamic_ == b.dynamic_; }
  const void* id() const noexcept { return dynamic_; }  ///< for as long as it is loaded
  const char* file() const noexcept { return file_ != nullptr ? file_ : ""; }
  /// Tells a library from another one at its address, or from another version of it: of its place, file, and dynamic
  /// section. Never 0.
  std::uint64_t fingerprint() const noexcept;
  bool contains(const void* address) const noexcept { return all_.contains(address); }

  /// The name by which others need it (DT_SONAME); empty if it has none.
  const char* name() const noexcept { return name_ != nullptr ? name_ : ""; }

  /// Calls visit(name) for each file that it needs.
  template <class Visit>
  void each_needed(Visit visit) const noexcept {
    if (names_ == nullptr) return;
    for (const auto* each = dynamic_; each->d_tag != DT_NULL; ++each) {
      if (each->d_tag == DT_NEEDED) visit(names_ + each->d_un.d_val);
    }
  }

  /// The symbol of that name which this file defines, in the given version if it has that, otherwise in its default
  /// version; null if there is none.
  const ElfW(Sym) * find(const char* name, const char* version = nullptr) const noexcept;
  void* address_of(const ElfW(Sym) & symbol) const noexcept { return reinterpret_cast<void*>(base_ + symbol.st_value); }

  /// Calls change(name, symbol), which may modify the symbol, for all symbols that this file defines. Later look-ups
  /// see the changes. False: its memory cannot be written to.
  template <class Change>
  bool change_symbols(Change change) const noexcept {
    const std::size_t number = number_of_symbols();
    auto* const symbols = const_cast<ElfW(Sym)*>(symbols_);
    if (!permit(symbols, symbols + number, true)) return false;
    for (std::size_t i = 1; i < number; ++i) {
      if (symbols[i].st_shndx != SHN_UNDEF) change(names_ + symbols[i].st_name, symbols[i]);
    }
    return permit(symbols, symbols + number, false);
  }

  /// Calls visit(name, symbol) for each that this file defines.
  template <class Visit>
  void each_definition(Visit visit) const noexcept {
    const std::size_t number = number_of_symbols();
    for (std::size_t i = 1; i < number; ++i) {
      if (symbols_[i].st_shndx != SHN_UNDEF) visit(names_ + symbols_[i].st_name, symbols_[i]);
    }
  }

  /// The version of a defined or imported symbol of this file; null if it has none.
  const char* version_of(const ElfW(Sym) & symbol) const noexcept;

  /// A slot in which a file keeps the address of a symbol.
  struct SymbolReference {
    const char* name;
    void** slot;
    const ElfW(Sym) * symbol;  ///< of the referring file
    bool of_calls;             ///< may be filled on the first call
    bool is_weak() const noexcept { return ELF64_ST_BIND(symbol->st_info) == STB_WEAK; }
    bool is_import() const noexcept { return symbol->st_shndx == SHN_UNDEF; }
  };

  /// Calls visit(SymbolReference) for each reference for which wanted(slot) is true. wanted() is called first, since
  /// names are rarely in the caches.
  template <class Wanted, class Visit>
  void references(Wanted wanted, Visit visit) const noexcept {
    for (const auto& table : {relocations_, imports_}) {
      for (std::size_t i = 0; i < table.number; ++i) {
        const auto& each = table.first[i];
        void** const slot = reinterpret_cast<void**>(base_ + each.r_offset);
        if (!holds_address(each) || !wanted(slot)) continue;
        const auto& symbol = symbols_[ELF64_R_SYM(each.r_info)];
        visit(SymbolReference{names_ + symbol.st_name, slot, &symbol, table.first == imports_.first});
      }
    }
  }

  /// Writes to a slot, which may be in read-only memory. False: it cannot be written to.
  bool write(void** slot, void* value) const noexcept;

 private:
  struct Relocations {
    const ElfW(Rela) * first = nullptr;
    std::size_t number = 0;
  };

  static const void* id_of(const dl_phdr_info& loaded) noexcept;
  static bool holds_address(const ElfW(Rela) & relocation) noexcept;
  void read_dynamic() noexcept;
  std::size_t number_of_symbols() const noexcept;
  bool has_version(const ElfW(Sym) & symbol, const char* version) const noexcept;
  const char* version_needed(unsigned number) const noexcept;
  const char* version_defined(unsigned number) const noexcept;
  /// Makes `begin` to `end` writable, or read-only again. False on failure.
  bool permit(const void* begin, const void* end, bool writing) const noexcept;

  std::uintptr_t base_ = 0;
  const char* file_ = nullptr;
  const ElfW(Phdr) * headers_ = nullptr;
  int header_count_ = 0;
  Range all_, read_only_;
  const ElfW(Dyn) * dynamic_ = nullptr;
  const ElfW(Sym) * symbols_ = nullptr;
  const char* names_ = nullptr;
  const char* name_ = nullptr;
  const ElfW(Half) * versions_ = nullptr;
  const ElfW(Verneed) * needed_versions_ = nullptr;
  const ElfW(Verdef) * defined_versions_ = nullptr;
  const std::uint32_t* gnu_hash_ = nullptr;
  const std::uint32_t* hash_ = nullptr;
  Relocations relocations_, imports_;
};

}  // namespace smelt::shims
