#include "base/wait.hpp"

#include <sched.h>
#include <sys/resource.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

#include <algorithm>
#include <ctime>
#include <utility>

#include "base/cgroup.hpp"
#include "base/clock.hpp"
#include "smelt/settings.hpp"

namespace smelt {
namespace {

constexpr std::uint64_t looks_apart_ns = 32;

// Bounds of the phases. Spinning for longer than a wake-up by the kernel takes wastes more than it can gain. The yield
// phase lets another thread on the same PU run without the cost of a futex.
constexpr std::uint64_t pause_ns = 4'000;
constexpr std::uint64_t spin_ns = 20'000;
constexpr std::uint64_t yield_ns = 200'000;
constexpr std::uint64_t crowded_yield_ns = 5'000'000;
constexpr std::uint64_t interrupt_every_ns = 20'000;
constexpr std::uint64_t interrupt_overdue_ns = 20'000'000;
constexpr std::uint64_t unfenced_sleep_ns = 1'000'000;
constexpr std::uint64_t polling_nap_ns = 20'000;
constexpr std::uint64_t noted_every_ns = 50'000;

alignas(separation_bytes) constinit YieldSuppression process_yield_suppression;

std::uint64_t to_ticks(std::uint64_t ns) {
  return static_cast<std::uint64_t>(static_cast<double>(ns) * rough_ticks_per_ns());
}
std::uint64_t to_ns(std::uint64_t ticks) {
  return static_cast<std::uint64_t>(static_cast<double>(ticks) / rough_ticks_per_ns());
}

/// Duration of PAUSE, which differs much between CPUs. The minimum of several measurements, as a thread may be
/// interrupted.
void find_relaxes_between_looks() noexcept {
  constexpr std::uint32_t relaxes = 32;
  std::uint64_t shortest = UINT64_MAX;
  for (int i = 0; i < 3; ++i) {
    const std::uint64_t start = ticks();
    for (std::uint32_t n = 0; n < relaxes; ++n) wait_detail::relax();
    shortest = std::min(shortest, ticks() - start);
  }
  const std::uint64_t all = std::max<std::uint64_t>(1, shortest), wanted = to_ticks(looks_apart_ns * relaxes);
  const std::uint64_t rounded = std::clamp<std::uint64_t>((wanted + all / 2) / all, 1, relaxes);
  wait_detail::pauses_between_polls.store(static_cast<std::uint32_t>(rounded), std::memory_order_relaxed);
}

/// Number of context switches of the calling thread in which it did not sleep, such as those by sched_yield().
long switches() noexcept {
  rusage usage = {};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nivcsw;
}

}  // namespace

std::optional<WaitMode> parse_wait_mode(std::string_view text) {
  if (text == "auto") return WaitMode::automatic;
  if (text == "spin") return WaitMode::spin;
  if (text == "yield") return WaitMode::yield;
  if (text == "sleep") return WaitMode::sleep;
  return std::nullopt;
}

WaitConfig make_wait_config(int ranks, int parallelism, std::string_view mode, bool across_processes) {
  WaitConfig config;
  auto parsed = parse_wait_mode(mode);
  if (!parsed) parsed = parse_wait_mode(setting_value("SMELT_WAIT"));
  config.mode = parsed.value_or(WaitMode::automatic);
  config.ranks_per_pu = std::max(1.0, static_cast<double>(ranks) / std::max(1, parallelism));
  config.across_processes = across_processes;
  return config;
}

void wait_detail::wake(Parking& parking) noexcept {
  auto value = parking.parked.load(std::memory_order_relaxed);
  while ((value & Parking::asleep) != 0) {
    if (!parking.parked.compare_exchange_weak(value, value + 1, std::memory_order_relaxed)) continue;
    return futex_wake(parking.parked, parking.scope);
  }
}

#if defined(__x86_64__)

bool wait_detail::has_monitor() noexcept {
  static const bool present = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (c >> 5 & 1) != 0;
  }();
  return present;
}

