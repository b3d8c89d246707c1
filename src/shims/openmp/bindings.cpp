#include "shims/openmp/bindings.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string_view>
#include <utility>

#include "shims/loaded_objects.hpp"

namespace smelt::shims::openmp {

extern "C" {
/// The targets of the stubs, by the number of the entry.
[[gnu::visibility("hidden")]] constinit std::uintptr_t smelt_openmp_targets[most_entries] = {};
[[gnu::visibility("hidden")]] extern const char smelt_openmp_stubs[];
}

namespace {

/// Calls work() once while no library is loaded or unloaded, and no other thread does the same. work() may call
/// LoadedObject::each, but no function of the loader.
template <class Work>
void while_libraries_stay(const Work& work) noexcept {
  LoadedObject::each([&](const LoadedObject&) {
    work();
    return true;
  });
}

const LoadedObject& own() noexcept {
  static const LoadedObject object = LoadedObject::with(smelt_openmp_stubs);
  return object;
}

// ---- the entries of the shim -------------------------------------------------------------------------

struct InterceptedFunction {
  std::string_view name;
  void* address = nullptr;
  Family family = Family::gnu;
  const char* version = nullptr;  ///< null: any

  bool serves(const char* needed) const noexcept {
    return version == nullptr || needed == nullptr || std::strcmp(version, needed) == 0;
  }
};
// Filled once, while no library is loaded or unloaded.
constinit InterceptedFunction entries[most_entries] = {};
constinit int entry_count = 0;

/// Most names of a process are long, and are not: their ends are not looked for.
bool is_function_of_runtimes(const char* name) noexcept {
  for (std::string_view prefix : {"GOMP_", "omp_", "__kmpc_", "kmp_", "kmpc_", "ompc_"}) {
    if (*name == prefix.front() && std::strncmp(name, prefix.data(), prefix.size()) == 0) return true;
  }
  return false;
}

bool is_version_of_llvm(const char* version) noexcept {
  return version != nullptr && std::strcmp(version, "VERSION") == 0;
}

void read_own_entries() noexcept {
  own().each_definition([](const char* symbol_name, const ElfW(Sym) & symbol) {
    if (!is_function_of_runtimes(symbol_name) || entry_count == most_entries) return;
    const std::string_view name = symbol_name;
    const char* const version = own().version_of(symbol);
    const bool llvm = name.starts_with("omp_") ? is_version_of_llvm(version) : !name.starts_with("GOMP_");
    entries[entry_count++] = {name, own().address_of(symbol), llvm ? Family::llvm : Family::gnu, version};
  });
  std::sort(entries, entries + entry_count, [](const InterceptedFunction& a, const InterceptedFunction& b) {
    return a.name != b.name ? a.name < b.name : a.family < b.family;
  });
  for (int i = 0; i < entry_count; ++i) smelt_openmp_targets[i] = reinterpret_cast<std::uintptr_t>(entries[i].address);
}

/// Both entries of a name, if there are two.
std::pair<const InterceptedFunction*, const InterceptedFunction*> entries_of(std::string_view name) noexcept {
  const auto by_name = [](const auto& a, const auto& b) {
    if constexpr (std::is_same_v<std::decay_t<decltype(a)>, InterceptedFunction>) {
      return a.name < b;
    } else {
      return a < b.name;
    }
  };
  return {std::lower_bound(entries, entries + entry_count, name, by_name),
          std::upper_bound(entries, entries + entry_count, name, by_name)};
}

void* stub(int copy, const InterceptedFunction& entry) noexcept {
  const auto number = (copy - 1) * most_entries + static_cast<int>(&entry - entries);
  return const_cast<char*>(smelt_openmp_stubs + static_cast<std::ptrdiff_t>(number) * stub_bytes);
}

// ---- references past the shim ------------------------------------------------------------------------

/// The runtimes of the process, in the order in which they were loaded. Used while no library is loaded or unloaded.
class Runtimes {
 public:
  void keep_up(unsigned long long unloads) noexcept {
    if (unloads == unloads_) return;
    unloads_ = unloads;
    count_ = 0;
    LoadedObject::each([this](const LoadedObject& object) { return take(object), false; });
  }

