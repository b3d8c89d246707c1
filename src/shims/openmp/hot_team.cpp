#include "shims/openmp/hot_team.hpp"

#include <dlfcn.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>
#include <unwind.h>

#include <atomic>
#include <memory>
#include <new>
#include <utility>

#include "shims/openmp/bindings.hpp"

namespace smelt::shims::openmp {

extern "C" {
thread_local constinit std::uint8_t smelt_openmp_state = outside;
/// Whether the calling thread has created tasks since in_task() was last sure of it (thunks.S).
[[gnu::visibility("hidden")]] extern thread_local constinit std::uint8_t smelt_openmp_tasks;
thread_local constinit std::uint8_t smelt_openmp_tasks = 0;
}
thread_local constinit ThreadState self;

namespace {

constinit InterceptedFunction parked_entry("openmp", "hot teams");

constexpr char called_off[] = "the region uses tasks, cancellation or control variables";

/// Whether the calling thread makes or dissolves a hot team, or enters a region by it. A signal handler that calls
/// fork() or exit() at that moment leaves the hot team as it is.
thread_local constinit std::atomic<bool> changing{false};

class Change {
 public:
  Change() noexcept { set(true); }
  ~Change() { set(false); }
  Change(const Change&) = delete;
  Change& operator=(const Change&) = delete;

