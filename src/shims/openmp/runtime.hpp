// The OpenMP runtimes below the shim: their functions, and whether hot teams may be made of their threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace smelt::shims::openmp {

enum class Family { gnu, llvm };

/// The action before a call is passed on (symbols.inc).
enum class Kind : std::uint8_t { observe, alter, task, stop, push };

/// The microtask of LLVM's runtime: thread numbers, then the shared variables.
using Microtask = void (*)(std::int32_t* global, std::int32_t* bound, ...);

/// LLVM's: the calling thread's part of a loop.
template <class Index, class Step>
using StaticInit = void (*)(void* location, std::int32_t thread, std::int32_t schedule, std::int32_t* last,
                            Index* lower, Index* upper, Step* stride, Step increment, Step chunk);

/// GNU's: a region that is one loop; start, end, step, chunk, flags.
using ParallelLoop = void (*)(void (*)(void*), void*, unsigned, long, long, long, long, unsigned);
using ParallelRuntimeLoop = void (*)(void (*)(void*), void*, unsigned, long, long, long, unsigned);

/// The originals that the shim itself calls. No pointer is null: a function that the runtime lacks ends the process
/// with a message, as the dynamic linker would.
struct Runtime {
  // Library routines, and GNU's entry points, which both runtimes have.
  int (*get_thread_num)();
  int (*get_num_threads)();
  int (*get_max_threads)();
  int (*get_level)();
  int (*get_active_level)();
  int (*in_parallel)();
  int (*get_dynamic)();
  int (*get_num_procs)();
  void (*set_num_threads)(int);
  void (*parallel_start)(void (*)(void*), void*, unsigned);
  void (*parallel_end)();
  // GNU's constructs.
  void (*parallel)(void (*)(void*), void*, unsigned, unsigned);
  void (*barrier)();
  void (*loop_start)(long, long, long, long, long, long*, long*, std::uintptr_t*, void**);
  void (*loop_end)();
  void (*loop_end_nowait)();
  unsigned (*sections_start)(unsigned);
  unsigned (*sections_next)();
  void (*sections_end)();
  void (*sections_end_nowait)();
  bool (*single_start)();
  void* (*single_copy_start)();
  void (*single_copy_end)(void*);
  void (*parallel_sections)(void (*)(void*), void*, unsigned, unsigned, unsigned);
  ParallelLoop parallel_loop_static;
  ParallelLoop parallel_loop_dynamic;
  ParallelLoop parallel_loop_guided;
  ParallelLoop parallel_loop_nonmonotonic_dynamic;
  ParallelLoop parallel_loop_nonmonotonic_guided;
  ParallelRuntimeLoop parallel_loop_runtime;
  ParallelRuntimeLoop parallel_loop_nonmonotonic_runtime;
  ParallelRuntimeLoop parallel_loop_maybe_nonmonotonic_runtime;
  // LLVM's.
  void (*fork_call)(void*, std::int32_t, Microtask, ...);
  void (*fork_call_if)(void*, std::int32_t, Microtask, std::int32_t, void*);
  void (*push_num_threads)(void*, std::int32_t, std::int32_t);
  void (*push_proc_bind)(void*, std::int32_t, std::int32_t);
  std::int32_t (*global_thread_num)(void*);
  void (*kmp_barrier)(void*, std::int32_t);
  std::int32_t (*single)(void*, std::int32_t);
  void (*end_single)(void*, std::int32_t);
  void (*copyprivate)(void*, std::int32_t, std::size_t, void*, void (*)(void*, void*), std::int32_t);
  void* (*copyprivate_light)(void*, std::int32_t, void*);
  std::int32_t (*reduce)(void*, std::int32_t, std::int32_t, std::size_t, void*, void (*)(void*, void*), void*);
  std::int32_t (*reduce_nowait)(void*, std::int32_t, std::int32_t, std::size_t, void*, void (*)(void*, void*), void*);
  void (*end_reduce)(void*, std::int32_t, void*);
  void (*end_reduce_nowait)(void*, std::int32_t, void*);
  StaticInit<std::int32_t, std::int32_t> static_init_4;
  StaticInit<std::uint32_t, std::int32_t> static_init_4u;
  StaticInit<std::int64_t, std::int64_t> static_init_8;
  StaticInit<std::uint64_t, std::int64_t> static_init_8u;
  void (*serialized_parallel)(void*, std::int32_t);
  void (*end_serialized_parallel)(void*, std::int32_t);