  void take(const LoadedObject& object) noexcept {
    if (!object || object == own() || count_ == std::size(runtimes_)) return;
    if (object.find(marker(Family::gnu)) == nullptr && object.find(marker(Family::llvm)) == nullptr) return;
    if (std::find(runtimes_, runtimes_ + count_, object) == runtimes_ + count_) runtimes_[count_++] = object;
  }

  bool has(Family family) const noexcept { return first(family) != nullptr; }

  /// The first with functions of a family, which serves the process if it was there at the start; null: none.
  const LoadedObject* first(Family family) const noexcept {
    const auto* const found = std::find_if(runtimes_, runtimes_ + count_, [family](const LoadedObject& each) {
      return each.find(marker(family)) != nullptr;
    });
    return found != runtimes_ + count_ ? found : nullptr;
  }

  /// The runtime with a function to which `library`, another one, is bound past the shim; null: none.
  const LoadedObject* passed_to(const LoadedObject& library, const void* function) const noexcept {
    for (std::size_t i = 0; i < count_; ++i) {
      if (runtimes_[i].contains(function)) return runtimes_[i] == library ? nullptr : &runtimes_[i];
    }
    return nullptr;
  }

 private:
  LoadedObject runtimes_[16] = {};
  std::size_t count_ = 0;
  unsigned long long unloads_ = 0;
};
constinit Runtimes runtimes;

thread_local constinit bool opened_past = false;  ///< since the thread last made a hot team
constinit std::atomic<bool> any_opened_past{false};

/// The entry that a reference goes past because its library was opened with RTLD_DEEPBIND: the one to which it would be
/// bound otherwise. Null: none, or the library has a runtime of its own beside that of the process.
const InterceptedFunction* passed_entry(const LoadedObject& library, const LoadedObject::SymbolReference& reference,
                                        const LoadedObject& runtime) noexcept {
  const char* const version = library.version_of(*reference.symbol);
  const ElfW(Sym)* const there = runtime.find(reference.name, version);
  if (there == nullptr || runtime.address_of(*there) != *reference.slot) return nullptr;
  const bool llvm = version != nullptr ? is_version_of_llvm(version) : runtime.find(marker(Family::llvm)) != nullptr;
  const auto [begin, end] = entries_of(reference.name);
  for (const InterceptedFunction* entry = begin; entry != end; ++entry) {
    if (end - begin > 1 && llvm != (entry->family == Family::llvm)) continue;
    const bool right = !there_at_start(entry->family) || *runtimes.first(entry->family) == runtime;
    return right && entry->serves(version) ? entry : nullptr;
  }
  return nullptr;
}

/// Whether a name is the shim's in the scope of the process.
bool shim_comes_first(const char* name) noexcept {
  bool before = false;
  LoadedObject::each([&](const LoadedObject& object) {
    if (object == own()) return true;
    return before = object.find(name) != nullptr;
  });
  return !before;
}

/// Calls visit(reference, entry) for every reference of a library that is bound to the shim, past it, or not yet.
template <class Visit>
void for_each_reference(const LoadedObject& library, const Visit& visit) noexcept {
  const auto wanted = [&](void** slot) {
    return own().contains(*slot) || library.contains(*slot) || runtimes.passed_to(library, *slot) != nullptr;
  };
  library.references(wanted, [&](const LoadedObject::SymbolReference& each) {
    if (!is_function_of_runtimes(each.name)) return;
    if (const LoadedObject* const runtime = runtimes.passed_to(library, *each.slot)) {
      if (const InterceptedFunction* const entry = passed_entry(library, each, *runtime)) visit(each, *entry);
      return;
    }
    const bool bound = own().contains(*each.slot);
    if (!bound && !each.of_calls) return;
    const auto [begin, end] = entries_of(each.name);
    for (const InterceptedFunction* entry = begin; entry != end; ++entry) {
      if (bound && *each.slot != entry->address) continue;
      const bool several = end - begin > 1;
      const bool llvm = several && is_version_of_llvm(library.version_of(*each.symbol));
      if (!bound && several && llvm != (entry->family == Family::llvm)) continue;
      return visit(each, *entry);
    }
  });
}

// ---- what a library needs -------------------------------------------------------------------------------

/// More than a process can have, with Linux's 65530 mappings. Of the tables of this size only what is used has memory.
constexpr std::size_t most_libraries = 32768;

/// The libraries of the process, by the names under which others need them. Used while no library is loaded or
/// unloaded; looked for when the first is asked for.
class LoadedLibraries {
 public:
  /// Libraries may have been loaded or unloaded.
  void forget() noexcept { count_ = 0; }

