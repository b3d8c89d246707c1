#include "shims/openmp/runtime.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "shims/loaded_objects.hpp"
#include "shims/openmp/bindings.hpp"
#include "shims/openmp/hot_team.hpp"

namespace smelt::shims::openmp {

/// One line of symbols.inc.
struct Symbol {
  const char* name;
  const char* version;
  Family family;
  Kind kind;
};

namespace {

constexpr Symbol symbols[] = {
#define SMELT_GOMP(name, kind) {#name, nullptr, Family::gnu, Kind::kind},
#define SMELT_KMP(name, kind) {#name, nullptr, Family::llvm, Kind::kind},
#define SMELT_OMP_GNU(name, version, kind) {#name, #version, Family::gnu, Kind::kind},
#define SMELT_OMP_LLVM(name, kind) {#name, "VERSION", Family::llvm, Kind::kind},
#include "shims/openmp/symbols.inc"
#undef SMELT_GOMP
#undef SMELT_KMP
#undef SMELT_OMP_GNU
#undef SMELT_OMP_LLVM
    {"__kmpc_fork_call", nullptr, Family::llvm, Kind::alter}};  // of so many arguments that it is passed on

#define SMELT_GOMP(name, kind) #name,
#define SMELT_KMP(name, kind) #name,
#define SMELT_OMP_GNU(name, version, kind) #name,
#define SMELT_OMP_LLVM(name, kind) #name,
#define SMELT_HARMLESS(name) #name,
constexpr const char* known_names[] = {
#include "shims/openmp/symbols.inc"
};

constinit std::atomic<const char*> stopped{nullptr};
constinit std::atomic<std::uint32_t> libraries_unloaded{0};  ///< at least as many times
constinit std::atomic<int> libraries_closing{0};             ///< calls of dlclose under way

}  // namespace

constinit std::atomic<const Runtime*> runtime_detail::globals[2] = {};

extern "C" {
thread_local constinit std::uint32_t smelt_openmp_bound = 0;
}

extern "C" {
/// Where thunks.S finds the originals, once they are known and the same for all callers.
[[gnu::visibility("hidden")]] constinit std::atomic<void*> smelt_openmp_originals[std::size(symbols)] = {};
/// And those of the copies that have stubs, by their number.
constexpr std::size_t most_symbols = 512;  // as in thunks.S
static_assert(std::size(symbols) <= most_symbols);
[[gnu::visibility("hidden")]] constinit std::atomic<void*> smelt_openmp_originals_of_copies[most_copies + 1]
                                                                                           [most_symbols] = {};
}

void stop_hot_teams(const char* why) noexcept {
  const char* none = nullptr;
  stopped.compare_exchange_strong(none, why, std::memory_order_relaxed);
}

const char* hot_teams_stopped() noexcept { return stopped.load(std::memory_order_relaxed); }

namespace {

/// A function of the C library, which the shim defines, too.
void* c_library(const char* name) noexcept {
  for (const char* version : {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"}) {
    if (void* found = dlvsym(RTLD_NEXT, name, version)) return found;
  }
  std::abort();
}

using Dlsym = void* (*)(void*, const char*);
Dlsym c_library_dlsym() noexcept {
  static const auto original = reinterpret_cast<Dlsym>(c_library("dlsym"));
  return original;
}

void* c_library_dlopen() noexcept {
  static void* const original = c_library("dlopen");
  return original;
}

using Dlclose = int (*)(void*);
Dlclose c_library_dlclose() noexcept {
  static const auto original = reinterpret_cast<Dlclose>(c_library("dlclose"));
  return original;
}

}  // namespace

const char* marker(Family family) noexcept { return family == Family::gnu ? "GOMP_parallel" : "__kmpc_fork_call"; }

namespace {

/// Ends the process as the dynamic linker does when a function is in no library.
[[noreturn]] void undefined(const char* name) noexcept {
  std::fprintf(stderr, "%s: symbol lookup error: undefined symbol: %s\n", program_invocation_name, name);
  std::fflush(stderr);
  _exit(127);
}

[[noreturn]] void undefined_function() noexcept { undefined("a function of the OpenMP runtime"); }

// ---- look-up -----------------------------------------------------------------------------------

/// Where the functions of a runtime are looked for: after the shim, or in one library and what it needs.
class SymbolScope {
 public:
  /// The scope of the whole process.
  SymbolScope() = default;

