// Visible symbols. A program may test (by a weak reference or dlsym) which functions exist, so it must not find
// functions that its library lacks. The shim changes its own symbol table in memory:
//
//   no MPI library in the process when the shim is loaded    only MPI_Init and MPI_Init_thread are visible
//   the program's library is known                           the functions of that library are visible
//
// Users of a library that is loaded later are bound to it by then, so their slots (../loaded_objects.hpp) are
// redirected.
#include "shims/mpi/dispatch.hpp"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <mutex>

#include "shims/report.hpp"

// Entry points. They preserve all registers that carry arguments, so they do not depend on signatures, which differ
// between ABIs. The index of a slot is twice that of the Function, plus one for PMPI_X.
#define SMELT_MPI_ENTRIES(name, ...) "  smelt_mpi_entry MPI_" #name "\n  smelt_mpi_entry PMPI_" #name "\n"
#define SMELT_MPI_ENTRIES_OF_OLD(name, ...) "  smelt_mpi_entry MPIX_" #name "\n  smelt_mpi_entry PMPIX_" #name "\n"

asm(R"(
  .text
  .set smelt_mpi_index, 0
  .pushsection .data.smelt_mpi_slots, "aw"
  .p2align 6
  .globl smelt_mpi_slots
  .hidden smelt_mpi_slots
smelt_mpi_slots:
  .popsection
)"
#if defined(__x86_64__)
    R"(
.macro smelt_mpi_entry name
  .p2align 4
  .globl \name
  .type \name, @function
\name:
  endbr64
  jmp *smelt_mpi_slots+8*smelt_mpi_index(%rip)
1:
  movl $smelt_mpi_index, %r11d
  jmp smelt_mpi_look
  .size \name, . - \name
  .pushsection .data.smelt_mpi_slots, "aw"
  .quad 1b
  .popsection
  .set smelt_mpi_index, smelt_mpi_index + 1
.endm

  .type smelt_mpi_look, @function
smelt_mpi_look:
  .cfi_startproc
  pushq %rbp
  .cfi_adjust_cfa_offset 8
  movq %rsp, %rbp
  .cfi_def_cfa_register %rbp
  subq $48, %rsp
  movq %rdi, -8(%rbp)
  movq %rsi, -16(%rbp)
  movq %rdx, -24(%rbp)
  movq %rcx, -32(%rbp)
  movq %r8, -40(%rbp)
  movq %r9, -48(%rbp)
  movl %r11d, %edi
  movq 8(%rbp), %rsi
  call smelt_mpi_target
  movq -8(%rbp), %rdi
  movq -16(%rbp), %rsi
  movq -24(%rbp), %rdx
  movq -32(%rbp), %rcx
  movq -40(%rbp), %r8
  movq -48(%rbp), %r9
  leave
  .cfi_def_cfa %rsp, 8
  jmp *%rax
  .cfi_endproc
  .size smelt_mpi_look, . - smelt_mpi_look
)"
#elif defined(__aarch64__)
    R"(
.macro smelt_mpi_entry name
  .p2align 4
  .globl \name
  .type \name, %function
\name:
  hint #34
  adrp x16, smelt_mpi_slots+8*smelt_mpi_index
  ldr x16, [x16, :lo12:smelt_mpi_slots+8*smelt_mpi_index]
  br x16
1:
  hint #34
  mov w17, #smelt_mpi_index
  b smelt_mpi_look
  .size \name, . - \name
  .pushsection .data.smelt_mpi_slots, "aw"
  .xword 1b
  .popsection
  .set smelt_mpi_index, smelt_mpi_index + 1
.endm

  .type smelt_mpi_look, %function