  /// The definition that `library` would find in its own scope: in itself, or in its dependencies, breadth first.
  const void* brought_by(const LoadedObject& library, const char* name, const char* version = nullptr) noexcept {
    take();
    queued_ = 0;
    put(library);
    for (std::size_t i = 0; i < queued_; ++i) {
      const LoadedObject each = queue_[i];
      if (const ElfW(Sym)* const symbol = each.find(name, version)) return each.address_of(*symbol);
      each.each_needed([this](const char* needed) { put(named(needed)); });
    }
    return nullptr;
  }

  /// See runtime_for() in the header.
  const void* runtime_for(const LoadedObject& library, Family family, const void* everybodys) noexcept {
    take();
    if (everybodys != nullptr && comes_before(everybodys, library)) return everybodys;
    const void* const brought = brought_by(library, marker(family));
    return brought != nullptr ? brought : everybodys;
  }

 private:
  struct LoadedLibrary {
    LoadedObject object;
    const char* name;
    const char* file;  ///< without its directory
  };

  void take() noexcept {
    if (count_ != 0) return;
    LoadedObject::each([this](const LoadedObject& object) {
      const char* const slash = std::strrchr(object.file(), '/');
      const char* const file = slash != nullptr ? slash + 1 : object.file();
      if (object && object != own()) loaded_[count_++] = {object, *object.name() != '\0' ? object.name() : file, file};
      return count_ == most_libraries;
    });
  }

  /// The first that was loaded, as the loader selects it: by its name, by its file name, or by a file name with
  /// additional version numbers (numba needs libgomp.so.1.0.0, whose name is libgomp.so.1).
  LoadedObject named(const char* name) const noexcept {
    const LoadedLibrary* found = nullptr;
    int best = 0;
    for (std::size_t i = 0; i < count_; ++i) {
      const int now = likeness(loaded_[i], name);
      if (now > best) best = now, found = &loaded_[i];
    }
    return found != nullptr ? found->object : LoadedObject();
  }

  static int likeness(const LoadedLibrary& loaded, const char* name) noexcept {
    if (std::strcmp(loaded.name, name) == 0) return 3;
    if (std::strcmp(loaded.file, name) == 0) return 2;
    const std::size_t length = std::strlen(loaded.name);
    return std::strncmp(loaded.name, name, length) == 0 && name[length] == '.' ? 1 : 0;
  }

  void put(const LoadedObject& object) noexcept {
    if (!object || queued_ == most_libraries || std::find(queue_, queue_ + queued_, object) != queue_ + queued_) return;
    queue_[queued_++] = object;
  }

  bool comes_before(const void* inside, const LoadedObject& library) const noexcept {
    for (std::size_t i = 0; i < count_; ++i) {
      if (loaded_[i].object.contains(inside)) return true;
      if (loaded_[i].object == library) return false;
    }
    return false;
  }

  LoadedLibrary loaded_[most_libraries] = {};
  LoadedObject queue_[most_libraries] = {};
  std::size_t count_ = 0, queued_ = 0;
};
constinit LoadedLibraries loaded_libraries;

const char* version_in(Family family) noexcept { return family == Family::llvm ? "VERSION" : nullptr; }

// ---- libraries as they come ----------------------------------------------------------------------------

constinit std::atomic<unsigned long long> loads{0};  ///< that have been processed

/// The libraries that are done, by their dynamic sections; a hash table. Used while no library is loaded or unloaded.
class BoundLibraries {
 public:
  bool has(const void* id) noexcept { return place_of(id)->id != nullptr; }

