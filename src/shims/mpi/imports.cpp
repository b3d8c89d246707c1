// The dynamic linker fills one slot for each imported function, when the library is loaded or at the first call; the
// library's PLT jumps through it. Slots that are filled at load time may lie in what is read-only from then on (RELRO).
#include "shims/mpi/imports.hpp"

#include <link.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace smelt::shims::mpi {
namespace {

struct Loaded {
  std::uintptr_t base = 0;
  const ElfW(Dyn) * dynamic = nullptr;
  Range part, read_only;
};

Loaded library_with(std::uintptr_t inside) noexcept {
  struct Search {
    std::uintptr_t inside;
    Loaded found;
  } search{inside, {}};
  dl_iterate_phdr(
      [](dl_phdr_info* object, std::size_t, void* context) {
        auto& search = *static_cast<Search*>(context);
        Loaded seen;
        seen.base = object->dlpi_addr;
        for (int i = 0; i < object->dlpi_phnum; ++i) {
          const auto& header = object->dlpi_phdr[i];
          const Range part{seen.base + header.p_vaddr, seen.base + header.p_vaddr + header.p_memsz};
          if (header.p_type == PT_LOAD && part.contains(search.inside)) seen.part = part;
          if (header.p_type == PT_DYNAMIC) seen.dynamic = reinterpret_cast<const ElfW(Dyn)*>(part.begin);
          if (header.p_type == PT_GNU_RELRO) seen.read_only = part;
        }
        if (seen.part.end == 0) return 0;
        search.found = seen;
        return 1;
      },
      &search);
  return search.found;
}

/// What the dynamic section says; addresses in it may have been relocated already.
std::uintptr_t entry(const Loaded& library, ElfW(Sxword) tag) noexcept {
  for (const auto* each = library.dynamic; each->d_tag != DT_NULL; ++each) {
    if (each->d_tag == tag) return each->d_un.d_val;
  }
  return 0;
}
std::uintptr_t address(const Loaded& library, ElfW(Sxword) tag) noexcept {
  const auto value = entry(library, tag);
  return value != 0 && value < library.base ? library.base + value : value;
}

}  // namespace

Range part_with(const void* inside) noexcept { return library_with(reinterpret_cast<std::uintptr_t>(inside)).part; }

void** import_of(const void* inside, const char* name) noexcept {
  const Loaded library = library_with(reinterpret_cast<std::uintptr_t>(inside));
  if (library.dynamic == nullptr || entry(library, DT_PLTREL) != DT_RELA) return nullptr;
  const auto* const slots = reinterpret_cast<const ElfW(Rela)*>(address(library, DT_JMPREL));
  const auto* const symbols = reinterpret_cast<const ElfW(Sym)*>(address(library, DT_SYMTAB));
  const auto* const names = reinterpret_cast<const char*>(address(library, DT_STRTAB));
  if (slots == nullptr || symbols == nullptr || names == nullptr) return nullptr;
  const std::size_t number = entry(library, DT_PLTRELSZ) / sizeof *slots;
  for (std::size_t i = 0; i < number; ++i) {
    const auto& symbol = symbols[ELF64_R_SYM(slots[i].r_info)];
    if (std::strcmp(names + symbol.st_name, name) != 0) continue;
    const std::uintptr_t at = library.base + slots[i].r_offset;
    return library.read_only.contains(at) ? nullptr : reinterpret_cast<void**>(at);
  }
  return nullptr;
}

}  // namespace smelt::shims::mpi