  /// The same, up to a runtime that was there at the start. It is searched in memory: the loader's look-ups take memory
  /// where they find nothing, for which the program's malloc may call the runtime, and forget what dlerror() is to
  /// tell.
  explicit SymbolScope(Family at_start) noexcept : until_(marker(at_start)) {}

  /// The scope of a runtime. Opening it runs its constructors if they have still to run, and those of what it needs:
  /// that is the C library's, in their order. Nothing else may be opened at any time.
  explicit SymbolScope(const link_map& runtime) noexcept {
    if (void* handle = dlopen(runtime.l_name, RTLD_LAZY | RTLD_NOLOAD)) handle_ = handle;
  }

  ~SymbolScope() {
    if (handle_ != RTLD_NEXT) c_library_dlclose()(handle_);
  }
  SymbolScope(const SymbolScope&) = delete;
  SymbolScope& operator=(const SymbolScope&) = delete;

  void* find(const char* name, const char* version = nullptr) const noexcept {
    if (until_ != nullptr) {
      void* const found = in_memory(name, version, true);
      return found != nullptr ? found : defined_after_shim(name, version);
    }
    void* found = version != nullptr ? dlvsym(handle_, name, version) : nullptr;
    return found != nullptr ? found : c_library_dlsym()(handle_, name);
  }

  /// The first definition of the process, be it before the shim.
  void* find_anywhere(const char* name) const noexcept {
    return until_ != nullptr ? in_memory(name, nullptr, false) : c_library_dlsym()(RTLD_DEFAULT, name);
  }

 private:
  /// In that version or in a library without versions; else the first one's default version.
  void* in_memory(const char* name, const char* version, bool after_shim) const noexcept {
    void *found = nullptr, *other = nullptr;
    bool shim_seen = !after_shim;
    LoadedObject::each([&](const LoadedObject& object) {
      if (object.contains(&smelt_openmp_originals)) return shim_seen = true, false;
      if (!shim_seen) return false;
      if (const ElfW(Sym)* const symbol = object.find(name, version)) {
        const char* const its = version != nullptr ? object.version_of(*symbol) : nullptr;
        void*& kept = its == nullptr || std::strcmp(its, version) == 0 ? found : other;
        if (kept == nullptr) kept = object.address_of(*symbol);
      }
      return found != nullptr || object.find(until_) != nullptr;
    });
    return found != nullptr ? found : other;
  }

