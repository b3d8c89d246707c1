// Hot teams: the threads of a runtime, kept in one of its parallel regions from one region of the program to the next.
//
// A master enters one region of the runtime with a function of the shim and returns immediately (GOMP_parallel_start
// allows this). Its workers wait in that function for the work of the program's next region. So in the program's
// regions every thread is a member of a team of the runtime, and may call any function of the runtime. Only forks,
// joins and barriers are smelt's.
//
//            start                 fork                  join
//   outside -------> parked ----------------> inside ------------> parked
//      ^               | ^                      |   call off          |
//      |   dissolve    | | region of one        +-----------> away    | dissolve
//      +---------------+------------------------------------- (join) -+
//                      alone
//
//   outside  The runtime's view of the thread is correct; the shim passes everything on.
//   parked   A master between regions; for the runtime it is in one. The shim answers functions that would reveal this,
//            or dissolves the hot team first.
//   alone    A parked master in a region of the program with one thread. Before a function that would reveal the
//            runtime's view, the shim dissolves the hot team and starts a region of one thread of the runtime.
//   inside   Barriers and the end of the region are smelt's.
//   away     Called off: barriers and the end of the region are the runtime's (tasks, cancellation).
//
// Nested regions of members belong to the runtime alone. During them the thread is outside.
#pragma once

#include <cstdint>

#include "shims/openmp/floating_point.hpp"
#include "shims/openmp/runtime.hpp"
#include "shims/report.hpp"
#include "smelt/smelt.h"

namespace smelt::shims::openmp {

enum State : std::uint8_t { outside = 0, parked = 1, inside = 2, away = 4, alone = 8 };

extern "C" {
/// The state of the calling thread; tested by the entry points in thunks.S, too.
extern thread_local constinit std::uint8_t smelt_openmp_state;
}

/// The threads that stay in a region. The other members only read it, in every construct, so no data that changes is
/// nearby (128: x86 prefetches lines in pairs).
struct alignas(128) HotTeam {
  smelt_team* team = nullptr;
  const Runtime* runtime = nullptr;
  int size = 0;
  void** reduced = nullptr;      ///< by member: what it hands to the one that combines
  void** copied = nullptr;       ///< the team's word for data that `single` passes to the others
  FloatingPointControl control;  ///< the master's at the begin of the region; LLVM's. Written when it has changed
};

/// Thread-private state.
struct ThreadState {
  HotTeam* hot_team = nullptr;  ///< valid unless outside
  int member = 0;
  std::uint32_t barriers = 0;     ///< in this hot team, the same on all members
  unsigned section = no_section;  ///< the first section of a combined construct, if not yet requested
  bool copying = false;           ///< runs a single with copyprivate
  bool reduced_by_lock = false;   ///< LLVM's: a combination must be ended
  bool reduced_in_order = false;  ///< the same, by the shim
  int serialized = 0;             ///< depth of LLVM's serialized regions inside of a region of the hot team
  std::uint8_t state_outside_serialized = outside;
  int requested = 0;               ///< pushed by the num_threads clause, LLVM's; 0: none
  const char* left = nullptr;      ///< LLVM's: the clause for which the runtime runs the next region; null: none
  bool entered_alone = false;      ///< a region of one thread that began in state `alone` was passed to the runtime
  int max_threads = 0;             ///< omp_get_max_threads() of a parked master
  std::int32_t global_number = 0;  ///< LLVM's global thread number, in this hot team

  static constexpr unsigned no_section = ~0u;
};
extern thread_local constinit ThreadState self;

/// Runs `work` as a region of `threads` (0: the default) by the thread's hot team, which is created if necessary.
/// False: the original must run it; the thread is outside, or within a region of the runtime. `words`: members need
/// only so many words at work.data.
bool run_region(const Runtime& runtime, int threads, smelt_work work, InterceptedFunction& entry,
                int words = 0) noexcept;

/// Runs a region of one thread by the parked master of a hot team of GNU's runtime. False: the caller is no such
/// master.
bool run_alone(const Runtime& runtime, smelt_work work, InterceptedFunction& entry) noexcept;

/// Whether the thread is parked or alone, with a hot team of this runtime.
inline bool parked_by(const Runtime& runtime) noexcept {
  return (smelt_openmp_state & (parked | alone)) != 0 && self.hot_team->runtime->is_one_with(runtime);
}

/// Which implementation runs a barrier.
enum class BarrierServer { ours, original, sampled };

/// Runs a barrier by the hot team, unless it is the original's turn, and counts it. Requirement: not parked.
BarrierServer try_barrier(InterceptedFunction& entry) noexcept;

/// Runs a barrier by the hot team. False: it was called off.
inline bool hot_team_barrier() noexcept {
  if (smelt_team_barrier(self.hot_team->team, self.member) != 0) [[likely]]
    return true;
  smelt_openmp_state = away;
  return false;
}

/// A barrier of `runtime`, by the hot team or by `original()`. No effect for a master outside of its regions.
template <class Original>
void barrier(const Runtime& runtime, InterceptedFunction& entry, const Original& original) noexcept {
  if (smelt_openmp_state == inside) [[likely]] {
    if (self.hot_team->runtime != &runtime) return original();
    if (!verbose()) [[likely]]
      return hot_team_barrier() ? void() : original();
  }
  if (parked_by(runtime)) return;
  if ((smelt_openmp_state & (parked | alone)) != 0) return original();
  const BarrierServer turn = try_barrier(entry);
  if (turn == BarrierServer::ours) [[likely]]
    return;
  Stopwatch watch(entry, turn == BarrierServer::sampled ? Sample::original : Sample::none);
  original();
}

/// Whether the calling thread is in a region that a hot team of this runtime runs, and not in one that the runtime has
/// nested in it, as it does those of very many shared variables. Regions of hot teams are outermost ones.
inline bool in_region_of(const Runtime& runtime) noexcept {
  if ((smelt_openmp_state & (inside | away)) == 0 || self.hot_team->runtime != &runtime) return false;
  return smelt_openmp_state == inside || runtime.get_level() == 1;
}

/// Whether the calling thread executes a `single`; `original()` if the region is the runtime's. Claims remain the hot
/// team's for the whole region, even if barriers are called off, since all members must make the same claims.
template <class Original>
bool claim_single(const Runtime& runtime, const Original& original) noexcept {
  if (in_region_of(runtime)) [[likely]]
    return smelt_team_claim(self.hot_team->team, self.member) != 0;
  if (parked_by(runtime)) return true;  // of the program's one thread
  return original();
}

/// Makes the runtime's view of a parked or lone master correct again. `why`: a literal.
void dissolve(const char* why) noexcept;

/// From here on, the runtime runs the region's barriers and its end.
void call_off() noexcept;

/// Sets the thread's state to outside, and restores it on destruction.
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