  /// `bound`: something was written to it. Those for whom there is no room are looked at again each time.
  void add(const LoadedObject& library, bool bound) noexcept {
    Entry* const place = place_of(library.id());
    if (place->id == nullptr && count_ == places - 1) return;  // a look-up ends at an empty place
    if (place->id == nullptr) ++count_;
    *place = {library.id(), bound ? 0 : library.fingerprint()};
  }

  /// Another library may have been loaded at the same address, or the same one again. Then what was written to it is
  /// lost; who called no function of the runtimes does not call them now.
  void keep_up(unsigned long long unloads) noexcept {
    if (unloads == unloads_ && count_ <= most_kept) return;
    unloads_ = unloads;
    std::size_t kept = 0;
    LoadedObject::each([&](const LoadedObject& library) {
      const Entry known = *place_of(library.id());
      if (known.fingerprint != 0 && known.fingerprint == library.fingerprint()) kept_[kept++] = known;
      return kept == most_kept;
    });
    std::fill(std::begin(entries_), std::end(entries_), Entry());
    for (count_ = 0; count_ < kept; ++count_) *place_of(kept_[count_].id) = kept_[count_];
  }

 private:
  struct Entry {
    const void* id = nullptr;
    std::uint64_t fingerprint = 0;  ///< 0: bound
  };

  Entry* place_of(const void* id) noexcept {
    for (auto i = (reinterpret_cast<std::uintptr_t>(id) >> 4) % places;; i = (i + 1) % places) {
      if (entries_[i].id == nullptr || entries_[i].id == id) return &entries_[i];
    }
  }

  static constexpr std::size_t places = 4096, most_kept = places / 2;
  Entry entries_[places] = {};
  Entry kept_[most_kept] = {};
  std::size_t count_ = 0;
  unsigned long long unloads_ = 0;
};
constinit BoundLibraries bound_libraries;

struct LoadCounts {
  unsigned long long loads = 0, unloads = 0;
  bool operator==(const LoadCounts&) const = default;
};

LoadCounts counts_now() noexcept {
  LoadCounts counts;
  const auto look = [](dl_phdr_info* info, std::size_t, void* argument) {
    *static_cast<LoadCounts*>(argument) = {info->dlpi_adds, info->dlpi_subs};
    return 1;
  };
  dl_iterate_phdr(look, &counts);
  return counts;
}

/// One pass over new libraries: decides the targets of their references and writes them.
class BindingPass {
 public:
  /// False: there is more to do.
  bool run() noexcept {
    while_libraries_stay([this] { look_for_runtimes(); });
    for (const Family family : families) {
      const bool any = seen_[index(family)] && !there_at_start(family);
      if (any) everybodys_[index(family)] = defined_after_shim(marker(family));
    }
    while_libraries_stay([this] { find(); });
    if (count_ == 0) return complete_;
    // Here the loader may be called. Other threads may do the same concurrently, with the same result.
    for (std::size_t i = 0; i < count_; ++i) {
      for (const Family family : families) {
        const void* const runtime = libraries_[i].runtime[index(family)];
        if (runtime != nullptr) libraries_[i].copy[index(family)] = copy_with(family, runtime);
      }
    }
    for (int i = 0; i < entry_count; ++i) {
      if (asked_[i]) definitions_[i] = defined_after_shim(entries[i].name.data(), version_in(entries[i].family));
    }
    while_libraries_stay([this] { bind(); });
    return complete_;
  }

 private:
  static constexpr Family families[] = {Family::gnu, Family::llvm};
  static int index(Family family) noexcept { return family == Family::llvm ? 1 : 0; }

  struct Library {
    const void* id;
    const void* runtime[2];  ///< by family; null: none, or not asked for
    int copy[2];
  };

  /// Calls visit(object) for each that is not done, until it returns true.
  template <class Visit>
  static void each_new(const Visit& visit) noexcept {
    LoadedObject::each_of([](const void* id) { return !bound_libraries.has(id); },
                          [&](const LoadedObject& object) { return object && object != own() && visit(object); });
  }