  Family family;
  bool global;               ///< serves every library of the process
  int copy;                  ///< otherwise: its number, see copy_with()
  const char* no_hot_teams;  ///< why hot teams cannot be made; null: they can
  bool own_reductions;       ///< the environment does not prescribe how reductions combine
  bool usual_blocks;         ///< static loops are divided into blocks that differ by at most one iteration
  double awake_s;            ///< how long its threads stay awake (smelt_team_create)

  struct Code {
    std::uintptr_t begin = 0, end = 0;
  };
  const void* library;  ///< its link_map; null: there is none
  Code code;            ///< of the runtime
  Code shim;

  /// Whether this is the same library, for one of the families each: LLVM's runtime serves what GCC has built, too, and
  /// what was linked with no runtime asks by the names of either family. What a thread does by one is seen by the
  /// other.
  bool is_one_with(const Runtime& other) const noexcept { return this == &other || library == other.library; }

  /// Another function of the runtime; null if it has none of that name.
  void* find(const char* name, const char* version) const noexcept;

  /// Whether a call is not from the program: LLVM's runtime calls its own functions by their public names, some of them
  /// on behalf of the shim.
  bool calls_itself(const void* caller) const noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(caller);
    return address - code.begin < code.end - code.begin || address - shim.begin < shim.end - shim.begin;
  }
};

extern "C" {
/// The stub through which the thread's call came: the copy of the runtime in the upper half; 0: none.
[[gnu::visibility("hidden")]] extern thread_local constinit std::uint32_t smelt_openmp_bound;
}

namespace runtime_detail {
const Runtime& of_copy(Family family, std::uint32_t copy) noexcept;
extern constinit std::atomic<const Runtime*> globals[2];  ///< by family; null: none, or not searched yet
const Runtime& look_up(Family family, const void* caller) noexcept;
}  // namespace runtime_detail

/// The runtime for a call from `caller` (an address in the calling code). Must be called once per call, before any
/// other function. Cost: a load if one runtime serves the whole process; slightly more for a library that is bound to a
/// copy. Other callers (during their constructors, or with an address from elsewhere) are searched in the thread's
/// CallerCache, which is valid until a library is unloaded.
inline const Runtime& runtime(Family family, const void* caller) noexcept {
  // Acquire: pairs with the release in global_runtime().
  const Runtime* global = runtime_detail::globals[static_cast<int>(family)].load(std::memory_order_acquire);
  if (global != nullptr) [[likely]]
    return *global;
  const std::uint32_t bound = smelt_openmp_bound;
  if (bound == 0) return runtime_detail::look_up(family, caller);
  smelt_openmp_bound = 0;
  return runtime_detail::of_copy(family, bound >> 16);
}

/// The function that identifies a runtime.
const char* marker(Family family) noexcept;

/// Whether a runtime was in the process from the start. If so, it serves all libraries; one that was loaded later
/// serves those loaded after it.
bool there_at_start(Family family) noexcept;

/// The definition of a name in the global scope after the shim; null if there is none.
void* defined_after_shim(const char* name, const char* version = nullptr) noexcept;

/// The number of the copy with this main function, for stubs (bindings.hpp); 0 if there are too many.
int copy_with(Family family, const void* main_function) noexcept;

/// Disables hot teams in all threads from now on. `why`: a literal.
void stop_hot_teams(const char* why) noexcept;

/// The reason given to stop_hot_teams(); null if it was not called.
const char* hot_teams_stopped() noexcept;

}  // namespace smelt::shims::openmp
