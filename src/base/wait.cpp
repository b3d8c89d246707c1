#include "base/wait.hpp"

#include <sched.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#include <algorithm>
#include <ctime>

#include "base/clock.hpp"
#include "smelt/settings.hpp"

namespace smelt {
namespace {

// Bounds of the phases. Spinning longer than it costs to be woken by the kernel wastes more than
// it can win; the yield phase lets a neighbour on the same PU run without paying for a futex.
constexpr std::uint64_t pause_ns = 4'000;
constexpr std::uint64_t spin_ns = 20'000;
constexpr std::uint64_t yield_ns = 200'000;
constexpr std::uint64_t crowded_yield_ns = 5'000'000;
constexpr std::uint64_t slice_ns = 200'000;
constexpr std::uint64_t interrupt_every_ns = 20'000;
constexpr std::uint64_t unfenced_sleep_ns = 1'000'000;

std::uint64_t to_ticks(std::uint64_t ns) { return static_cast<std::uint64_t>(static_cast<double>(ns) * rough_ticks_per_ns()); }

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
  if (parking.parked.exchange(0, std::memory_order_relaxed) != 0) futex_wake(parking.parked);
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

bool wait_detail::has_monitor() noexcept { return true; }

void wait_detail::rest(const void* watch, bool (*ready)(void*), void* condition) noexcept {
  if (watch == nullptr) {
    relax();
    return;
  }
  // The exclusive load arms the monitor, whose loss is the event that ends WFE; the kernel's
  // event stream ends it, too, some thousand times a second.
  std::uint32_t value;
  asm volatile("ldxr %w0, [%1]" : "=r"(value) : "r"(watch) : "memory");
  if (!ready(condition)) asm volatile("wfe" : : : "memory");
}

#else

bool wait_detail::has_monitor() noexcept { return false; }
void wait_detail::rest(const void*, bool (*)(void*), void*) noexcept {}

#endif

/// One wait beyond the inlined polling.
class Waiter::Episode {
 public:
  Episode(Waiter& waiter, bool (*ready)(void*), void* condition, const void* watch) noexcept
      : waiter_(waiter), ready_(ready), condition_(condition), watch_(watch), start_(ticks()), last_asked_(start_) {}

  bool ready() const noexcept { return ready_(condition_); }
  bool interrupted() const noexcept { return interrupted_; }

  /// Asks the interrupt if it is time to. True: give up.
  bool ask(std::uint64_t now) noexcept {
    if (waiter_.interrupt_ == nullptr || now - last_asked_ < to_ticks(interrupt_every_ns)) return false;
    last_asked_ = now;
    return interrupted_ = waiter_.interrupt_(waiter_.context_);
  }

  /// Each phase: true if the wait is over (ready or interrupted).
  bool spin(std::uint64_t until) noexcept {
    const bool monitor = wait_detail::has_monitor();
    const std::uint64_t pause_ticks = to_ticks(pause_ns);
    for (std::uint64_t now = start_; now - start_ < until; now = ticks()) {
      if (ask(now)) return true;
      const bool rests = monitor && now - start_ >= pause_ticks;
      for (int i = 0; i < 8; ++i) {
        if (ready()) {
          if (waiter_.crowding_ > 0) --waiter_.crowding_;
          return true;
        }
        if (rests) {
          wait_detail::rest(watch_, ready_, condition_);
        } else {
          wait_detail::relax();
        }
      }
    }
    return false;
  }

  bool yield(std::uint64_t until) noexcept {
    for (std::uint64_t now = start_; now - start_ < until;) {
      if (ready()) return true;
      const std::uint64_t before = ticks();
      sched_yield();
      now = ticks();
      learn(now - before);
      if (ready() || ask(now)) return true;
    }
    return false;
  }

  bool sleep(const Bed& bed) noexcept {
    std::uint64_t nap_ns = 50'000;
    for (;;) {
      if (bed.parking != nullptr) {
        park(*bed.parking);
      } else if (bed.lie_down != nullptr) {
        bed.lie_down(bed.place, waiter_.config_.longest_sleep_ns);
      } else {
        const timespec nap = {0, static_cast<long>(nap_ns)};
        nanosleep(&nap, nullptr);
        nap_ns = std::min<std::uint64_t>(nap_ns * 2, unfenced_sleep_ns);
      }
      if (ready() || ask(ticks())) return true;
    }
  }