smelt_mpi_look:
  .cfi_startproc
  stp x29, x30, [sp, #-96]!
  .cfi_def_cfa_offset 96
  .cfi_offset 29, -96
  .cfi_offset 30, -88
  mov x29, sp
  stp x0, x1, [sp, #16]
  stp x2, x3, [sp, #32]
  stp x4, x5, [sp, #48]
  stp x6, x7, [sp, #64]
  str x8, [sp, #80]
  mov w0, w17
  mov x1, x30
  bl smelt_mpi_target
  mov x16, x0
  ldp x0, x1, [sp, #16]
  ldp x2, x3, [sp, #32]
  ldp x4, x5, [sp, #48]
  ldp x6, x7, [sp, #64]
  ldr x8, [sp, #80]
  ldp x29, x30, [sp], #96
  .cfi_restore 30
  .cfi_restore 29
  .cfi_def_cfa_offset 0
  br x16
  .cfi_endproc
  .size smelt_mpi_look, . - smelt_mpi_look
)"
#endif
    SMELT_MPI_SERVED(SMELT_MPI_ENTRIES) SMELT_MPI_BEGINNING(SMELT_MPI_ENTRIES)
        SMELT_MPI_PERSISTENT_OF_OLD(SMELT_MPI_ENTRIES_OF_OLD));

extern "C" [[gnu::visibility("hidden")]] void* smelt_mpi_slots[2 * smelt::shims::mpi::functions];

namespace smelt::shims::mpi {
namespace {

constexpr unsigned entries = 2 * functions;

/// PMPI names by Function. The MPI name is the same without its first letter.
constexpr const char* names[] = {
#define SMELT_MPI_NAME(name, ...) "PMPI_" #name,
    SMELT_MPI_SERVED(SMELT_MPI_NAME) SMELT_MPI_BEGINNING(SMELT_MPI_NAME)
#undef SMELT_MPI_NAME
#define SMELT_MPI_NAME(name, ...) "PMPIX_" #name,
        SMELT_MPI_PERSISTENT_OF_OLD(SMELT_MPI_NAME)
#undef SMELT_MPI_NAME
};
static_assert(std::size(names) == functions);

const char* name_of(unsigned entry) noexcept { return names[entry / 2] + 1 - entry % 2; }

/// `entries` if it is none.
unsigned entry_of(const char* name) noexcept {
  const bool of_tools = name[0] == 'P';
  if (std::strncmp(name + of_tools, "MPI", 3) != 0) return entries;
  for (unsigned i = of_tools ? 1 : 0; i < entries; i += 2) {
    if (std::strcmp(name_of(i), name) == 0) return i;
  }
  return entries;
}

/// Functions that reveal which library the program uses. Their calls are always inspected.
bool begins(unsigned entry) noexcept {
  const auto function = static_cast<Function>(entry / 2);
  return function == Function::Init || function == Function::Init_thread;
}

const LoadedObject& own() noexcept {
  static const LoadedObject object = LoadedObject::with(&smelt_mpi_slots);
  return object;
}

// ---- libraries ----------------------------------------------------------------------------------

bool is_mpi(const LoadedObject& object) noexcept {
  return object.find("PMPI_Init") != nullptr && object.find("PMPI_Comm_rank") != nullptr && object != own();
}

Library library_of(const LoadedObject& object) noexcept {
  if (!object || !is_mpi(object)) return {};
  return {object, dlopen(object.file(), RTLD_LAZY | RTLD_NOLOAD)};
}

/// The library that a look-up through `handle` finds.
Library library_by(void* handle) noexcept {
  const void* const found = dlsym(handle, "PMPI_Init");
  return found != nullptr ? library_of(LoadedObject::with(found)) : Library{};
}

Library only_library() noexcept {
  LoadedObject found;
  int number = 0;
  LoadedObject::each([&](const LoadedObject& object) {
    if (!is_mpi(object)) return false;
    found = object;
    return ++number > 1;
  });
  return number == 1 ? library_of(found) : Library{};
}

/// The library that calls from `caller` would reach without the shim.
Library home_of(const void* caller) noexcept {
  const LoadedObject object = LoadedObject::with(caller);
  if (const Library itself = library_of(object)) return itself;
  if (const Library global = library_by(RTLD_NEXT)) return global;
  if (object && *object.file() != '\0') {
    if (void* const handle = dlopen(object.file(), RTLD_LAZY | RTLD_NOLOAD)) {
      const Library brought = library_by(handle);
      dlclose(handle);
      if (brought) return brought;
    }
  }
  return only_library();
}

using AbiMember = const Abi* Abis::*;

/// The ABI of a library, by its symbols; null if unknown.
AbiMember recognise(const Library& library) noexcept {
  const auto defines = [&](const char* name) { return library.object.find(name) != nullptr; };
  if (defines("MPI_Abi_get_version")) {  // of MPI 5; with another ABI the version is -1
    const auto version = reinterpret_cast<int (*)(int*, int*)>(library.find("MPI_Abi_get_version"));
    int major = -1, minor = -1;
    if (version(&major, &minor) == 0 && major > 0) return major == 1 ? &Abis::standard : nullptr;
  }
  if (defines("ompi_mpi_comm_world") && defines("ompi_request_null")) return &Abis::openmpi;
  if (defines("MPIR_Dup_fn")) return &Abis::mpich;  // MPI_DUP_FN of programs in C
  return nullptr;
}

// ---- where calls go -----------------------------------------------------------------------------

constinit std::mutex set_up;
// Guarded by `set_up`, except for `targets`, which other threads read once `served` is set.
constinit Library served;
constinit bool several = false;  ///< the process uses more than one library
constinit void* tools[entries] = {};
constinit std::atomic<void*> targets[entries] = {};
constinit void* to_look[entries] = {};  ///< what slots contain to begin with

void set_slot(unsigned entry, void* to) noexcept {
  __atomic_store_n(&smelt_mpi_slots[entry], to, __ATOMIC_RELAXED);  // what `to` uses has been written: see the lock
}

/// A tool that was loaded after the shim, to which calls of MPI_X go instead of the library.
void* tool_for(const Library& library, const char* name) noexcept {
  void* const next = dlsym(RTLD_NEXT, name);
  return next == nullptr || library.object.contains(next) ||
                 LoadedObject::with(next) == LoadedObject::with(library.find(name))
             ? nullptr
             : next;
}

void find_tools(const Library& library) noexcept {
  for (unsigned i = 0; i < entries; i += 2) tools[i] = tool_for(library, name_of(i));
}

/// The library's own functions, or a tool's.
void pass_on(const Library& library) noexcept {
  for (unsigned i = 0; i < entries; ++i) {
    targets[i] = tools[i] != nullptr ? tools[i] : library.find(name_of(i));
  }
}

/// A Direct.
void direct(Function function, void* to) noexcept {
  const unsigned entry = 2 * static_cast<unsigned>(function);
  targets[entry] = tools[entry] != nullptr ? tools[entry] : to;
  targets[entry + 1] = to;
  if (!served || several) return;
  set_slot(entry, targets[entry]);
  set_slot(entry + 1, to);
}

void serve(const Library& library, const Abi& abi) noexcept {
  for (unsigned f = 0; f < functions; ++f) {
    if (abi.serve[f] != nullptr && library.find(names[f]) != nullptr) direct(static_cast<Function>(f), abi.serve[f]);
  }
}

// ---- what is to be seen -------------------------------------------------------------------------

constinit ElfW(Addr) shown[entries] = {};  ///< the value of each symbol, once one has been hidden

void hide_and_show(bool (*there)(unsigned entry, const LoadedObject& library), const LoadedObject& library) noexcept {
  own().change_symbols([&](const char* name, ElfW(Sym) & symbol) {
    const unsigned entry = entry_of(name);
    if (entry == entries) return;
    if (shown[entry] == 0) shown[entry] = symbol.st_value;
    __atomic_store_n(&symbol.st_value, there(entry, library) ? shown[entry] : 0, __ATOMIC_RELAXED);
  });
}

bool library_has(unsigned entry, const LoadedObject& library) noexcept {
  return library.find(name_of(entry)) != nullptr;
}

void* entry_point(unsigned entry) noexcept {
  ElfW(Sym) symbol = {};
  symbol.st_value = shown[entry];
  return own().address_of(symbol);
}

/// Visits the slots of other files that contain addresses in `target`.
template <class Visit>
void references_to(const LoadedObject& target, Visit visit) noexcept {
  LoadedObject::each([&](const LoadedObject& object) {
    if (!object || object == own()) return false;
    object.references([&](void** slot) { return target.contains(*slot); },
                      [&](const LoadedObject::SymbolReference& each) {
                        visit(object, entry_of(each.name), each.slot, each.is_weak());
                      });
    return false;
  });
}

/// Redirects references that were bound to the library to the shim.
void redirect(const Library& library) noexcept {
  references_to(library.object, [&](const LoadedObject& by, unsigned entry, void** slot, bool) {
    if (entry != entries && *slot == library.find(name_of(entry))) by.write(slot, entry_point(entry));
  });
}

/// Resets weak references to functions that the library lacks, or to any function if there is no library. They were
/// bound to the shim before it knew.
void clear_weak_references(bool (*there)(unsigned entry, const LoadedObject& library),
                           const LoadedObject& library) noexcept {
  references_to(own(), [&](const LoadedObject& by, unsigned entry, void** slot, bool weak) {
    if (weak && entry != entries && !there(entry, library)) by.write(slot, nullptr);
  });
}

constinit bool loaded_later = false;  ///< the library; written before any other thread, and under `set_up`

[[gnu::constructor]] void see_what_there_is() noexcept {
  for (unsigned i = 0; i < entries; ++i) to_look[i] = smelt_mpi_slots[i];
  LoadedObject library;
  LoadedObject::each([&](const LoadedObject& object) {
    if (is_mpi(object)) library = object;
    return static_cast<bool>(library);
  });
  loaded_later = !library;
  const auto there = loaded_later ? [](unsigned entry, const LoadedObject&) { return begins(entry); } : library_has;
  hide_and_show(there, library);
  clear_weak_references(there, library);
}

// ---- the first call -----------------------------------------------------------------------------

void say(const Library& library, const char* what) noexcept {
  if (verbose()) std::fprintf(stderr, "smelt: mpi: %s: %s\n", library.object.file(), what);
}

/// Loads the serving library from this library's directory, or from where the loader finds it. Null if it cannot be
/// loaded.
const Abis* load_abis() noexcept {
  constexpr const char* file = "libsmelt_mpi_serve.so";
  char beside[PATH_MAX];
  const char* const here = own().file();
  const char* const slash = std::strrchr(here, '/');
  void* loaded = nullptr;
  if (slash != nullptr) {
    std::snprintf(beside, sizeof beside, "%.*s/%s", static_cast<int>(slash - here), here, file);
    loaded = dlopen(beside, RTLD_NOW | RTLD_LOCAL);
  }
  if (loaded == nullptr) loaded = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  return loaded != nullptr ? static_cast<const Abis*>(dlsym(loaded, "smelt_mpi_abis")) : nullptr;
}

/// Requires the lock.
void take(const Library& library) noexcept {
  find_tools(library);
  pass_on(library);
  const AbiMember known = recognise(library);
  const Abis* const abis = known != nullptr ? load_abis() : nullptr;
  if (known == nullptr) {
    say(library, "left alone: none of the ABIs that smelt knows");
  } else if (abis == nullptr) {
    say(library, "left alone: libsmelt_mpi_serve.so cannot be loaded");
  } else if (!(abis->*known)->take(library, direct)) {
    pass_on(library);
    say(library, "left alone: functions of MPI 3.1 are missing");
  } else {
    serve(library, *(abis->*known));
    if (loaded_later) {
      hide_and_show(library_has, library.object);
      redirect(library);
    }
  }
  served = library;
  for (unsigned i = 0; i < entries; ++i) {
    if (!begins(i) && targets[i] != nullptr) set_slot(i, targets[i]);
  }
}

/// Requires the lock. From now on the library of each call is determined.
void look_at_each_call(const Library& other) noexcept {
  if (several) return;
  several = true;
  say(other, "left alone: a second MPI library in one process");
  for (unsigned i = 0; i < entries; ++i) set_slot(i, to_look[i]);
}

/// Ends the process as the dynamic loader does for an undefined function.
[[noreturn]] void absent(unsigned entry) noexcept {
  std::fprintf(stderr, "%s: symbol lookup error: undefined symbol: %s\n", program_invocation_name, name_of(entry));
  _exit(127);
}

void* target_of(unsigned entry, const Library& home) noexcept {
  const std::lock_guard lock(set_up);
  if (!served && home) take(home);
  if (!home || home.object == served.object) return targets[entry];
  look_at_each_call(home);
  return home.find(name_of(entry));
}

}  // namespace

/// Target of calls whose slot is not set yet.
extern "C" [[gnu::visibility("hidden"), gnu::used]] void* smelt_mpi_target(unsigned entry,
                                                                           const void* caller) noexcept {
  const int error = errno;
  void* const target = target_of(entry, home_of(caller));
  if (target == nullptr) absent(entry);
  errno = error;
  return target;
}

}  // namespace smelt::shims::mpi