  void* handle_ = RTLD_NEXT;
  const char* until_ = nullptr;  ///< the function that identifies the runtime
};

}  // namespace

// A look-up that finds nothing takes memory for the message.
void* defined_after_shim(const char* name, const char* version) noexcept {
  return somebody_defines(name) ? SymbolScope().find(name, version) : nullptr;
}

namespace {

// ---- what a runtime can do ----------------------------------------------------------------------

bool is_known(std::string_view name) noexcept {
  // Operations on single variables, and what is not part of the interface.
  for (std::string_view harmless : {"__kmpc_atomic_", "GOMP_PLUGIN_", "GOMP_offload_"}) {
    if (name.starts_with(harmless)) return true;
  }
  static constexpr auto before = [](std::string_view a, std::string_view b) { return a < b; };
  static const auto sorted = [] {
    std::array<std::string_view, std::size(known_names)> names;
    std::copy(std::begin(known_names), std::end(known_names), names.begin());
    std::sort(names.begin(), names.end(), before);
    return names;
  }();
  return std::binary_search(sorted.begin(), sorted.end(), name, before);
}

bool is_interface(std::string_view name) noexcept {
  for (std::string_view prefix : {"GOMP_", "omp_", "__kmpc_", "kmp_", "kmpc_", "ompc_"}) {
    if (name.starts_with(prefix)) return true;
  }
  return false;
}

/// The dynamic symbols of a loaded library, and whether each is a function that it defines, by the GNU hash table,
/// which tells how many there are.
template <class Visit>
void for_each_symbol(const link_map& map, const Visit& visit) noexcept {
  const ElfW(Sym)* table = nullptr;
  const char* strings = nullptr;
  const std::uint32_t* hash = nullptr;
  for (const ElfW(Dyn)* entry = map.l_ld; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_SYMTAB) table = reinterpret_cast<const ElfW(Sym)*>(entry->d_un.d_ptr);
    if (entry->d_tag == DT_STRTAB) strings = reinterpret_cast<const char*>(entry->d_un.d_ptr);
    if (entry->d_tag == DT_GNU_HASH) hash = reinterpret_cast<const std::uint32_t*>(entry->d_un.d_ptr);
  }
  if (table == nullptr || strings == nullptr || hash == nullptr) return;
  const std::uint32_t buckets = hash[0], first = hash[1], bloom_words = hash[2];
  const auto* bucket =
      reinterpret_cast<const std::uint32_t*>(reinterpret_cast<const ElfW(Addr)*>(hash + 4) + bloom_words);
  const std::uint32_t* chain = bucket + buckets;
  for (std::uint32_t b = 0; b < buckets; ++b) {
    for (std::uint32_t i = bucket[b]; i >= first && i != 0; ++i) {
      const bool function = ELF64_ST_TYPE(table[i].st_info) == STT_FUNC;
      visit(strings + table[i].st_name, function && table[i].st_shndx != SHN_UNDEF);
      if ((chain[i - first] & 1) != 0) break;
    }
  }
}

/// Whether the library with `address` has functions of the interface that the shim has never heard of, in words that
/// stay; null: none.
const char* unknown_functions(const void* address) noexcept {
  constexpr std::size_t most_named = 8;
  Dl_info info = {};
  link_map* map = nullptr;
  if (dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0 || map == nullptr)
    return "the runtime's file is not known";
  std::size_t interface = 0, unknown = 0;
  std::string words;
  for_each_symbol(*map, [&](std::string_view name, bool defined) {
    if (!defined || !is_interface(name)) return;
    ++interface;
    if (is_known(name)) return;
    if (++unknown <= most_named) words.append(" ").append(name);
  });
  if (interface == 0) return "the runtime's functions cannot be listed";
  if (unknown == 0) return nullptr;
  words.insert(0, "the runtime has functions that are unknown to smelt:");
  if (unknown > most_named) words += " and " + std::to_string(unknown - most_named) + " more";
  return strdup(words.c_str());  // once per runtime
}

bool same_library(const void* a, const void* b) noexcept {
  Dl_info x = {}, y = {};
  return dladdr(a, &x) != 0 && dladdr(b, &y) != 0 && x.dli_fbase == y.dli_fbase;
}

bool is_true(const char* variable) noexcept {
  const char* value = std::getenv(variable);
  if (value == nullptr) return false;
  value += std::strspn(value, " \t");
  for (const char* yes : {"true", "t", ".true.", ".t.", "1", "yes", "y", "on", "enabled", "verbose"}) {
    const std::size_t length = std::strlen(yes);
    if (strncasecmp(value, yes, length) == 0 && value[length + std::strspn(value + length, " \t")] == '\0') return true;
  }
  return false;
}

bool is_set(const char* variable) noexcept {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

const char* why_no_hot_teams(const Runtime& runtime, const SymbolScope& scope) noexcept {
  const void* entry = scope.find(marker(runtime.family));
  if (entry == nullptr) return "there is no runtime";
  if (scope.find("GOMP_parallel_start") == nullptr || scope.find("GOMP_parallel_end") == nullptr)
    return "the runtime lacks GOMP_parallel_start";
  if (runtime.family == Family::gnu) {
    if (const void* other = scope.find("__kmpc_fork_call"); other != nullptr && same_library(entry, other)) {
      return "LLVM's runtime stands in for libgomp";
    }
  } else {
    const void* tool = scope.find_anywhere("ompt_start_tool");  // it may come before the shim
    if (is_set("OMP_TOOL_LIBRARIES") || (tool != nullptr && !same_library(entry, tool))) return "an OMPT tool is there";
    if (is_set("KMP_CONSISTENCY_CHECK") || is_set("OMP_DEBUG")) return "the runtime checks the program";
    if (is_set("KMP_INHERIT_FP_CONTROL")) return "KMP_INHERIT_FP_CONTROL is set";
  }
  if (is_true("OMP_CANCELLATION")) return "OMP_CANCELLATION=true";
  if (is_true("OMP_DISPLAY_AFFINITY")) return "OMP_DISPLAY_AFFINITY=true";
  for (const char* limit :
       {"OMP_THREAD_LIMIT", "OMP_THREAD_LIMIT_ALL", "KMP_ALL_THREADS", "KMP_MAX_THREADS", "KMP_DEVICE_THREAD_LIMIT"}) {
    if (is_set(limit)) return "the number of threads is limited";
  }
  return unknown_functions(entry);
}

// ---- how threads wait -----------------------------------------------------------------------------

constexpr double at_once = 1e-6;
constexpr double for_ever = -1.0;

/// GOMP_SPINCOUNT: turns of a loop of a few dozen nanoseconds each.
double gnu_awake_s() noexcept {
  constexpr double turn_s = 50e-9;
  if (const char* count = std::getenv("GOMP_SPINCOUNT"); count != nullptr && *count != '\0') {
    if (std::strncmp(count, "INF", 3) == 0 || std::strncmp(count, "inf", 3) == 0) return for_ever;
    char* end = nullptr;
    double turns = std::strtod(count, &end);
    if (*end == 'k' || *end == 'K') turns *= 1e3;
    if (*end == 'm' || *end == 'M') turns *= 1e6;
    if (*end == 'g' || *end == 'G') turns *= 1e9;
    return turns * turn_s > at_once ? turns * turn_s : at_once;
  }
  return 300'000 * turn_s;
}

/// KMP_BLOCKTIME: milliseconds, or with a unit.
double llvm_awake_s() noexcept {
  const char* time = std::getenv("KMP_BLOCKTIME");
  if (time == nullptr || *time == '\0') return 0.2;
  if (std::strncmp(time, "inf", 3) == 0 || std::strncmp(time, "INF", 3) == 0) return for_ever;
  char* end = nullptr;
  const double number = std::strtod(time, &end);
  const double unit = *end == 'u' ? 1e-6 : *end == 's' ? 1.0 : 1e-3;
  return number * unit > at_once ? number * unit : at_once;
}

double awake_s(Family family) noexcept {
  const char* policy = std::getenv("OMP_WAIT_POLICY");
  if (policy == nullptr && family == Family::gnu) policy = std::getenv("OMP_WAIT_POLICY_ALL");
  const bool told = is_set(family == Family::gnu ? "GOMP_SPINCOUNT" : "KMP_BLOCKTIME");
  if (!told && policy != nullptr && strcasecmp(policy, "active") == 0) return for_ever;
  if (!told && policy != nullptr && strcasecmp(policy, "passive") == 0) return at_once;
  return family == Family::gnu ? gnu_awake_s() : llvm_awake_s();
}

// ---- runtimes ---------------------------------------------------------------------------------------

/// The segment with `address`.
Runtime::Code code_around(const void* address) noexcept {
  struct Search {
    std::uintptr_t address;
    Runtime::Code found;
  } search = {reinterpret_cast<std::uintptr_t>(address), {}};
  const auto look = [](dl_phdr_info* info, std::size_t, void* argument) {
    Search& own = *static_cast<Search*>(argument);
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const auto& segment = info->dlpi_phdr[i];
      const std::uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
      if (segment.p_type != PT_LOAD || own.address - begin >= segment.p_memsz) continue;
      own.found = {begin, begin + segment.p_memsz};
      return 1;
    }
    return 0;
  };
  dl_iterate_phdr(look, &search);
  return search.found;
}

/// How many libraries the process has unloaded; most calls of dlclose only count down.
unsigned long long count_unloaded() noexcept {
  unsigned long long count = 0;
  const auto look = [](dl_phdr_info* info, std::size_t, void* argument) {
    *static_cast<unsigned long long*>(argument) = info->dlpi_subs;
    return 1;
  };
  dl_iterate_phdr(look, &count);
  return count;
}

const link_map* library_with(const void* address) noexcept {
  Dl_info info = {};
  link_map* map = nullptr;
  return dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) != 0 ? map : nullptr;
}

Runtime find_runtime(Family family, const SymbolScope& scope, bool global) noexcept {
  Runtime found = {};
  const bool gnu = family == Family::gnu;
  const auto get = [&](auto& function, const char* name, const char* version = nullptr) {
    using Function = std::remove_reference_t<decltype(function)>;
    void* const original = scope.find(name, version);
    function =
        original != nullptr ? reinterpret_cast<Function>(original) : reinterpret_cast<Function>(&undefined_function);
  };
  // libgomp has none of these.
  const auto get_kmp = [&](auto& function, const char* name) {
    if (gnu) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(&undefined_function);
    } else {
      get(function, name);
    }
  };
  const auto get_routine = [&](auto& function, const char* name, const char* version) {
    get(function, name, gnu ? version : "VERSION");
  };
  get_routine(found.get_thread_num, "omp_get_thread_num", "OMP_1.0");
  get_routine(found.get_num_threads, "omp_get_num_threads", "OMP_1.0");
  get_routine(found.get_max_threads, "omp_get_max_threads", "OMP_1.0");
  get_routine(found.get_level, "omp_get_level", "OMP_3.0");
  get_routine(found.get_active_level, "omp_get_active_level", "OMP_3.0");
  get_routine(found.in_parallel, "omp_in_parallel", "OMP_1.0");
  get_routine(found.get_dynamic, "omp_get_dynamic", "OMP_1.0");
  get_routine(found.get_num_procs, "omp_get_num_procs", "OMP_1.0");
  get_routine(found.set_num_threads, "omp_set_num_threads", "OMP_1.0");
  get(found.parallel_start, "GOMP_parallel_start", gnu ? nullptr : "VERSION");
  get(found.parallel_end, "GOMP_parallel_end", gnu ? nullptr : "VERSION");
  get(found.parallel, "GOMP_parallel");
  get(found.barrier, "GOMP_barrier");
  get(found.loop_start, "GOMP_loop_start");
  get(found.loop_end, "GOMP_loop_end");
  get(found.loop_end_nowait, "GOMP_loop_end_nowait");
  get(found.sections_start, "GOMP_sections_start");
  get(found.sections_next, "GOMP_sections_next");
  get(found.sections_end, "GOMP_sections_end");
  get(found.sections_end_nowait, "GOMP_sections_end_nowait");
  get(found.single_start, "GOMP_single_start");
  get(found.single_copy_start, "GOMP_single_copy_start");
  get(found.single_copy_end, "GOMP_single_copy_end");
  get(found.parallel_sections, "GOMP_parallel_sections");
  get(found.parallel_loop_static, "GOMP_parallel_loop_static");
  get(found.parallel_loop_dynamic, "GOMP_parallel_loop_dynamic");
  get(found.parallel_loop_guided, "GOMP_parallel_loop_guided");
  get(found.parallel_loop_nonmonotonic_dynamic, "GOMP_parallel_loop_nonmonotonic_dynamic");
  get(found.parallel_loop_nonmonotonic_guided, "GOMP_parallel_loop_nonmonotonic_guided");
  get(found.parallel_loop_runtime, "GOMP_parallel_loop_runtime");
  get(found.parallel_loop_nonmonotonic_runtime, "GOMP_parallel_loop_nonmonotonic_runtime");
  get(found.parallel_loop_maybe_nonmonotonic_runtime, "GOMP_parallel_loop_maybe_nonmonotonic_runtime");
  get_kmp(found.fork_call, "__kmpc_fork_call");
  get_kmp(found.fork_call_if, "__kmpc_fork_call_if");
  get_kmp(found.push_num_threads, "__kmpc_push_num_threads");
  get_kmp(found.push_proc_bind, "__kmpc_push_proc_bind");
  get_kmp(found.global_thread_num, "__kmpc_global_thread_num");
  get_kmp(found.kmp_barrier, "__kmpc_barrier");
  get_kmp(found.single, "__kmpc_single");
  get_kmp(found.end_single, "__kmpc_end_single");
  get_kmp(found.copyprivate, "__kmpc_copyprivate");
  get_kmp(found.copyprivate_light, "__kmpc_copyprivate_light");
  get_kmp(found.reduce, "__kmpc_reduce");
  get_kmp(found.reduce_nowait, "__kmpc_reduce_nowait");
  get_kmp(found.end_reduce, "__kmpc_end_reduce");
  get_kmp(found.end_reduce_nowait, "__kmpc_end_reduce_nowait");
  get_kmp(found.static_init_4, "__kmpc_for_static_init_4");
  get_kmp(found.static_init_4u, "__kmpc_for_static_init_4u");
  get_kmp(found.static_init_8, "__kmpc_for_static_init_8");
  get_kmp(found.static_init_8u, "__kmpc_for_static_init_8u");
  get_kmp(found.serialized_parallel, "__kmpc_serialized_parallel");
  get_kmp(found.end_serialized_parallel, "__kmpc_end_serialized_parallel");
  found.family = family;
  found.global = global;
  if (const void* entry = scope.find(marker(family))) found.library = library_with(entry);
  found.own_reductions = !is_set("KMP_FORCE_REDUCTION") && !is_set("KMP_DETERMINISTIC_REDUCTION");
  found.usual_blocks = !is_set("KMP_SCHEDULE");
  found.awake_s = awake_s(family);
  found.code = code_around(scope.find(marker(family)));
  found.shim = code_around(reinterpret_cast<const void*>(&stop_hot_teams));
  found.no_hot_teams = switched_off("SMELT_OPENMP") ? "SMELT_OPENMP=0" : why_no_hot_teams(found, scope);
  return found;
}

