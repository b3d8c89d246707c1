// Constructs of programs built by clang.
#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <utility>

#include "shims/openmp/hot_team.hpp"

namespace smelt::shims::openmp {
namespace {

constinit InterceptedFunction parallel_entry("openmp", "parallel (__kmpc_fork_call)");
constinit InterceptedFunction barrier_entry("openmp", "barrier (__kmpc_barrier)");
constinit InterceptedFunction copyprivate_entry("openmp", "copyprivate (__kmpc_copyprivate)");
constinit InterceptedFunction light_entry("openmp", "copyprivate (__kmpc_copyprivate_light)");
constinit InterceptedFunction reduce_entry("openmp", "reduction (__kmpc_reduce)");

constexpr std::size_t most_arguments = SMELT_MOST_ARGUMENTS;  // more go to the original (thunks.S)

/// A region with its shared variables; only as many as it has are valid.
struct Call {
  Microtask microtask;
  void* arguments[most_arguments];
};

template <std::size_t... I>
void run_call(const Call& call, std::index_sequence<I...>) {
  using Function = void (*)(std::int32_t*, std::int32_t*, decltype(static_cast<void*>(call.arguments[I]))...);
  std::int32_t global = self.global_number, bound = self.member;
  reinterpret_cast<Function>(call.microtask)(&global, &bound, call.arguments[I]...);
}

template <std::size_t... I>
void pass_on(const Runtime& below, void* location, const Call& call, std::index_sequence<I...>) {
  below.fork_call(location, static_cast<std::int32_t>(sizeof...(I)), call.microtask, call.arguments[I]...);
}

using Run = void (*)(void* call);
using PassOn = void (*)(const Runtime&, void* location, const Call&);

template <std::size_t... N>
constexpr std::array<Run, sizeof...(N)> make_runners(std::index_sequence<N...>) {
  return {[](void* call) { run_call(*static_cast<const Call*>(call), std::make_index_sequence<N>()); }...};
}

template <std::size_t... N>
constexpr std::array<PassOn, sizeof...(N)> make_passers(std::index_sequence<N...>) {
  return {[](const Runtime& below, void* location, const Call& call) {
    pass_on(below, location, call, std::make_index_sequence<N>());
  }...};
}

// By the number of arguments.
constexpr auto runners = make_runners(std::make_index_sequence<most_arguments + 1>());
constexpr auto passers = make_passers(std::make_index_sequence<most_arguments + 1>());

const Runtime& llvm(const void* caller) noexcept { return runtime(Family::llvm, caller); }

void plain_barrier(const Runtime& below, void* location, std::int32_t thread, InterceptedFunction& entry) noexcept {
  barrier(below, entry, [&] { below.kmp_barrier(location, thread); });
}

/// Passes the clauses of the next region on to the original.
void push_clauses(const Runtime& below, void* location, int requested) noexcept {
  if (requested != 0) below.push_num_threads(location, below.global_thread_num(location), requested);
}

/// The same for a region that is run by one thread. Before LLVM 17 the number of threads then holds for the region
/// after it, which is left to the runtime therefore.
void push_clauses_of_one(const Runtime& below, void* location) noexcept {
  const int requested = std::exchange(self.requested, 0);
  push_clauses(below, location, requested);
  self.left = requested != 0 ? "num_threads of a region of one" : nullptr;
}

/// Runs a region of `count` shared variables by a hot team, or has the original run it.
void fork(const Runtime& below, void* location, Call& call, std::size_t count) {
  const int requested = std::exchange(self.requested, 0);
  const char* const left = std::exchange(self.left, nullptr);
  if (left == nullptr &&
      run_region(below, requested, {runners[count], &call}, parallel_entry, 1 + static_cast<int>(count)))
    return;
  if (left != nullptr) {
    parallel_entry.passed(left);
    dissolve(left);
  }
  const OutsideRegion nested;
  push_clauses(below, location, requested);
  passers[count](below, location, call);
}

/// How the members of a hot team combine what they have reduced.
enum class Combining { as_the_runtime, atomically, in_order };

/// As LLVM's runtime does: few members with atomic operations on the shared variables, if the compiler offers that;
/// more of them in a fixed order, so that a sum has the same bits each time.
Combining combining_of(const Runtime& below, const void* location, const void* data,
                       void (*combine)(void*, void*)) noexcept {
  constexpr std::int32_t offers_atomic = 0x10;
  constexpr int few = 4;
  struct Location {
    std::int32_t reserved, flags;
  };
  if (!below.own_reductions) return Combining::as_the_runtime;
  const bool ordered = data != nullptr && combine != nullptr;
  if (self.hot_team->size > few && ordered) return Combining::in_order;
  const bool atomic = (static_cast<const Location*>(location)->flags & offers_atomic) != 0;
  return atomic ? Combining::atomically : Combining::as_the_runtime;
}

/// The members' data into that of the first, in the order of the runtime's tree: neighbours, then those two apart, four
/// apart, and so on. After the barrier inside all data is there; the others must keep theirs until the first one
/// returns. True on the first member.
bool combine_in_order(const Runtime& below, void* location, std::int32_t thread, void* data,
                      void (*combine)(void*, void*)) noexcept {
  const HotTeam& team = *self.hot_team;
  team.reduced[self.member] = data;
  plain_barrier(below, location, thread, reduce_entry);
  if (self.member != 0) return false;
  for (int apart = 1; apart < team.size; apart *= 2) {
    for (int at = 0; at + apart < team.size; at += 2 * apart) combine(team.reduced[at], team.reduced[at + apart]);
  }
  self.reduced_in_order = true;
  return true;
}
constexpr std::int32_t atomically = 2;

// The loop [lower, upper] by `increment`, divided as LLVM's runtime does by default. Programs may rely on equal
// divisions of loops of equal length, and the runtime runs some of them.
template <class Index, class Step>
struct StaticLoop {
  using Unsigned = std::make_unsigned_t<Index>;
  static constexpr std::int32_t chunked = 33, whole = 34;