  void look_for_runtimes() noexcept {
    if (entry_count == 0) read_own_entries();
    counts_ = counts_now();
    bound_libraries.keep_up(counts_.unloads);
    runtimes.keep_up(counts_.unloads);
    each_new([](const LoadedObject& object) { return runtimes.take(object), false; });
    for (const Family family : families) seen_[index(family)] = runtimes.has(family);
  }

  void find() noexcept {
    complete_ = counts_now() == counts_;
    if (!complete_) return;
    loaded_libraries.forget();
    each_new([this](const LoadedObject& object) {
      complete_ = count_ < std::size(libraries_);
      if (complete_) look_at(object);
      return !complete_;
    });
    if (count_ == 0) finish();
  }

  void finish() const noexcept { loads.store(counts_.loads, std::memory_order_release); }

  void look_at(const LoadedObject& object) noexcept {
    Library library = {object.id(), {}, {}};
    bool imports = false, known[2] = {};
    for_each_reference(object, [&](const LoadedObject::SymbolReference& each, const InterceptedFunction& bound) {
      const InterceptedFunction& entry = meant(object, each, bound);
      imports = imports || !there_at_start(entry.family) || &entry != &bound || is_missing(each, entry) ||
                goes_past(object, each, entry);
      if (there_at_start(entry.family)) return;
      const int family = index(entry.family);
      const void*& runtime = library.runtime[family];
      if (const LoadedObject* const passed = runtimes.passed_to(object, *each.slot)) {
        if (const ElfW(Sym)* const main_function = passed->find(marker(entry.family))) {
          runtime = passed->address_of(*main_function);
          known[family] = true;
        }
      } else if (!std::exchange(known[family], true)) {
        runtime = loaded_libraries.runtime_for(object, entry.family, everybodys_[family]);
      }
      if (runtime == everybodys_[family]) asked_[&entry - entries] = true;
    });
    if (imports) {
      libraries_[count_++] = library;
    } else {
      bound_libraries.add(object, false);
    }
  }

  /// Whether a weak reference is to a function that the runtimes of the process, older than the shim, do not have.
  static bool is_missing(const LoadedObject::SymbolReference& reference, const InterceptedFunction& entry) noexcept {
    return reference.is_weak() && !somebody_defines(entry.name.data());
  }

  /// Whether a reference to the runtime of the process goes past the shim, or will on the first call.
  static bool goes_past(const LoadedObject& object, const LoadedObject::SymbolReference& reference,
                        const InterceptedFunction& entry) noexcept {
    if (!there_at_start(entry.family) || own().contains(*reference.slot)) return false;
    if (runtimes.passed_to(object, *reference.slot) != nullptr) return true;
    // Not yet bound. Whether the library was opened that way is not known; if not, this is what the loader would do.
    if (!any_opened_past.load(std::memory_order_relaxed)) return false;
    if (!entry.serves(object.version_of(*reference.symbol))) return false;
    const void* const brought = loaded_libraries.brought_by(object, marker(entry.family));
    return brought != nullptr && runtimes.first(entry.family)->contains(brought) && shim_comes_first(reference.name);
  }

  /// A reference without a version is bound to the entry of either family. The right one is that of the runtime that
  /// the library brings.
  const InterceptedFunction& meant(const LoadedObject& object, const LoadedObject::SymbolReference& each,
                                   const InterceptedFunction& bound) const noexcept {
    const auto [begin, end] = entries_of(each.name);
    if (end - begin < 2 || object.version_of(*each.symbol) != nullptr) return bound;
    if (runtimes.passed_to(object, *each.slot) != nullptr || serves(object, bound.family)) return bound;
    const InterceptedFunction& other = begin == &bound ? *(begin + 1) : *begin;
    return serves(object, other.family) ? other : bound;
  }

  /// Whether a runtime serves a library's calls of a family's functions.
  bool serves(const LoadedObject& object, Family family) const noexcept {
    return there_at_start(family) ||
           loaded_libraries.runtime_for(object, family, everybodys_[index(family)]) != nullptr;
  }

