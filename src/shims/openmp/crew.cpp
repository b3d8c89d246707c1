#include "shims/openmp/crew.hpp"

#include <pthread.h>

#include <atomic>
#include <new>
#include <utility>

namespace smelt::shims::openmp {

extern "C" {
thread_local constinit std::uint8_t smelt_openmp_state = outside;
}
thread_local constinit Self self;

namespace {

constinit Entry parked_entry("openmp", "crews");

constexpr char called_off[] = "the region uses tasks, cancellation or control variables";

/// A master's crew, and whether making one pays.
class Master {
 public:
  Master() noexcept {
    // A child of fork() has no workers, so the crew is dissolved in time. Once for all threads.
    static const int registered = pthread_atfork([] { dissolve("fork"); }, nullptr, nullptr);
    static_cast<void>(registered);
  }
  ~Master() {
    dissolve("the thread ends");
    retired_ = true;
    // Elsewhere than outside others may still look at it: the process ends in the midst of a region.
    if (smelt_openmp_state == outside) smelt_team_free(crew_.team);
  }
  Master(const Master&) = delete;
  Master& operator=(const Master&) = delete;

  Crew& crew() noexcept { return crew_; }
  bool retired() const noexcept { return retired_; }

  /// Whether to make a crew now. After some that were dissolved early the original gets its turns, ever more.
  bool worth_it() noexcept {
    if (passes_ == 0) return true;
    --passes_;
    return false;
  }
  void ran() noexcept {
    ++regions_;
    if (regions_ >= plenty) longest_ = shortest_pass;
  }
  /// The crew has to go; `regions_` tells whether it was worth its making.
  void gone() noexcept {
    if (regions_ < plenty) {
      passes_ = longest_;
      if (longest_ < longest_pass) longest_ *= 2;
    }
    regions_ = 0;
  }

  /// A team of `size` for the crew. False: out of memory.
  bool provide(const Runtime& runtime, int size) noexcept {
    if (crew_.team == nullptr || crew_.size != size || crew_.runtime != &runtime) {
      smelt_team_free(crew_.team);
      crew_.team = nullptr;
      if (smelt_team_create(size, runtime.get_num_procs(), runtime.awake_s, &crew_.team) != SMELT_OK) return false;
    }
    crew_.copied = smelt_team_handed(crew_.team);
    crew_.runtime = &runtime;
    crew_.size = size;
    crew_.pus = runtime.get_num_procs();
    return true;
  }

 private:
  static constexpr std::uint32_t plenty = 16;
  static constexpr std::uint32_t shortest_pass = 4;
  static constexpr std::uint32_t longest_pass = 4096;

