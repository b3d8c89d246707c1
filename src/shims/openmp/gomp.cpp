// Constructs of programs built by GCC, and library routines that the runtime would answer wrongly for a parked master.
#include <atomic>
#include <cstdint>
#include <utility>

#include "shims/openmp/hot_team.hpp"

namespace smelt::shims::openmp {
namespace {

using Body = void (*)(void*);

constinit InterceptedFunction parallel_entry("openmp", "parallel (GOMP_parallel)");
constinit InterceptedFunction barrier_entry("openmp", "barrier (GOMP_barrier)");
constinit InterceptedFunction loop_entry("openmp", "end of for (GOMP_loop_end)");
constinit InterceptedFunction sections_entry("openmp", "end of sections (GOMP_sections_end)");
constinit InterceptedFunction copyprivate_entry("openmp", "copyprivate (GOMP_single_copy_start)");

const Runtime& gnu(const void* caller) noexcept { return runtime(Family::gnu, caller); }

void plain_barrier(const Runtime& below, InterceptedFunction& entry) noexcept {
  barrier(below, entry, [&] { below.barrier(); });
}

// A region of one that the runtime knows nothing of (run_alone) must be one of the runtime's own before that keeps the
// account of its loop or its sections.
constexpr const char* construct_of_one = "a loop or sections in a region of one";

/// A region that is one loop with dynamic chunks.
struct Loop {
  Body body;
  void* data;
  const Runtime* below;
  long start, end, step, schedule, chunk;
};

// As libgomp numbers them.
constexpr long schedule_runtime = 0, schedule_static = 1, schedule_dynamic = 2, schedule_guided = 3;
constexpr long monotonic = 0x80000000L;

void loop_body(void* argument) noexcept {
  const Loop& loop = *static_cast<const Loop*>(argument);
  dissolve(construct_of_one);
  // Without places for its bounds no first chunk is taken; the body requests it.
  loop.below->loop_start(loop.start, loop.end, loop.step, loop.schedule, loop.chunk, nullptr, nullptr, nullptr,
                         nullptr);
  loop.body(loop.data);
}

struct Sections {
  Body body;
  void* data;
  const Runtime* below;
  unsigned count;
};

void sections_body(void* argument) noexcept {
  const Sections& sections = *static_cast<const Sections*>(argument);
  dissolve(construct_of_one);
  self.section = sections.below->sections_start(sections.count);
  sections.body(sections.data);
}

/// Runs a region by a hot team, or has `original()` run it.
template <class Original>
void region(const Runtime& below, unsigned threads, unsigned flags, smelt_work work,
            const Original& original) noexcept {
  if (flags == 0 && run_region(below, static_cast<int>(threads), work, parallel_entry)) return;
  if (flags != 0) parallel_entry.passed("proc_bind");
  dissolve("proc_bind");
  const OutsideRegion nested;
  original();
}

}  // namespace
}  // namespace smelt::shims::openmp

using namespace smelt::shims;
using namespace smelt::shims::openmp;

#define SMELT_SHOWN [[gnu::visibility("default")]]
#define SMELT_CALLER __builtin_return_address(0)