  /// The number of iterations; 0 for none.
  static Unsigned trips(Index lower, Index upper, Step increment) noexcept {
    if (increment > 0 ? upper < lower : lower < upper) return 0;
    const auto step = static_cast<Unsigned>(increment > 0 ? increment : 0 - increment);
    const auto span = increment > 0 ? static_cast<Unsigned>(upper) - static_cast<Unsigned>(lower)
                                    : static_cast<Unsigned>(lower) - static_cast<Unsigned>(upper);
    return static_cast<Unsigned>(span / step + 1);
  }

  /// False: a rare case that is left to the runtime: no iterations, so many that a bound would overflow, or a chunk
  /// that is not positive, which some versions of the runtime refuse.
  static bool cut(std::int32_t schedule, std::int32_t* last, Index* lower, Index* upper, Step* stride, Step increment,
                  Step chunk) noexcept {
    const auto count = static_cast<Unsigned>(self.hot_team->size), own = static_cast<Unsigned>(self.member);
    if ((schedule != chunked && schedule != whole) || increment == 0 || chunk > most_steps || increment > most_steps ||
        increment < -most_steps || outsized(*lower) || outsized(*upper)) {
      return false;
    }
    const Unsigned all = trips(*lower, *upper, increment);
    if (all == 0 || (schedule == chunked && chunk < 1)) return false;
    const auto at = [&](Unsigned iteration) {
      return static_cast<Index>(*lower + static_cast<Index>(iteration) * static_cast<Index>(increment));
    };
    const auto none = [&] { *lower = static_cast<Index>(*upper + (increment > 0 ? 1 : -1)); };
    if (schedule == chunked) {
      const Unsigned size = std::min(static_cast<Unsigned>(chunk), all);
      const Unsigned chunks = all / size + (all % size != 0 ? 1 : 0), turns = std::min(chunks, count);
      if (chunks > most_trips / size) return false;
      if (last != nullptr) *last = own == (chunks - 1) % count;
      *stride = static_cast<Step>(static_cast<Unsigned>(size * turns) * static_cast<Unsigned>(increment));
      if (own >= turns) {
        none();
      } else {
        *lower = at(own * size);
        *upper = at(size - 1);
      }
      return true;
    }
    *stride = static_cast<Step>(all);
    if (all < count) {  // one for each of the first
      if (last != nullptr) *last = own == all - 1;
      if (own < all) {
        *lower = *upper = at(own);
      } else {
        none();
      }
      return true;
    }
    const Unsigned block = all / count, longer = all % count;
    if (last != nullptr) *last = own == count - 1;
    *lower = at(own * block + std::min(own, longer));
    *upper = at(own < longer ? block : block - 1);
    return true;
  }

 private:
  // Bounds up to an eighth of the range and products of three small factors do not overflow.
  static constexpr Step most_steps = Step{1} << (sizeof(Step) * 2);
  static constexpr Unsigned most_trips = std::numeric_limits<Unsigned>::max() / 8;
  static bool outsized(Index bound) noexcept {
    constexpr Index most = static_cast<Index>(std::numeric_limits<Index>::max() / 8);
    if constexpr (std::is_signed_v<Index>) return bound > most || bound < -most;
    return bound > most;
  }
};

template <class Index, class Step>
void static_init(const Runtime& below, StaticInit<Index, Step> original, void* location, std::int32_t thread,
                 std::int32_t schedule, std::int32_t* last, Index* lower, Index* upper, Step* stride, Step increment,
                 Step chunk) noexcept {
  dissolve("__kmpc_for_static_init");
  if (in_region_of(below) && below.usual_blocks &&
      StaticLoop<Index, Step>::cut(schedule, last, lower, upper, stride, increment, chunk)) {
    return;
  }
  original(location, thread, schedule, last, lower, upper, stride, increment, chunk);
}

}  // namespace
}  // namespace smelt::shims::openmp

