// Hot teams: the threads of a runtime, kept in one of its parallel regions from one region of the program to the next.
//
// A master enters one region of the runtime with a function of ours and comes back from it at once (GOMP_parallel_start
// allows that); its workers wait in that function for what the program's next region is to do. So every member
// is a genuine member of a genuine team of the runtime inside of the program's regions, and any function of the
// runtime can be called there; only forks, joins and barriers are smelt's.
//
//            start                 fork                  join
//   outside -------> parked ----------------> inside ------------> parked
//      ^               | ^                      |   call off          |
//      |   dissolve    | | region of one        +-----------> away    | dissolve
//      +---------------+------------------------------------- (join) -+
//                      alone
//
//   outside  what the runtime thinks of the thread is so; the shim passes everything on
//   parked   a master between regions: the runtime thinks that it is in one. Whoever could notice is answered by
//            the shim or makes it dissolve the hot team first
//   alone    a parked master in a region of the program's that has one thread. Who could notice that the runtime thinks
//            otherwise makes it dissolve the hot team and start a region of one of the runtime's first
//   inside   barriers and the end of the region are smelt's
//   away     called off: barriers and the end of the region are the runtime's (tasks, cancellation)
//
// Nested regions of members belong to the runtime alone: for their duration the thread is outside.
#pragma once

#include <cstdint>

#include "shims/openmp/runtime.hpp"
#include "shims/report.hpp"
#include "smelt/smelt.h"

namespace smelt::shims::openmp {

enum State : std::uint8_t { outside = 0, parked = 1, inside = 2, away = 4, alone = 8 };

extern "C" {
/// The state of the calling thread; tested by the entry points in thunks.S, too.
extern thread_local constinit std::uint8_t smelt_openmp_state;
}

/// Threads that stay in a region, as their master sees them. Members other than the master read it only, in every
/// construct: so nothing that changes lies near (128: x86 prefetches lines in pairs).
struct alignas(128) HotTeam {
  smelt_team* team = nullptr;
  const Runtime* runtime = nullptr;
  int size = 0;
  int pus = 0;  ///< of which so many can run at a time
  void** copied = nullptr;  ///< what `single` hands to the others: the team's word for that
};

/// What a thread knows; of no other thread's business.
struct ThreadState {
  HotTeam* hot_team = nullptr;  ///< valid unless outside
  int member = 0;
  std::uint32_t barriers = 0;     ///< in this hot team, the same on all members
  unsigned section = no_section;  ///< the first of a combined construct, not yet asked for
  bool copying = false;          ///< between the start of a single with copyprivate, as the one that runs it, and its end
  bool reduced_by_lock = false;  ///< LLVM's: the combination is to be ended
  int serialized = 0;            ///< depth of LLVM's serialized regions inside of a region of the hot team
  std::uint8_t state_outside_serialized = outside;
  int requested = 0;             ///< pushed by the num_threads clause, LLVM's; 0: none
  bool bound = false;            ///< a proc_bind clause was pushed, LLVM's
  bool entered_alone = false;    ///< a region of one that began alone has become the runtime's
  int max_threads = 0;           ///< omp_get_max_threads() of a parked master
  std::int32_t global_number = 0;  ///< LLVM's of the thread, in this hot team

  static constexpr unsigned no_section = ~0u;
};
extern thread_local constinit ThreadState self;

/// Runs `work` as a region of `threads` (0: as many as usual) by the thread's hot team, made first if need be. False:
/// the original is to run it; the thread is outside, or within a region of the runtime's. `words`: as many at work.data
/// are all that members need of it.
bool run_region(const Runtime& runtime, int threads, smelt_work work, InterceptedFunction& entry,
                int words = 0) noexcept;

/// Runs a region of one thread by the parked master of a hot team of GNU's runtime. False: the caller is none.
bool run_alone(const Runtime& runtime, smelt_work work, InterceptedFunction& entry) noexcept;

/// Whether the thread is parked, or alone, by a hot team of this runtime.
inline bool parked_by(const Runtime& runtime) noexcept {
  return (smelt_openmp_state & (parked | alone)) != 0 && self.hot_team->runtime == &runtime;
}

/// Whose turn a barrier is.
enum class Turn { ours, original, sampled };

/// Holds a barrier of the hot team, unless it is the original's turn, and keeps account of it. Requires: not parked.
Turn try_barrier(InterceptedFunction& entry) noexcept;

/// Holds a barrier of the hot team; false: it was called off.
inline bool hot_team_barrier() noexcept {
  if (smelt_team_barrier(self.hot_team->team, self.member) != 0) [[likely]]
    return true;
  smelt_openmp_state = away;
  return false;
}

/// A barrier of `runtime`, by the hot team or by `original()`; nothing for a master outside of its regions.
template <class Original>
void barrier(const Runtime& runtime, InterceptedFunction& entry, const Original& original) noexcept {
  if (smelt_openmp_state == inside) [[likely]] {
    if (self.hot_team->runtime != &runtime) return original();
    if (!verbose()) [[likely]]
      return hot_team_barrier() ? void() : original();
  }
  if (parked_by(runtime)) return;
  if ((smelt_openmp_state & (parked | alone)) != 0) return original();
  const Turn turn = try_barrier(entry);
  if (turn == Turn::ours) [[likely]] return;
  Stopwatch watch(entry, turn == Turn::sampled ? Sample::original : Sample::none);
  original();
}

/// Whether the calling thread is in a region that a hot team of this runtime runs.
inline bool in_region_of(const Runtime& runtime) noexcept {
  return (smelt_openmp_state & (inside | away)) != 0 && self.hot_team->runtime == &runtime;
}

/// Whether the calling thread is the one that executes a `single`; `original()` if the region is the runtime's. Claims
/// are the hot team's as long as the region lasts, though barriers be called off: all members have to make the same
/// ones.
template <class Original>
bool claim_single(const Runtime& runtime, const Original& original) noexcept {
  if (in_region_of(runtime)) [[likely]]
    return smelt_team_claim(self.hot_team->team, self.member) != 0;
  if (parked_by(runtime)) return true;  // of the program's one thread
  return original();
}

/// Makes the runtime's view of a parked or lone master true again. `why`: a literal.
void dissolve(const char* why) noexcept;

/// From here on the region's barriers and its end are the runtime's.
void call_off() noexcept;

/// For the life of it the thread is outside; afterwards what it was.
class OutsideRegion {
 public:
  OutsideRegion() noexcept : state_(smelt_openmp_state), self_(self) {
    smelt_openmp_state = outside;
    self = {};
  }
  ~OutsideRegion() {
    self = self_;
    smelt_openmp_state = state_;
  }
  OutsideRegion(const OutsideRegion&) = delete;
  OutsideRegion& operator=(const OutsideRegion&) = delete;

 private:
  std::uint8_t state_;
  ThreadState self_;
};

}  // namespace smelt::shims::openmp