/// A runtime that is private to libraries, by where its main function is.
struct PrivateRuntime : Runtime {
  const void* marker;
  const PrivateRuntime* next;
  mutable std::atomic<void*> originals[std::size(symbols)];  ///< as far as they have been asked for
};

constinit std::mutex copies_mutex;
constinit std::atomic<const PrivateRuntime*> newest_copy{nullptr};
constinit const PrivateRuntime* copies[most_copies + 1] =
    {};  ///< by number, written before a stub with that number is handed out
constinit int copy_count = 0;

/// Workers of a runtime wait in its code between regions: it stays loaded.
void keep_loaded(const void* inside) noexcept {
  Dl_info info = {};
  if (dladdr(inside, &info) != 0) dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

/// Those that are known.
const PrivateRuntime* known_copy(Family family, const void* main_function, const PrivateRuntime* from) noexcept {
  for (const PrivateRuntime* each = from; each != nullptr; each = each->next) {
    if (each->marker == main_function && each->family == family) return each;
  }
  return nullptr;
}

/// The copy whose main function this is. Null: that of those for whom there is none.
const PrivateRuntime* copy_at(Family family, const void* main_function) noexcept {
  // Acquire: partner the release below.
  const PrivateRuntime* known = newest_copy.load(std::memory_order_acquire);
  if ((known = known_copy(family, main_function, known)) != nullptr) return known;
  if (main_function != nullptr) keep_loaded(main_function);
  const link_map* const library = main_function != nullptr ? library_with(main_function) : nullptr;
  // Not under the lock: the loader has one of its own, under which constructors come here.
  auto* const made =
      library != nullptr
          ? new PrivateRuntime{{find_runtime(family, SymbolScope(*library), false)}, main_function, nullptr, {}}
          : new PrivateRuntime{{find_runtime(family, SymbolScope(), false)}, main_function, nullptr, {}};
  const std::lock_guard lock(copies_mutex);
  const PrivateRuntime* const first = newest_copy.load(std::memory_order_relaxed);
  if ((known = known_copy(family, main_function, first)) != nullptr) {
    delete made;
    return known;
  }
  made->next = first;
  if (main_function != nullptr && copy_count < most_copies) copies[made->copy = ++copy_count] = made;
  newest_copy.store(made, std::memory_order_release);
  return made;
}

const PrivateRuntime* find_private(Family family, const void* caller) noexcept {
  bind_new_libraries();
  const void* const everybodys = defined_after_shim(marker(family));
  if (const void* const found = runtime_for(caller, family, everybodys)) return copy_at(family, found);
  if (everybodys != nullptr) return copy_at(family, everybodys);
  // A runtime that calls itself on behalf of the shim.
  if (smelt_openmp_state != outside && self.hot_team->runtime->family == family) {
    return static_cast<const PrivateRuntime*>(self.hot_team->runtime);
  }
  // Code in no library, made at run time or called by such code: of one that is there.
  for (const PrivateRuntime* each = newest_copy.load(std::memory_order_acquire); each != nullptr; each = each->next) {
    if (each->family == family && each->marker != nullptr) return each;
  }
  return copy_at(family, nullptr);
}

}  // namespace