using namespace smelt::shims;
using namespace smelt::shims::openmp;

#define SMELT_SHOWN [[gnu::visibility("default")]]
#define SMELT_CALLER __builtin_return_address(0)

extern "C" {

[[gnu::visibility("hidden")]] void smelt_openmp_fork_call(void* location, std::int32_t count, Microtask microtask,
                                                          ...) {
  const Runtime& below = llvm(SMELT_CALLER);
  Call call;  // most of it stays unwritten
  call.microtask = microtask;
  va_list arguments;
  va_start(arguments, microtask);
  for (std::int32_t i = 0; i < count; ++i) call.arguments[i] = va_arg(arguments, void*);
  va_end(arguments);
  fork(below, location, call, static_cast<std::size_t>(count));
}

// As the runtime does it, but that its calls of the other functions come here.
SMELT_SHOWN void __kmpc_fork_call_if(void* location, std::int32_t count, Microtask microtask, std::int32_t condition,
                                     void* argument) {
  const Runtime& below = llvm(SMELT_CALLER);
  if (condition != 0) {
    Call call;  // most of it stays unwritten
    call.microtask = microtask;
    call.arguments[0] = argument;
    return fork(below, location, call, count > 0 ? 1 : 0);
  }
  dissolve("if(false)");
  push_clauses_of_one(below, location);
  const OutsideRegion nested;
  below.fork_call_if(location, count, microtask, condition, argument);
}

SMELT_SHOWN void __kmpc_push_num_threads(void* location, std::int32_t thread, std::int32_t threads) noexcept {
  if (threads > 0) {
    self.requested = threads;
  } else {
    llvm(SMELT_CALLER).push_num_threads(location, thread, threads);
  }
}

SMELT_SHOWN void __kmpc_push_proc_bind(void* location, std::int32_t thread, std::int32_t policy) noexcept {
  dissolve("proc_bind");
  self.left = "proc_bind";
  llvm(SMELT_CALLER).push_proc_bind(location, thread, policy);
}

SMELT_SHOWN void __kmpc_barrier(void* location, std::int32_t thread) noexcept {
  const Runtime& below = llvm(SMELT_CALLER);
  if (below.calls_itself(SMELT_CALLER)) return below.kmp_barrier(location, thread);
  plain_barrier(below, location, thread, barrier_entry);
}

// A region of one thread.
SMELT_SHOWN void __kmpc_serialized_parallel(void* location, std::int32_t thread) noexcept {
  const Runtime& below = llvm(SMELT_CALLER);
  if (below.calls_itself(SMELT_CALLER)) return below.serialized_parallel(location, thread);
  dissolve("if(false)");
  push_clauses_of_one(below, location);
  if (self.serialized > 0 || smelt_openmp_state != outside) {
    if (self.serialized++ == 0) self.state_outside_serialized = smelt_openmp_state;
    smelt_openmp_state = outside;
  }
  below.serialized_parallel(location, thread);
}

SMELT_SHOWN void __kmpc_end_serialized_parallel(void* location, std::int32_t thread) noexcept {
  const Runtime& below = llvm(SMELT_CALLER);
  below.end_serialized_parallel(location, thread);
  if (below.calls_itself(SMELT_CALLER)) return;
  if (self.serialized > 0 && --self.serialized == 0) smelt_openmp_state = self.state_outside_serialized;
}

SMELT_SHOWN std::int32_t __kmpc_single(void* location, std::int32_t thread) noexcept {
  const Runtime& below = llvm(SMELT_CALLER);
  return claim_single(below, [&] { return below.single(location, thread) != 0; }) ? 1 : 0;
}

// The runtime would only check the program or notify tools.
SMELT_SHOWN void __kmpc_end_single(void* location, std::int32_t thread) noexcept {
  const Runtime& below = llvm(SMELT_CALLER);
  if (!in_region_of(below) && !parked_by(below)) below.end_single(location, thread);
}

// After the first barrier the data is known. After the second one no thread needs it any more.
SMELT_SHOWN void __kmpc_copyprivate(void* location, std::int32_t thread, std::size_t bytes, void* data,
                                    void (*copy)(void*, void*), std::int32_t mine) noexcept {
  const Runtime& below = llvm(SMELT_CALLER);
  dissolve("__kmpc_copyprivate");
  if (!in_region_of(below)) return below.copyprivate(location, thread, bytes, data, copy, mine);
  if (mine != 0) *self.hot_team->copied = data;
  plain_barrier(below, location, thread, copyprivate_entry);
  if (mine == 0) copy(data, *self.hot_team->copied);
  plain_barrier(below, location, thread, copyprivate_entry);
}

// The same by one barrier: the compiler puts the second one after the copying.
SMELT_SHOWN void* __kmpc_copyprivate_light(void* location, std::int32_t thread, void* data) noexcept {
  const Runtime& below = llvm(SMELT_CALLER);
  dissolve("__kmpc_copyprivate_light");
  if (!in_region_of(below)) return below.copyprivate_light(location, thread, data);
  if (data != nullptr) *self.hot_team->copied = data;
  plain_barrier(below, location, thread, light_entry);
  return *self.hot_team->copied;
}

// The runtime combines. The barrier that ends the construct is run here, once by every member: immediately by those
// that have nothing to combine (0), by the others after combining.
SMELT_SHOWN std::int32_t __kmpc_reduce(void* location, std::int32_t thread, std::int32_t variables, std::size_t bytes,
                                       void* data, void (*combine)(void*, void*), void* lock) noexcept {
  const Runtime& below = llvm(SMELT_CALLER);
  dissolve("__kmpc_reduce");
  if (!in_region_of(below)) return below.reduce(location, thread, variables, bytes, data, combine, lock);
  const Combining combining = combining_of(below, location, data, combine);
  if (combining == Combining::atomically) return atomically;
  if (combining == Combining::in_order) {
    if (combine_in_order(below, location, thread, data, combine)) return 1;
    plain_barrier(below, location, thread, reduce_entry);
    return 0;
  }
  const auto part = below.reduce_nowait(location, thread, variables, bytes, data, combine, lock);
  self.reduced_by_lock = part == 1;
  if (part == 0) plain_barrier(below, location, thread, reduce_entry);
  return part;
}

SMELT_SHOWN std::int32_t __kmpc_reduce_nowait(void* location, std::int32_t thread, std::int32_t variables,
                                              std::size_t bytes, void* data, void (*combine)(void*, void*),
                                              void* lock) noexcept {
  const Runtime& below = llvm(SMELT_CALLER);
  dissolve("__kmpc_reduce_nowait");
  const Combining combining =
      in_region_of(below) ? combining_of(below, location, data, combine) : Combining::as_the_runtime;
  if (combining == Combining::atomically) return atomically;
  if (combining == Combining::in_order) {
    const bool first = combine_in_order(below, location, thread, data, combine);
    plain_barrier(below, location, thread, reduce_entry);
    return first ? 1 : 0;
  }
  return below.reduce_nowait(location, thread, variables, bytes, data, combine, lock);
}

SMELT_SHOWN void __kmpc_end_reduce(void* location, std::int32_t thread, void* lock) noexcept {
  const Runtime& below = llvm(SMELT_CALLER);
  if (!in_region_of(below)) return below.end_reduce(location, thread, lock);
  self.reduced_in_order = false;
  if (std::exchange(self.reduced_by_lock, false)) below.end_reduce_nowait(location, thread, lock);
  plain_barrier(below, location, thread, reduce_entry);
}

SMELT_SHOWN void __kmpc_end_reduce_nowait(void* location, std::int32_t thread, void* lock) noexcept {
  const Runtime& below = llvm(SMELT_CALLER);
  if (std::exchange(self.reduced_in_order, false)) return;
  dissolve("__kmpc_end_reduce_nowait");
  below.end_reduce_nowait(location, thread, lock);
}

#define SMELT_STATIC_INIT(suffix, Index, Step)                                                                   \
  SMELT_SHOWN void __kmpc_for_static_init_##suffix(void* location, std::int32_t thread, std::int32_t schedule,   \
                                                   std::int32_t* last, Index* lower, Index* upper, Step* stride, \
                                                   Step increment, Step chunk) noexcept {                        \
    const Runtime& below = llvm(SMELT_CALLER);                                                                   \
    static_init<Index, Step>(below, below.static_init_##suffix, location, thread, schedule, last, lower, upper,  \
                             stride, increment, chunk);                                                          \
  }
SMELT_STATIC_INIT(4, std::int32_t, std::int32_t)
SMELT_STATIC_INIT(4u, std::uint32_t, std::int32_t)
SMELT_STATIC_INIT(8, std::int64_t, std::int64_t)
SMELT_STATIC_INIT(8u, std::uint64_t, std::int64_t)

}  // extern "C"