extern "C" {

SMELT_SHOWN void GOMP_parallel(Body body, void* data, unsigned threads, unsigned flags) noexcept {
  const Runtime& below = gnu(SMELT_CALLER);
  region(below, threads, flags, {body, data}, [&] { below.parallel(body, data, threads, flags); });
}

SMELT_SHOWN void GOMP_barrier() noexcept { plain_barrier(gnu(SMELT_CALLER), barrier_entry); }

// A construct outside of regions may have had a region inside, whose hot team is parked: hence dissolve().
SMELT_SHOWN void GOMP_loop_end() noexcept {
  const Runtime& below = gnu(SMELT_CALLER);
  dissolve("GOMP_loop_end");
  if (!in_region_of(below)) return below.loop_end();
  below.loop_end_nowait();
  plain_barrier(below, loop_entry);
}

SMELT_SHOWN void GOMP_sections_end() noexcept {
  const Runtime& below = gnu(SMELT_CALLER);
  dissolve("GOMP_sections_end");
  if (!in_region_of(below)) return below.sections_end();
  below.sections_end_nowait();
  plain_barrier(below, sections_entry);
}

SMELT_SHOWN unsigned GOMP_sections_next() noexcept {
  const Runtime& below = gnu(SMELT_CALLER);
  dissolve("GOMP_sections_next");
  const unsigned first = std::exchange(self.section, ThreadState::no_section);
  return first == ThreadState::no_section ? below.sections_next() : first;
}

SMELT_SHOWN bool GOMP_single_start() noexcept {
  const Runtime& below = gnu(SMELT_CALLER);
  return claim_single(below, [&] { return below.single_start(); });
}

// The first thread gets null and later passes its data on. The others wait for it in the barrier.
SMELT_SHOWN void* GOMP_single_copy_start() noexcept {
  const Runtime& below = gnu(SMELT_CALLER);
  dissolve("GOMP_single_copy_start");
  if (!in_region_of(below)) return below.single_copy_start();
  if (smelt_team_claim(self.hot_team->team, self.member) != 0) {
    self.copying = true;
    return nullptr;
  }
  plain_barrier(below, copyprivate_entry);
  return *self.hot_team->copied;
}

SMELT_SHOWN void GOMP_single_copy_end(void* data) noexcept {
  const Runtime& below = gnu(SMELT_CALLER);
  if (!self.copying) return below.single_copy_end(data);
  self.copying = false;
  *self.hot_team->copied = data;
  plain_barrier(below, copyprivate_entry);
}

SMELT_SHOWN void GOMP_parallel_sections(Body body, void* data, unsigned threads, unsigned count,
                                        unsigned flags) noexcept {
  const Runtime& below = gnu(SMELT_CALLER);
  Sections sections = {body, data, &below, count};
  region(below, threads, flags, {sections_body, &sections},
         [&] { below.parallel_sections(body, data, threads, count, flags); });
}

#define SMELT_PARALLEL_LOOP(name, schedule)                                                                          \
  SMELT_SHOWN void GOMP_##name(Body body, void* data, unsigned threads, long start, long end, long step, long chunk, \
                               unsigned flags) noexcept {                                                            \
    const Runtime& below = gnu(SMELT_CALLER);                                                                        \
    Loop loop = {body, data, &below, start, end, step, schedule, chunk};                                             \
    region(below, threads, flags, {loop_body, &loop},                                                                \
           [&] { below.name(body, data, threads, start, end, step, chunk, flags); });                                \
  }
#define SMELT_PARALLEL_RUNTIME_LOOP(name, schedule)                                                      \
  SMELT_SHOWN void GOMP_##name(Body body, void* data, unsigned threads, long start, long end, long step, \
                               unsigned flags) noexcept {                                                \
    const Runtime& below = gnu(SMELT_CALLER);                                                            \
    Loop loop = {body, data, &below, start, end, step, schedule, 0};                                     \
    region(below, threads, flags, {loop_body, &loop},                                                    \
           [&] { below.name(body, data, threads, start, end, step, flags); });                           \
  }
SMELT_PARALLEL_LOOP(parallel_loop_static, schedule_static | monotonic)
SMELT_PARALLEL_LOOP(parallel_loop_dynamic, schedule_dynamic | monotonic)
SMELT_PARALLEL_LOOP(parallel_loop_guided, schedule_guided | monotonic)
SMELT_PARALLEL_LOOP(parallel_loop_nonmonotonic_dynamic, schedule_dynamic)
SMELT_PARALLEL_LOOP(parallel_loop_nonmonotonic_guided, schedule_guided)
SMELT_PARALLEL_RUNTIME_LOOP(parallel_loop_runtime, schedule_runtime | monotonic)
SMELT_PARALLEL_RUNTIME_LOOP(parallel_loop_nonmonotonic_runtime, schedule_runtime)
SMELT_PARALLEL_RUNTIME_LOOP(parallel_loop_maybe_nonmonotonic_runtime, schedule_runtime)

}  // extern "C"