  Crew crew_;
  std::uint32_t regions_ = 0;  ///< of this crew
  std::uint32_t passes_ = 0;   ///< regions that the original gets before the next try
  std::uint32_t longest_ = shortest_pass;
  bool retired_ = false;
};

Master& master() noexcept {
  thread_local Master own;
  return own;
}

void join_crew(Crew& crew, int member) noexcept {
  self.crew = &crew;
  self.member = member;
  self.barriers = 0;
  self.section = Self::no_section;
  self.serialized = 0;
  if (crew.runtime->family == Family::llvm) self.global_number = crew.runtime->global_thread_num(nullptr);
}

/// What the runtime runs in every member; the master comes back from parallel_start without it.
void serve(void* argument) noexcept {
  Crew& crew = *static_cast<Crew*>(argument);
  join_crew(crew, crew.runtime->get_thread_num());
  for (;;) {
    const smelt_work work = smelt_team_receive(crew.team, self.member);
    if (work.function == nullptr) break;
    smelt_openmp_state = inside;
    work.function(work.data);
  }
  smelt_openmp_state = outside;
  self.crew = nullptr;
}

/// The runtime ends its region: all have left our function, or are on their way.
void end_region() noexcept {
  Crew& crew = *self.crew;
  crew.runtime->parallel_end();
  smelt_openmp_state = outside;
  self.crew = nullptr;
  // The runtime's join lies between the members' last look at the team and this.
  smelt_team_reset(crew.team);
  master().gone();
}

/// Enters a region of the runtime and parks. False: it gave other threads than asked for.
bool start(const Runtime& runtime, int size) noexcept {
  Master& own = master();
  if (!own.provide(runtime, size)) return false;
  Crew& crew = own.crew();
  self.max_threads = runtime.get_max_threads();
  runtime.parallel_start(serve, &crew, static_cast<unsigned>(size));
  join_crew(crew, 0);
  smelt_openmp_state = parked;
  if (runtime.get_num_threads() == size) return true;
  dissolve("fewer threads than asked for");
  return false;
}

void nothing(void*) noexcept {}

const char* why_not(const Runtime& runtime, int size) noexcept {
  if (smelt_openmp_state != outside) return "nested";
  if (const char* why = crews_stopped()) return why;
  if (runtime.no_crews != nullptr) return runtime.no_crews;
  if (size < 2 || size > 4096) return "a team of one";
  if (runtime.get_level() != 0) return "nested";
  if (runtime.get_dynamic() != 0) return "omp_set_dynamic";
  Master& own = master();
  if (own.retired()) return "the thread ends";
  return own.worth_it() ? nullptr : "crews had to be dissolved too often";
}

void run(smelt_work work, int words) noexcept {
  Crew& crew = *self.crew;
  smelt_openmp_state = inside;
  if (words != 0 && words <= SMELT_TEAM_WORDS) {
    smelt_team_fork_copied(crew.team, work, words);
  } else {
    smelt_team_fork(crew.team, work);
  }
  work.function(work.data);
  if (smelt_team_join(crew.team)) {
    smelt_openmp_state = parked;
    master().ran();
  } else {
    end_region();
  }
}

}  // namespace

bool run_region(const Runtime& runtime, int threads, smelt_work work, Entry& entry, int words) noexcept {
  if (smelt_openmp_state == alone && self.crew->runtime == &runtime) dissolve("nested in a region of one");
  if (smelt_openmp_state == parked) {
    const int size = threads != 0 ? threads : self.max_threads;
    if (size == 1 && run_alone(runtime, work, entry)) return true;
    if (size == self.crew->size && &runtime == self.crew->runtime && crews_stopped() == nullptr) [[likely]] {
      entry.took();
      run(work, words);
      return true;
    }
    dissolve("a team of another size");
  }
  const int size = threads != 0 || smelt_openmp_state != outside ? threads : runtime.get_max_threads();
  if (const char* why = why_not(runtime, size)) {
    entry.passed(why);
    return false;
  }
  if (!start(runtime, size)) {
    entry.passed("fewer threads than asked for");
    return false;
  }
  entry.took();
  run(work, words);
  return true;
}

Turn try_barrier(Entry& entry) noexcept {
  if (smelt_openmp_state == inside) [[likely]] {
    const auto kind = sample_kind(self.barriers++);
    if (kind == Sample::original) return Turn::sampled;
    Stopwatch watch(entry, kind);
    if (crew_barrier()) [[likely]] {
      entry.took();
      return Turn::ours;
    }
  }
  entry.passed(smelt_openmp_state == away ? called_off : "not in a region that was taken over");
  return Turn::original;
}

void dissolve(const char* why) noexcept {
  if ((smelt_openmp_state & (parked | alone)) == 0) return;
  const bool was_alone = smelt_openmp_state == alone;
  const Runtime& runtime = *self.crew->runtime;
  parked_entry.passed(why);
  smelt_team_fork(self.crew->team, {nullptr, nullptr});
  end_region();
  if (!was_alone) return;
  self.entered_alone = true;
  runtime.parallel_start(nothing, nullptr, 1);
}

bool run_alone(const Runtime& runtime, smelt_work work, Entry& entry) noexcept {
  if (smelt_openmp_state != parked || self.crew->runtime != &runtime || runtime.family != Family::gnu) return false;
  if (crews_stopped() != nullptr) return false;
  entry.took();
  self.entered_alone = false;
  smelt_openmp_state = alone;
  work.function(work.data);
  if (smelt_openmp_state == alone) {
    smelt_openmp_state = parked;
  } else if (std::exchange(self.entered_alone, false)) {
    // It may have a crew of regions inside; that has gone with them.
    runtime.parallel_end();
  }
  return true;
}

void call_off() noexcept {
  if (smelt_openmp_state != inside) return;
  smelt_openmp_state = away;
  smelt_team_call_off(self.crew->team, self.member);
}

}  // namespace smelt::shims::openmp