  void bind() noexcept {
    complete_ = complete_ && counts_now().unloads == counts_.unloads;
    if (counts_now().unloads != counts_.unloads) return;
    loaded_libraries.forget();
    LoadedObject::each([this](const LoadedObject& object) {
      for (std::size_t i = 0; i < count_; ++i) {
        if (libraries_[i].id == object.id()) bind(object, libraries_[i]);
      }
      return false;
    });
    if (complete_) finish();
  }

  void bind(const LoadedObject& object, const Library& library) noexcept {
    for_each_reference(object, [&](const LoadedObject::SymbolReference& each, const InterceptedFunction& bound) {
      const InterceptedFunction& entry = meant(object, each, bound);
      if (there_at_start(entry.family)) {
        if (is_missing(each, entry)) {
          object.write(each.slot, nullptr);
        } else if (&entry != &bound || goes_past(object, each, entry)) {
          object.write(each.slot, entry.address);
        }
        return;
      }
      void* to = target(object, library, each, entry);
      if (to == nullptr && !each.is_import()) to = object.address_of(*each.symbol);
      // A weak reference to a missing function must stay null.
      if (to != nullptr || each.is_weak()) object.write(each.slot, to);
    });
    bound_libraries.add(object, true);
  }

  /// The target of a reference, also of a runtime's reference to itself; null: as without the shim, where there is
  /// none.
  void* target(const LoadedObject& object, const Library& library, const LoadedObject::SymbolReference& reference,
               const InterceptedFunction& entry) const noexcept {
    const int family = index(entry.family);
    const void* const runtime = library.runtime[family];
    const void* definition = nullptr;
    if (runtimes.passed_to(object, *reference.slot) != nullptr) {
      definition = *reference.slot;
    } else if (runtime == everybodys_[family]) {
      definition = definitions_[&entry - entries];
    } else {
      definition = loaded_libraries.brought_by(object, entry.name.data(), version_in(entry.family));
    }
    if (definition == nullptr || runtime == nullptr) return const_cast<void*>(definition);
    const LoadedObject home = LoadedObject::with(runtime);
    const bool by_stub = library.copy[family] != 0 && home.contains(definition) && home != object;
    return by_stub ? stub(library.copy[family], entry) : const_cast<void*>(definition);
  }

  Library libraries_[32];
  std::size_t count_ = 0;
  bool seen_[2] = {};               ///< runtimes_seen
  const void* everybodys_[2] = {};  ///< by family: the main function in the global scope
  bool asked_[most_entries] = {};   ///< by entry: a library uses the definition of the global scope
  const void* definitions_[most_entries] = {};
  LoadCounts counts_;
  bool complete_ = true;
};

thread_local constinit bool binding = false;  ///< prevents recursion

}  // namespace

void bind_new_libraries() noexcept {
  // Acquire: pairs with the release in BindingPass::finish().
  if (binding || counts_now().loads == loads.load(std::memory_order_acquire)) return;
  binding = true;
  for (int rounds = 0; rounds < 64 && !BindingPass().run(); ++rounds) {}
  binding = false;
}

void expect_library_past_shim() noexcept {
  opened_past = true;
  any_opened_past.store(true, std::memory_order_relaxed);
}

void bind_libraries_past_shim() noexcept {
  if (!opened_past) return;
  opened_past = false;
  bind_new_libraries();
}

const void* runtime_for(const void* inside, Family family, const void* everybodys) noexcept {
  const void* found = nullptr;
  while_libraries_stay([&] {
    loaded_libraries.forget();
    const LoadedObject library = LoadedObject::with(inside);
    if (library && library != own()) found = loaded_libraries.runtime_for(library, family, everybodys);
  });
  return found;
}

bool somebody_defines(const char* name) noexcept {
  bool found = false;
  LoadedObject::each(
      [&](const LoadedObject& object) { return found = object != own() && object.find(name) != nullptr; });
  return found;
}

void* stub_of(int copy, const char* name, bool gnu) noexcept {
  const auto [begin, end] = entries_of(name);
  for (const InterceptedFunction* entry = begin; entry != end; ++entry) {
    if ((entry->family == Family::gnu) == gnu) return stub(copy, *entry);
  }
  return nullptr;
}

}  // namespace smelt::shims::openmp