 private:
  // The handler runs in this thread, so that only the compiler has to keep the order.
  static void set(bool now) noexcept {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    changing.store(now, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
};

/// The process, as far as fork() tells.
constinit std::atomic<pid_t> process{0};

/// A master's hot team, and whether making one pays.
class PrimaryThread {
 public:
  PrimaryThread() noexcept {
    // A child of fork() has no workers, so the hot team is dissolved in time. Once for all threads.
    static const int registered = [] {
      process.store(getpid(), std::memory_order_relaxed);
      return pthread_atfork([] { dissolve("fork"); }, nullptr, begin_child);
    }();
    static_cast<void>(registered);
  }
  ~PrimaryThread() {
    retire();
    // In other states than outside, the process ends within a region, and other threads may still use the hot team.
    if (smelt_openmp_state == outside && !lost_) smelt_team_free(hot_team_.team);
  }
  PrimaryThread(const PrimaryThread&) = delete;
  PrimaryThread& operator=(const PrimaryThread&) = delete;

  /// No hot teams from here on.
  void retire() noexcept {
    if (is_lost()) give_up();
    dissolve("the thread ends");
    retired_ = true;
  }

  HotTeam& hot_team() noexcept { return hot_team_; }
  bool retired() const noexcept { return retired_; }

  /// Whether to make a hot team now. After hot teams that were dissolved early, the original runs more and more
  /// regions.
  bool worth_it() noexcept {
    if (passes_ == 0) return true;
    --passes_;
    return false;
  }
  /// Whether the hot team is to be dissolved at the next region. The counters of LLVM's runtime begin anew with each of
  /// its regions, and once one of them wraps around (after 2^32 dynamic loops, 2^31 doacross loops) threads hang. So
  /// none of its regions may last as long as the program.
  bool old() const noexcept { return regions_ >= plenty && regions_ % plenty == 0 && coarse_s() >= until_s_; }

  void ran() noexcept {
    ++regions_;
    if (regions_ >= plenty) longest_ = shortest_pass;
  }
  /// Called when the hot team is dissolved, or could not be made; `regions_` tells whether creating it paid.
  void gone() noexcept {
    if (regions_ < plenty) {
      passes_ = longest_;
      if (longest_ < longest_pass) longest_ *= 2;
    }
    regions_ = 0;
  }

  /// A team of `size` for the hot team. False: out of memory.
  bool provide(const Runtime& runtime, int size) noexcept {
    if (hot_team_.team == nullptr || hot_team_.size != size || hot_team_.runtime != &runtime) {
      smelt_team_free(hot_team_.team);
      hot_team_.team = nullptr;
      reduced_.reset(new (std::nothrow) void*[static_cast<std::size_t>(size)]);
      hot_team_.reduced = reduced_.get();
      if (hot_team_.reduced == nullptr) return false;
      if (smelt_team_create(size, runtime.get_num_procs(), runtime.awake_s, &hot_team_.team) != SMELT_OK) return false;
    }
    hot_team_.copied = smelt_team_handed(hot_team_.team);
    hot_team_.runtime = &runtime;
    hot_team_.size = size;
    until_s_ = coarse_s() + longest_life_s;
    return true;
  }

 private:
  /// Whether the hot team cannot be dissolved: its threads are on their way in or out, or were left in another process
  /// by a fork that is not the C library's fork().
  static bool is_lost() noexcept {
    if (changing.load(std::memory_order_relaxed)) return true;
    return smelt_openmp_state != outside && process.load(std::memory_order_relaxed) != getpid();
  }
  void give_up() noexcept {
    smelt_openmp_state = outside;
    self = {};
    lost_ = true;
  }

  /// In a child of fork() that was called inside of a region: LLVM's runtime there is new, and the thread in no region.
  static void begin_child() noexcept;

  /// Seconds, at the cost of a load.
  static time_t coarse_s() noexcept {
    timespec now = {};
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return now.tv_sec;
  }

  static constexpr time_t longest_life_s = 2;  // making one takes some microseconds
  static constexpr std::uint32_t plenty = 16;
  static constexpr std::uint32_t shortest_pass = 4;
  static constexpr std::uint32_t longest_pass = 4096;

  HotTeam hot_team_;
  std::unique_ptr<void*[]> reduced_;
  std::uint32_t regions_ = 0;  ///< of this hot team
  std::uint32_t passes_ = 0;   ///< regions that the original gets before the next try
  std::uint32_t longest_ = shortest_pass;
  time_t until_s_ = 0;  ///< when the hot team is old
  bool retired_ = false;
  bool lost_ = false;  ///< see is_lost()
};

PrimaryThread& master() noexcept {
  thread_local PrimaryThread own;
  return own;
}

void PrimaryThread::begin_child() noexcept {
  process.store(getpid(), std::memory_order_relaxed);
  if (smelt_openmp_state == outside || self.hot_team->runtime->family != Family::llvm) return;
  if (self.hot_team == &master().hot_team_) master().hot_team_.team = nullptr;  // in use by threads that are not here
  smelt_openmp_state = outside;
  self = {};
}

void join_hot_team(HotTeam& hot_team, int member) noexcept {
  self.hot_team = &hot_team;
  self.member = member;
  self.barriers = 0;
  self.section = ThreadState::no_section;
  self.serialized = 0;
  if (hot_team.runtime->family == Family::llvm) self.global_number = hot_team.runtime->global_thread_num(nullptr);
}

/// The function that the runtime runs in every member except the master, which returns from parallel_start.
void serve(void* argument) noexcept {
  dissolve("a region of another runtime");  // that the thread was in, or is
  HotTeam& hot_team = *static_cast<HotTeam*>(argument);
  join_hot_team(hot_team, hot_team.runtime->get_thread_num());
  for (;;) {
    const smelt_work work = smelt_team_receive(hot_team.team, self.member);
    if (work.function == nullptr) break;
    // The master wrote it before the fork, and writes it again after the join.
    if (hot_team.runtime->family == Family::llvm) hot_team.control.adopt();
    smelt_openmp_state = inside;
    work.function(work.data);
  }
  smelt_openmp_state = outside;
  self.hot_team = nullptr;
}

/// Ends the runtime's region: all members have left the shim's function, or are about to.
void end_region() noexcept {
  HotTeam& hot_team = *self.hot_team;
  const auto control = FloatingPointControl::current();
  hot_team.runtime->parallel_end();
  // LLVM's runtime goes back to that of the time when the hot team was made.
  control.adopt();
  smelt_openmp_state = outside;  // self.hot_team stays valid for code that a signal handler has interrupted
  // The runtime's join is between the members' last access to the team and this.
  smelt_team_reset(hot_team.team);
  master().gone();
}

/// Enters a region of the runtime and parks. False: the number of threads is not the requested one.
bool start(const Runtime& runtime, int size) noexcept {
  PrimaryThread& own = master();
  bind_libraries_past_shim();
  {
    const Change change;
    if (!own.provide(runtime, size)) return false;
    HotTeam& hot_team = own.hot_team();
    self.max_threads = runtime.get_max_threads();
    runtime.parallel_start(serve, &hot_team, static_cast<unsigned>(size));
    join_hot_team(hot_team, 0);
    smelt_openmp_state = parked;
  }
  if (runtime.get_num_threads() == size) return true;
  dissolve("fewer threads than asked for");
  return false;
}

void nothing(void*) noexcept {}

/// Whether the thread, which is in no region, runs a task: the runtime runs those at once, in a frame of its own, and
/// keeps account of them. It must find the thread there as it left it, so not parked in another region.
bool in_task(const Runtime& runtime) noexcept {
  if (smelt_openmp_tasks == 0) return false;
  struct Search {
    Runtime::Code code;
    bool found = false;
  } search = {runtime.code};
  const auto look = [](_Unwind_Context* frame, void* argument) {
    Search& own = *static_cast<Search*>(argument);
    own.found = _Unwind_GetIP(frame) - own.code.begin < own.code.end - own.code.begin;
    return own.found ? _URC_NORMAL_STOP : _URC_NO_REASON;
  };
  _Unwind_Backtrace(look, &search);
  if (!search.found) smelt_openmp_tasks = 0;
  return search.found;
}

const char* why_not(const Runtime& runtime, int size) noexcept {
  if (smelt_openmp_state != outside) return "nested";
  if (const char* why = hot_teams_stopped()) return why;
  if (runtime.no_hot_teams != nullptr) return runtime.no_hot_teams;
  if (size < 2 || size > 4096) return "a team of one";
  if (runtime.get_level() != 0) return "nested";
  if (runtime.get_dynamic() != 0) return "omp_set_dynamic";
  PrimaryThread& own = master();
  if (own.retired()) return "the thread ends";
  if (!own.worth_it()) return "hot teams had to be dissolved too often";
  if (!in_task(runtime)) return nullptr;
  own.gone();  // looking takes as long as a region: not at each one
  return "in a task outside of regions";
}

void run_by_all(smelt_work work, int words) noexcept {
  HotTeam& hot_team = *self.hot_team;
  if (words != 0 && words <= SMELT_TEAM_WORDS) {
    smelt_team_fork_copied(hot_team.team, work, words);
  } else {
    smelt_team_fork(hot_team.team, work);
  }
  work.function(work.data);
  if (smelt_team_join(hot_team.team)) {
    smelt_openmp_state = parked;
    master().ran();
  } else {
    end_region();
  }
}

/// From one state to the next. False: a signal handler that called fork() has dissolved the hot team.
bool enter(State from, State to) noexcept {
  const Change change;
  if (smelt_openmp_state != from) return false;
  smelt_openmp_state = to;
  return true;
}

/// LLVM's runtime gives the master's floating-point control to all threads at the begin of a region, and back to the
/// master at its end.
void run(smelt_work work, int words) noexcept {
  HotTeam& hot_team = *self.hot_team;
  if (hot_team.runtime->family == Family::gnu) return run_by_all(work, words);
  const auto control = FloatingPointControl::current();
  if (hot_team.control != control) hot_team.control = control;
  run_by_all(work, words);
  control.adopt();
}

}  // namespace

bool run_region(const Runtime& runtime, int threads, smelt_work work, InterceptedFunction& entry, int words) noexcept {
  if (smelt_openmp_state == alone && self.hot_team->runtime == &runtime) dissolve("nested in a region of one");
  if (smelt_openmp_state == parked) {
    const int size = threads != 0 ? threads : self.max_threads;
    if (size == 1 && run_alone(runtime, work, entry)) return true;
    const bool fits = size == self.hot_team->size && &runtime == self.hot_team->runtime;
    const bool old = master().old();
    if (fits && !old && hot_teams_stopped() == nullptr && enter(parked, inside)) [[likely]] {
      entry.took();
      run(work, words);
      return true;
    }
    dissolve(fits && old ? "made anew every few seconds" : "a team of another size");
  }
  const int size = threads != 0 || smelt_openmp_state != outside ? threads : runtime.get_max_threads();
  if (const char* why = why_not(runtime, size)) {
    entry.passed(why);
    return false;
  }
  if (!start(runtime, size) || !enter(parked, inside)) {
    entry.passed("fewer threads than asked for");
    return false;
  }
  entry.took();
  run(work, words);
  return true;
}

BarrierServer try_barrier(InterceptedFunction& entry) noexcept {
  if (smelt_openmp_state == inside) [[likely]] {
    const auto kind = sample_kind(self.barriers++);
    if (kind == Sample::original) return BarrierServer::sampled;
    Stopwatch watch(entry, kind);
    if (hot_team_barrier()) [[likely]] {
      entry.took();
      return BarrierServer::ours;
    }
  }
  entry.passed(smelt_openmp_state == away ? called_off : "not in a region that was taken over");
  return BarrierServer::original;
}

void dissolve(const char* why) noexcept {
  const auto dissolved = [] { return (smelt_openmp_state & (parked | alone)) == 0; };
  if (dissolved() || changing.load(std::memory_order_relaxed)) return;
  const Change change;
  if (dissolved()) return;  // by a signal handler, just now
  const bool was_alone = smelt_openmp_state == alone;
  const Runtime& runtime = *self.hot_team->runtime;
  parked_entry.passed(why);
  smelt_team_fork(self.hot_team->team, {nullptr, nullptr});
  end_region();
  if (!was_alone) return;
  self.entered_alone = true;
  runtime.parallel_start(nothing, nullptr, 1);
}

bool run_alone(const Runtime& runtime, smelt_work work, InterceptedFunction& entry) noexcept {
  if (smelt_openmp_state != parked || self.hot_team->runtime != &runtime || runtime.family != Family::gnu) return false;
  if (hot_teams_stopped() != nullptr) return false;
  self.entered_alone = false;
  if (!enter(parked, alone)) return false;
  entry.took();
  work.function(work.data);
  if (!enter(alone, parked) && std::exchange(self.entered_alone, false)) {
    // Nested regions may have had a hot team, which was dissolved with them.
    runtime.parallel_end();
  }
  return true;
}

void call_off() noexcept {
  if (smelt_openmp_state != inside) return;
  smelt_openmp_state = away;
  smelt_team_call_off(self.hot_team->team, self.member);
}

}  // namespace smelt::shims::openmp

/// The main thread's thread-local objects outlive this, but not GNU's runtime, which then waits for its workers.
extern "C" [[gnu::visibility("default")]] void pthread_exit(void* value) {
  smelt::shims::openmp::master().retire();
  static const auto original = reinterpret_cast<decltype(&pthread_exit)>(dlsym(RTLD_NEXT, "pthread_exit"));
  original(value);
  __builtin_unreachable();
}