 private:
  /// A yield that took much longer than one that finds nobody shows that somebody else ran; one of a time slice, that
  /// it was another program, to which every further yield would give a slice, too.
  void learn(std::uint64_t yield_ticks) noexcept {
    auto& alone = waiter_.lone_yield_ticks_;
    if (alone == 0 || yield_ticks < alone) alone = yield_ticks;
    if (yield_ticks > to_ticks(slice_ns)) return;
    if (yield_ticks > 4 * alone) {
      waiter_.crowding_ = std::min(waiter_.crowding_ + 2, most_crowding);
      ++waiter_.displaced_;
    } else {
      if (waiter_.crowding_ > 0) --waiter_.crowding_;
      waiter_.displaced_ -= std::min(waiter_.displaced_, 4u);
    }
  }

  void park(Parking& parking) noexcept {
    // Partner: unpark(). This store, then the barrier, then ready(): whoever publishes after the
    // barrier sees the 1; whoever published before it is seen by ready().
    parking.parked.store(1, std::memory_order_relaxed);
    const bool fenced = heavy_barrier(waiter_.config_.across_processes);
    if (ready()) return;
    const auto longest = waiter_.config_.longest_sleep_ns;
    futex_wait(parking.parked, 1, fenced ? longest : std::min(longest, unfenced_sleep_ns));
  }

  Waiter& waiter_;
  bool (*ready_)(void*);
  void* condition_;
  const void* watch_;
  std::uint64_t start_;
  std::uint64_t last_asked_;
  bool interrupted_ = false;
};

Waiter::Waiter(const WaitConfig& config) noexcept : config_(config) {
  const bool shares = config.ranks_per_pu > 1.0;
  constexpr std::uint64_t forever = UINT64_MAX;
  constexpr std::uint32_t alone_polls = 64;
  lone_yield_ticks_ = to_ticks(500);  // lowered by the first yields
  switch (config.mode) {
    case WaitMode::automatic:
      tight_polls_ = shares ? few_polls : alone_polls;
      spin_ticks_ = shares ? 0 : to_ticks(spin_ns);
      yield_ticks_ = to_ticks(config.awake_ns != 0 ? config.awake_ns : shares ? crowded_yield_ns : yield_ns);
      break;
    case WaitMode::spin:
      tight_polls_ = alone_polls;
      spin_ticks_ = forever;
      break;
    case WaitMode::yield:
      tight_polls_ = shares ? few_polls : alone_polls;
      yield_ticks_ = forever;
      break;
    case WaitMode::sleep:
      tight_polls_ = few_polls;
      break;
  }
}

/// Whether to sleep at once for the sake of the wake-up. Two threads that yield to each other look busy and hot to the
/// kernel, which leaves them on one PU for tens of milliseconds though another is idle; a sleeper it wakes where there
/// is room.
bool Waiter::should_move(const Bed& bed) noexcept {
  if (displaced_ < long_displaced) return false;
  displaced_ = 0;
  return config_.mode == WaitMode::automatic && config_.ranks_per_pu <= 1.0 &&
         (bed.parking != nullptr || bed.lie_down != nullptr);
}

bool Waiter::wait_slowly(bool (*ready)(void*), void* condition, Bed bed, const void* watch) noexcept {
  Episode episode(*this, ready, condition, watch);
  // Where others need the PU, spinning only keeps them from making ready() true.
  const bool may_spin = spin_ticks_ != 0 && (crowding_ < crowded || config_.mode == WaitMode::spin);
  const bool done = should_move(bed) ? episode.sleep(bed)
                                     : (may_spin && episode.spin(spin_ticks_)) ||
                                           (yield_ticks_ != 0 && episode.yield(yield_ticks_)) || episode.sleep(bed);
  return done && !episode.interrupted();
}

}  // namespace smelt