bool there_at_start(Family family) noexcept {
  static const bool there[] = {somebody_defines(marker(Family::gnu)), somebody_defines(marker(Family::llvm))};
  return there[static_cast<int>(family)];
}

int copy_with(Family family, const void* main_function) noexcept { return copy_at(family, main_function)->copy; }

namespace {

const Runtime* global_runtime(Family family) noexcept {
  auto& slot = runtime_detail::globals[static_cast<int>(family)];
  // Acquire: partner the release below.
  if (const Runtime* runtime = slot.load(std::memory_order_acquire)) return runtime;
  if (!there_at_start(family)) return nullptr;
  // Not from malloc, which may be the program's, and what asks.
  void* const memory = mmap(nullptr, sizeof(Runtime), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  auto* const made = new (memory) Runtime(find_runtime(family, SymbolScope(family), true));
  // LLVM's, standing in for libgomp, calls itself by its own names in any thread: also in one of a region within a
  // constructor, which must not look them up, as the region's master holds the loader's lock and waits for it.
  if (family == Family::gnu && there_at_start(Family::llvm) &&
      made->library == library_with(SymbolScope(Family::llvm).find(marker(Family::llvm)))) {
    global_runtime(Family::llvm);
  }
  const Runtime* first = nullptr;
  if (slot.compare_exchange_strong(first, made, std::memory_order_acq_rel)) return made;
  munmap(memory, sizeof(Runtime));
  return first;
}

}  // namespace

namespace {

/// The private runtimes of the libraries that a thread's calls came from: programs of many libraries (Python with its
/// modules) call from one after the other. Good until a library is unloaded.
class CallerCache {
 public:
  const PrivateRuntime* find(const void* caller) const noexcept {
    // Acquire: partner dlclose(). Who calls from a library that was loaded in the place of another sees that the one
    // was unloaded, or that it is being closed.
    if (libraries_closing.load(std::memory_order_acquire) != 0) return nullptr;
    if (unloaded_ != libraries_unloaded.load(std::memory_order_relaxed)) return nullptr;
    const auto address = reinterpret_cast<std::uintptr_t>(caller);
    for (const auto& [library, runtime] : entries_) {
      if (address - library.begin < library.end - library.begin) return runtime;
    }
    return nullptr;
  }