[[gnu::target("waitpkg")]] void wait_detail::rest(const void* watch, bool (*ready)(void*), void* condition) noexcept {
  constexpr unsigned quick_to_wake = 1;  // state C0.1
  const std::uint64_t until = __rdtsc() + to_ticks(1'000);
  if (watch == nullptr) {
    _tpause(quick_to_wake, until);
    return;
  }
  _umonitor(const_cast<void*>(watch));
  if (!ready(condition)) _umwait(quick_to_wake, until);
}

#elif defined(__aarch64__)

/// Without the kernel's event stream, nothing ends WFE where the line is not written.
bool wait_detail::has_monitor() noexcept {
  static const bool ends = (getauxval(AT_HWCAP) & HWCAP_EVTSTRM) != 0;
  return ends;
}

void wait_detail::rest(const void* watch, bool (*ready)(void*), void* condition) noexcept {
  if (watch == nullptr) {
    relax();
    return;
  }
  // The exclusive load arms the monitor, and its loss ends WFE. The event stream ends it, too, some thousand times a
  // second.
  std::uint32_t value;
  asm volatile("ldxr %w0, [%1]" : "=r"(value) : "r"(watch) : "memory");
  if (!ready(condition)) asm volatile("wfe" : : : "memory");
}

#else

bool wait_detail::has_monitor() noexcept { return false; }
void wait_detail::rest(const void*, bool (*)(void*), void*) noexcept {}

#endif

/// One wait beyond the inlined polling.
class Waiter::SlowWait {
 public:
  /// `start`: now; ignored by a wait that sleeps immediately and has no interrupt.
  SlowWait(Waiter& waiter, bool (*ready)(void*), void* condition, const void* watch, std::uint64_t start) noexcept
      : waiter_(waiter), ready_(ready), condition_(condition), watch_(watch), start_(start), last_asked_(start) {}

  std::uint64_t start() const noexcept { return start_; }

  bool ready() const noexcept { return ready_(condition_); }
  bool interrupted() const noexcept { return interrupted_; }

  /// Calls the interrupt function if it is due. True: give up.
  bool ask(std::uint64_t now) noexcept {
    if (waiter_.interrupt_ == nullptr || now - last_asked_ < to_ticks(interrupt_every_ns)) return false;
    last_asked_ = waiter_.last_asked_ = now;
    return interrupted_ = waiter_.interrupt_(waiter_.context_);
  }

  /// At the beginning: as ask(), where the waits before were all too short for it.
  bool ask_if_overdue() noexcept {
    if (waiter_.interrupt_ == nullptr || start_ - waiter_.last_asked_ < to_ticks(interrupt_overdue_ns)) return false;
    last_asked_ = waiter_.last_asked_;
    return ask(start_);
  }

  /// Does what there is to do meanwhile. True: there is more.
  bool poll() noexcept { return waiter_.poll_ != nullptr && waiter_.poll_(waiter_.context_); }

  /// The phases. Each returns true if the wait is over (ready or interrupted).
  bool spin(std::uint64_t until) noexcept {
    const bool monitor = wait_detail::has_monitor();
    const std::uint64_t pause_ticks = to_ticks(pause_ns);
    for (std::uint64_t now = start_; now - start_ < until; now = ticks()) {
      if (ask(now)) return true;
      (void)poll();
      const bool rests = monitor && now - start_ >= pause_ticks;
      for (int i = 0; i < 8; ++i) {
        if (ready()) {
          waiter_.contention_.spun();
          return true;
        }
        if (rests) {
          wait_detail::rest(watch_, ready_, condition_);
        } else {
          wait_detail::pause_between_polls();
        }
      }
    }
    return false;
  }

  /// Also returns false once yields are known to cost time slices, unless `always`.
  bool yield(std::uint64_t until, bool always) noexcept {
    for (std::uint64_t now = start_; poll() || now - start_ < until;) {
      if (ready()) return true;
      now = yield_once();
      if (ready() || ask(now)) return true;
      if (!always && waiter_.contention_.take_slices(to_ns(now))) return false;
    }
    return false;
  }

  bool sleep(const SleepMethod& sleep_method) noexcept {
    std::uint64_t nap_ns = 50'000;
    for (;;) {
      const auto longest_ns = poll() ? polling_nap_ns : waiter_.config_.longest_sleep_ns;
      if (sleep_method.parking != nullptr) {
        park(*sleep_method.parking, longest_ns);
      } else if (sleep_method.sleep_for != nullptr) {
        sleep_method.sleep_for(sleep_method.place, longest_ns);
      } else {
        const timespec nap = {0, static_cast<long>(std::min(nap_ns, longest_ns))};
        nanosleep(&nap, nullptr);
        nap_ns = std::min<std::uint64_t>(nap_ns * 2, unfenced_sleep_ns);
      }
      if (ready() || ask(ticks())) return true;
    }
  }

 private:
  /// Returns the time at which it ended.
  std::uint64_t yield_once() noexcept {
    auto& contention = waiter_.contention_;
    const bool watches = contention.watches(to_ns(ticks()));
    const long switched = watches ? switches() : 0;
    const std::uint64_t before = ticks();
    sched_yield();
    const std::uint64_t now = ticks();
    const std::uint64_t took_ns = to_ns(now - before);
    // Hypervisors deschedule PUs as well, and a quota stops all threads of the process.
    const bool nobody = watches && took_ns >= PuContention::slice_ns && (switches() == switched || was_throttled());
    if (!nobody) contention.yielded(to_ns(now), took_ns, to_ns(late(before, now)));
    return now;
  }

  /// Whether the process was stopped since this waiter asked last.
  bool was_throttled() noexcept {
    const auto ask = waiter_.config_.throttled;
    const std::uint64_t time = ask != nullptr ? ask() : throttled_time();
    return std::exchange(waiter_.throttled_, time) != time;
  }

  /// The part of a yield during which the awaited event had already happened.
  std::uint64_t late(std::uint64_t before, std::uint64_t now) const noexcept {
    const auto& config = waiter_.config_;
    const auto* const happened = config.happened != nullptr ? config.happened : config.wait_began;
    if (happened == nullptr) return now - before;
    if (!ready()) return 0;
    // Relaxed, and read after ready(): written shortly before or after the event that made that true.
    return now - std::clamp(happened->load(std::memory_order_relaxed), before, now);
  }

  void park(Parking& parking, std::uint64_t longest) noexcept {
    // Pairs with unpark() and unpark_by_rmw(). First the mark, then the barrier, then ready(): a waker that publishes
    // after the barrier sees the mark, and one that published before it is seen by ready(). Wakers by read-modify-write
    // change the same word: later ones see the mark, and earlier ones have published to this thread.
    if (waiter_.config_.wakes_by_rmw) return park_unless([this] { return ready(); }, parking, longest);
    const auto marked = wait_detail::mark(parking);
    const bool fenced = heavy_barrier(waiter_.config_.across_processes);
    if (ready()) return;
    wait_detail::sleep_at(parking, marked, fenced ? longest : std::min(longest, unfenced_sleep_ns));
  }

  Waiter& waiter_;
  bool (*ready_)(void*);
  void* condition_;
  const void* watch_;
  std::uint64_t start_;
  std::uint64_t last_asked_;
  bool interrupted_ = false;
};

Waiter::Waiter(const WaitConfig& config) noexcept
    : contention_(config.yield_suppression != nullptr ? *config.yield_suppression : process_yield_suppression,
                  config.slices_are_ours      ? PuContention::never
                  : config.ranks_per_pu > 1.0 ? PuContention::shared_slice_ns
                                              : PuContention::slice_ns),
      config_(config) {
  [[maybe_unused]] static const bool found = (find_relaxes_between_looks(), true);
  const bool shares = config.ranks_per_pu > 1.0;
  constexpr std::uint64_t forever = UINT64_MAX;
  constexpr std::uint32_t alone_polls = 64;
  switch (config.mode) {
    case WaitMode::automatic:
      tight_polls_ = shares ? few_polls : alone_polls;
      spin_ticks_ = shares ? 0 : to_ticks(spin_ns);
      // At least one: a tick is 40 ns on some machines, and waiters without this phase do not stay awake to poll.
      yield_ticks_ = std::max<std::uint64_t>(to_ticks(config.awake_ns != 0 ? config.awake_ns
                                                      : shares             ? crowded_yield_ns
                                                                           : yield_ns),
                                             1);
      break;
    case WaitMode::spin:
      tight_polls_ = alone_polls;
      spin_ticks_ = forever;
      break;
    case WaitMode::yield:
      tight_polls_ = shares ? few_polls : alone_polls;
      yield_ticks_ = forever;
      break;
    case WaitMode::sleep: tight_polls_ = few_polls; break;
  }
}

void Waiter::set_interrupt(bool (*interrupt)(void*), void* context, bool (*poll)(void*)) noexcept {
  interrupt_ = interrupt;
  poll_ = poll;
  context_ = context;
  last_asked_ = ticks();
}

/// Whether to sleep immediately, so that the kernel moves the thread when it wakes it. Two threads that yield to each
/// other look busy and cache-hot to the kernel, which leaves them on one PU for tens of milliseconds although another
/// is idle.
bool Waiter::should_move(const SleepMethod& sleep_method) noexcept {
  return contention_.keep_displacing() && config_.mode == WaitMode::automatic && config_.ranks_per_pu <= 1.0 &&
         (sleep_method.parking != nullptr || sleep_method.sleep_for != nullptr);
}

/// Seldom enough that the others' copies of the line stay valid: time slices are much longer.
void Waiter::note_beginning(std::uint64_t now) noexcept {
  auto* const began = config_.wait_began;
  if (began == nullptr || now - began->load(std::memory_order_relaxed) < to_ticks(noted_every_ns)) return;
  began->store(now, std::memory_order_relaxed);
}

/// Runs the phases before sleep. True if the wait is over.
bool Waiter::stay_awake(SlowWait& episode) noexcept {
  const bool always = config_.mode != WaitMode::automatic || config_.slices_are_ours;
  const bool costs_slices = !always && contention_.take_slices(to_ns(episode.start()));
  // If other threads need the PU, spinning only delays the one that makes ready() true.
  if (spin_ticks_ != 0 && (!contention_.crowd() || config_.mode == WaitMode::spin)) {
    if (episode.spin(spin_ticks_)) return true;
  }
  if (costs_slices) {
    contention_.settle();
    return false;
  }
  note_beginning(episode.start());
  return yield_ticks_ != 0 && episode.yield(yield_ticks_, always);
}

bool Waiter::wait_slowly(bool (*ready)(void*), void* condition, SleepMethod sleep_method, const void* watch) noexcept {
  const bool at_once = contention_.sleeps_at_once();
  SlowWait episode(*this, ready, condition, watch, at_once && interrupt_ == nullptr ? 0 : ticks());
  if (episode.ask_if_overdue()) return false;
  const bool done = (!at_once && !should_move(sleep_method) && stay_awake(episode)) || episode.sleep(sleep_method);
  return done && !episode.interrupted();
}

}  // namespace smelt