  /// `unloaded`: libraries_unloaded before the runtime was looked for.
  void remember(const void* caller, const PrivateRuntime* runtime, std::uint32_t unloaded) noexcept {
    if (unloaded_ != unloaded) *this = {};
    unloaded_ = unloaded;
    entries_[next_++ % std::size(entries_)] = {code_around(caller), runtime};
  }

 private:
  struct InterceptedFunction {
    Runtime::Code library;
    const PrivateRuntime* runtime = nullptr;
  };
  InterceptedFunction entries_[16] = {};
  std::uint32_t next_ = 0;
  std::uint32_t unloaded_ = 0;
};
thread_local constinit CallerCache callers[2];

}  // namespace

const Runtime& runtime_detail::of_copy(Family family, std::uint32_t copy) noexcept {
  // The two families of one library have a copy each; libraries import from one of them.
  static_cast<void>(family);
  return *copies[copy];
}

namespace {
/// Libraries that were there before the program: those that only ask whether a function is there are told the truth.
[[gnu::constructor]] void bind_first_libraries() noexcept {
  c_library_dlsym();
  c_library_dlopen();
  c_library_dlclose();
  there_at_start(Family::gnu);
  bind_new_libraries();
}
}  // namespace

const Runtime& runtime_detail::look_up(Family family, const void* caller) noexcept {
  CallerCache& known = callers[static_cast<int>(family)];
  if (const PrivateRuntime* found = known.find(caller)) return *found;
  if (const Runtime* global = global_runtime(family)) return *global;
  const auto unloaded = libraries_unloaded.load(std::memory_order_relaxed);
  const PrivateRuntime* found = find_private(family, caller);
  known.remember(caller, found, unloaded);
  return *found;
}

// ---- entry points of thunks.S -------------------------------------------------------------------------

namespace {

/// LLVM's: the number of threads that the shim has taken note of.
void push_requested(const Runtime& below) noexcept {
  const int threads = std::exchange(self.requested, 0);
  if (threads != 0) below.push_num_threads(nullptr, below.global_thread_num(nullptr), threads);
  self.left = nullptr;
}

void prepare(const Symbol& symbol, const Runtime& below) noexcept {
  if (symbol.kind == Kind::stop) stop_hot_teams("teams, target or tools are used");
  dissolve(symbol.name);
  if (symbol.kind == Kind::alter || symbol.kind == Kind::task || symbol.kind == Kind::stop) call_off();
  if (symbol.kind == Kind::push) self.left = "several or strict num_threads";
  if (&symbol == std::end(symbols) - 1) push_requested(below);
}

}  // namespace

void* Runtime::find(const char* name, const char* version) const noexcept {
  if (global) return SymbolScope(family).find(name, version);
  if (library == nullptr) return SymbolScope().find(name, version);
  // In memory first: in a region within a library's constructor, the master holds the loader's lock and waits for the
  // thread that asks, which must not wait for that lock.
  const LoadedObject object = LoadedObject::with(reinterpret_cast<const void*>(code.begin));
  if (const ElfW(Sym)* const symbol = object.find(name, version)) return object.address_of(*symbol);
  return SymbolScope(*static_cast<const link_map*>(library)).find(name, version);
}

extern "C" {

/// Does what the function asks for and returns its original.
[[gnu::visibility("hidden")]] void* smelt_openmp_before(std::uint32_t index, const void* caller) noexcept {
  const Symbol& symbol = symbols[index];
  const Runtime& below = runtime(symbol.family, caller);
  if (!below.calls_itself(caller)) prepare(symbol, below);
  auto& slot = smelt_openmp_originals[index];
  if (void* known = slot.load(std::memory_order_relaxed)) return known;
  auto* own = below.global ? nullptr : &static_cast<const PrivateRuntime&>(below).originals[index];
  if (void* known = own != nullptr ? own->load(std::memory_order_relaxed) : nullptr) return known;
  void* const original = below.find(symbol.name, symbol.version);
  if (original == nullptr) undefined(symbol.name);
  (below.global ? slot : *own).store(original, std::memory_order_relaxed);
  if (below.copy != 0) smelt_openmp_originals_of_copies[below.copy][index].store(original, std::memory_order_relaxed);
  return original;
}

/// Looks up what a program asks of one library. Returns what the program gets instead of the C library's answer; null:
/// that one is right.
void* look_up_for(void* handle, const char* name) noexcept {
  void* const original = c_library_dlsym()(handle, name);
  const link_map* const library = original != nullptr ? library_with(original) : nullptr;
  if (library == nullptr || library == library_with(reinterpret_cast<void*>(&copy_at))) return nullptr;
  const LoadedObject runtime = LoadedObject::with(original);
  const bool llvm = runtime.find(marker(Family::llvm)) != nullptr;
  const Family family = llvm ? Family::llvm : Family::gnu;
  const ElfW(Sym)* const found = runtime.find(marker(family));
  if (found == nullptr) return nullptr;
  if (!there_at_start(family)) {
    const PrivateRuntime& copy = *copy_at(family, runtime.address_of(*found));
    if (void* const stub = copy.copy != 0 ? stub_of(copy.copy, name, !llvm) : nullptr) return stub;
    if (is_known(name)) return nullptr;
  }
  stop_hot_teams("a function was looked up in the runtime itself");
  dissolve("a function was looked up in the runtime itself");
  return nullptr;
}

thread_local constinit void* looked_up = nullptr;
void* answer_looked_up(void*, const char*) noexcept { return looked_up; }

/// As the C library says that there is none.
void* answer_nothing(void*, const char* name) noexcept { return c_library_dlsym()(RTLD_NEXT, name); }

/// Whether somebody who asks for any definition would find none but the shim's.
bool nobody_has(const char* name) noexcept {
  if (stub_of(1, name, true) == nullptr && stub_of(1, name, false) == nullptr) return false;
  if (!somebody_defines(name)) return true;
  if (there_at_start(Family::gnu) || there_at_start(Family::llvm)) return false;
  return SymbolScope().find(name) == nullptr && c_library_dlsym()(RTLD_NEXT, name) == nullptr;
}

/// Who looks functions up past the shim gets those that the shim has for that copy. Returns who is to answer: the C
/// library's dlsym, but for that.
[[gnu::visibility("hidden")]] void* smelt_openmp_looked_up(void* handle, const char* name) noexcept {
  bind_new_libraries();
  auto* const c_library = reinterpret_cast<void*>(c_library_dlsym());
  if (handle == RTLD_NEXT || name == nullptr || !is_interface(name)) return c_library;
  if (handle == RTLD_DEFAULT) return nobody_has(name) ? reinterpret_cast<void*>(&answer_nothing) : c_library;
  looked_up = look_up_for(handle, name);
  return looked_up != nullptr ? reinterpret_cast<void*>(&answer_looked_up) : c_library;
}

/// Who opens a library that will go past the shim is in no hot team while its constructors run, and until it is bound.
/// Returns the C library's dlopen.
[[gnu::visibility("hidden")]] void* smelt_openmp_opened(const char*, int mode) noexcept {
  if ((mode & RTLD_DEEPBIND) != 0) {
    dissolve("a library is opened with RTLD_DEEPBIND");
    expect_library_past_shim();
  }
  return c_library_dlopen();
}

/// Destructors of a library may do anything.
[[gnu::visibility("default")]] int dlclose(void* handle) noexcept {
  dissolve("dlclose");
  libraries_closing.fetch_add(1, std::memory_order_relaxed);
  const auto before = count_unloaded();
  const int result = c_library_dlclose()(handle);
  if (count_unloaded() != before) libraries_unloaded.fetch_add(1, std::memory_order_relaxed);
  // Release: partner CallerCache::find(). What is loaded in the place of this library is loaded after the addition
  // above.
  libraries_closing.fetch_sub(1, std::memory_order_release);
  return result;
}

}  // extern "C"

}  // namespace smelt::shims::openmp
