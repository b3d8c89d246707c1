#include "harness/worker.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <new>
#include <thread>

#include "base/cacheline.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "harness/statistics.hpp"

namespace smelt::bench {
namespace {

/// Not FUTEX_PRIVATE: ranks may be processes.
void sleep_while(std::atomic<std::uint32_t>& word, std::uint32_t value) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT, value, nullptr, nullptr, 0);
}
void wake_all(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

std::vector<int> split_integers(const std::string& text, bool& good) {
  std::vector<int> values;
  const char* at = text.data();
  const char* end = at + text.size();
  while (at < end) {
    int value = 0;
    const auto [next, status] = std::from_chars(at, end, value);
    if (status != std::errc() || value < 0 || (next < end && *next != ',')) {
      good = false;
      return {};
    }
    values.push_back(value);
    at = next < end ? next + 1 : next;
  }
  return values;
}

template <class T>
bool parse_number(const std::string& text, T& value) {
  const auto [next, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  return status == std::errc() && next == text.data() + text.size();
}

}  // namespace

// ---------------------------------------------------------------- specification

namespace {
/// From here on a window is as exact as a loop, and keeps the writing of inputs out of the time.
constexpr std::size_t large_bytes = 8192;
}  // namespace

bool WorkerSpec::oversubscribed() const {
  std::vector<int> distinct = pus;
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  return static_cast<std::size_t>(threads) > distinct.size();
}

std::string WorkerSpec::resolved_method() const {
  if (operation == "channel") return "loop";
  if (method == "back-to-back") return method;
  // A rank leaves these before the others have finished: in a loop the next one would overlap.
  static constexpr std::string_view overlapping[] = {"broadcast", "reduce", "two-phase-commit", "scatter", "gather",
                                                     "scan",      "exscan"};
  const bool overlaps = std::find(std::begin(overlapping), std::end(overlapping), operation) != std::end(overlapping);
  const bool large = operation != "barrier" && bytes >= large_bytes;
  const bool window = method == "window" || late_rank >= 0 || (method == "auto" && (overlaps || large));
  if (window && !oversubscribed()) return "window";
  return overlaps ? "loop+barrier" : "loop";
}

std::vector<std::string> worker_arguments(const WorkerSpec& spec) {
  const std::string pus = fmt::format("{}", fmt::join(spec.pus, ","));
  return {"--name",      spec.name,
          "--operation", spec.operation,
          "--threads",   std::to_string(spec.threads),
          "--processes", spec.processes ? "1" : "0",
          "--bytes",     std::to_string(spec.bytes),
          "--method",    spec.method,
          "--pus",       pus,
          "--model",     spec.model,
          "--sync",      spec.sync,
          "--late",      std::to_string(spec.late_rank),
          "--late-ns",   std::to_string(spec.late_ns)};
}

namespace {

/// One argument of a worker; false if it makes no sense.
bool read_argument(const std::string& key, const std::string& value, WorkerSpec& spec) {
  const auto word = [&](std::string& target) {
    target = value;
    return true;
  };
  if (key == "--name") return word(spec.name);
  if (key == "--operation") return word(spec.operation);
  if (key == "--threads") return parse_number(value, spec.threads) && spec.threads >= 1;
  if (key == "--processes") {
    spec.processes = value == "1";
    return value == "0" || value == "1";
  }
  if (key == "--bytes") return parse_number(value, spec.bytes);
  if (key == "--method") return word(spec.method);
  if (key == "--pus") {
    bool good = true;
    spec.pus = split_integers(value, good);
    return good;
  }
  if (key == "--model") return word(spec.model);
  if (key == "--sync") return word(spec.sync);
  if (key == "--late") return parse_number(value, spec.late_rank);
  if (key == "--late-ns") return parse_number(value, spec.late_ns);
  return false;
}

}  // namespace

Result<WorkerSpec> parse_worker_arguments(std::span<const std::string> arguments) {
  WorkerSpec spec;
  for (std::size_t a = 0; a + 1 < arguments.size(); a += 2) {
    if (!read_argument(arguments[a], arguments[a + 1], spec)) {
      return make_error(Status::invalid_argument, "worker: bad argument {} {}", arguments[a], arguments[a + 1]);
    }
  }
  if (arguments.size() % 2 != 0 || spec.pus.empty() || spec.operation.empty()) {
    return make_error(Status::invalid_argument, "a benchmark worker is started by `smelt bench` alone");
  }
  return spec;
}

// ---------------------------------------------------------------- shared memory
//
//   | header: phase word, phase | arrived | entered[0] stamps[0] | entered[1] stamps[1] | ...

struct Control::Header {
  std::atomic<std::uint32_t> announced{0};  ///< number of phases begun; publishes `phase`
  Phase phase;
  alignas(separation_bytes) std::atomic<std::uint32_t> arrived{0};  ///< ranks done with this phase
  std::atomic<std::uint32_t> wrong{0};                              ///< of those, ranks with wrong results
};

namespace {
constexpr std::size_t row_bytes =
    (separation_bytes + (Control::max_samples + 1) * sizeof(std::uint64_t) + separation_bytes - 1) / separation_bytes *
    separation_bytes;
}

Control::Control(void* memory, std::size_t bytes, int ranks, int file) noexcept
    : memory_(memory), bytes_(bytes), ranks_(ranks), file_(file) {}

Control::Control(Control&& other) noexcept
    : memory_(std::exchange(other.memory_, nullptr)),
      bytes_(other.bytes_),
      ranks_(other.ranks_),
      file_(std::exchange(other.file_, -1)) {}

Control::~Control() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
  if (file_ >= 0) close(file_);
}

Result<Control> Control::map(int file, int ranks) {
  const std::size_t bytes = sizeof(Header) + separation_bytes + static_cast<std::size_t>(ranks) * row_bytes;
  const int flags = file < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, file, 0);
  if (memory == MAP_FAILED) return make_error(Status::out_of_memory, "cannot map {} bytes for a benchmark team", bytes);
  return Control(memory, bytes, ranks, file);
}

Result<Control> Control::create(int ranks) {
  auto control = map(-1, ranks);
  if (control) new (control->memory_) Header();
  return control;
}

Result<Control> Control::create_shared(int ranks) {
  const int file = memfd_create("smelt-bench", 0);
  const std::size_t bytes = sizeof(Header) + separation_bytes + static_cast<std::size_t>(ranks) * row_bytes;
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) {
    return make_error(Status::io_error, "cannot create {} bytes of shared memory for a benchmark team", bytes);
  }
  auto control = map(file, ranks);
  if (control) new (control->memory_) Header();
  return control;
}

std::string Control::path() const { return fmt::format("/proc/{}/fd/{}", getpid(), file_); }

Result<Control> Control::open(const std::string& path, int ranks) {
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return make_error(Status::io_error, "cannot open the shared memory of rank 0 at {}", path);
  return map(file, ranks);
}

std::byte* Control::row(int rank) noexcept {
  const std::size_t start = (sizeof(Header) + separation_bytes - 1) / separation_bytes * separation_bytes;
  return static_cast<std::byte*>(memory_) + start + static_cast<std::size_t>(rank) * row_bytes;
}

std::atomic<std::uint64_t>& Control::entered(int rank) noexcept {
  return *reinterpret_cast<std::atomic<std::uint64_t>*>(row(rank));
}

std::uint64_t* Control::stamps(int rank) noexcept {
  return reinterpret_cast<std::uint64_t*>(row(rank) + separation_bytes);
}

void Control::begin(const Phase& phase) noexcept {
  Header& h = header();
  h.phase = phase;
  h.arrived.store(0, std::memory_order_relaxed);  // ordered by the release below
  h.wrong.store(0, std::memory_order_relaxed);
  h.announced.fetch_add(1, std::memory_order_release);  // pairs with await(): publishes the phase
  wake_all(h.announced);
}

Phase Control::await(std::uint32_t& seen) noexcept {
  Header& h = header();
  while (h.announced.load(std::memory_order_acquire) == seen) sleep_while(h.announced, seen);  // pairs with begin()
  ++seen;
  return h.phase;
}

void Control::arrive(bool good) noexcept {
  Header& h = header();
  if (!good) h.wrong.fetch_add(1, std::memory_order_relaxed);  // published by the release below
  // Pairs with finish(): publishes this rank's stamps.
  if (h.arrived.fetch_add(1, std::memory_order_release) + 2 == static_cast<std::uint32_t>(ranks_)) wake_all(h.arrived);
}

bool Control::finish() noexcept {
  Header& h = header();
  for (;;) {
    const std::uint32_t arrived = h.arrived.load(std::memory_order_acquire);  // pairs with arrive()
    if (arrived + 1 == static_cast<std::uint32_t>(ranks_)) break;
    sleep_while(h.arrived, arrived);
  }
  return h.wrong.load(std::memory_order_relaxed) == 0;
}

// ---------------------------------------------------------------- rank 0

namespace {

void say(const std::string& line) {
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fputc('\n', stdout);
  std::fflush(stdout);
}

void say_series(const char* name, const std::vector<double>& samples_ns) {
  std::string line = fmt::format("series {}", name);
  for (double sample : samples_ns) line += fmt::format(" {:.2f}", sample);
  say(line);
}

/// Runs phases and turns stamps into samples.
class Coordinator {
 public:
  Coordinator(const Member& member, const std::function<bool(const Phase&)>& execute)
      : control_(member.control), spec_(member.spec), execute_(execute), method_(member.spec.resolved_method()) {}

  bool run(const Phase& phase) {
    control_.begin(phase);
    const bool mine = execute_(phase);
    return control_.finish() && mine;
  }

  void quit() { control_.begin({}); }

  /// A few operations, then more if they are quick, every result looked at in full.
  bool verify() {
    const std::uint64_t start = monotonic_ns();
    if (!run({Phase::Kind::verify, 4})) return false;
    return monotonic_ns() - start > 20'000'000 || run({Phase::Kind::verify, 64});
  }

  /// Finds what one iteration costs: runs of doubling length until one takes milliseconds. The first ones may be long
  /// because ranks are still waking up: it goes on while twice as many iterations take no longer.
  bool calibrate() {
    double before_ns = 0;
    for (std::uint32_t n = 1;; n *= 2) {
      if (!run({Phase::Kind::loop, 1, n})) return false;
      const double total_ns = span_ns(0, 0, 1);
      mean_ns_ = std::max(1.0, total_ns / n);
      iteration_ns_ = std::min(iteration_ns_, mean_ns_);
      const bool settled = n > 1 && total_ns > before_ns;
      if ((total_ns > 2e6 && settled) || n >= 8192) break;
      before_ns = total_ns;
    }
    return spec_.operation != "channel" || stream(1e6, false);
  }

  bool measure(double turn_ns) {
    if (spec_.operation == "channel") return loop(turn_ns / 2) && stream(turn_ns / 2, true);
    return method_ == "window" ? windows(turn_ns) : loop(turn_ns);
  }

 private:
  double span_ns(int rank, std::uint32_t from, std::uint32_t to) {
    const std::uint64_t* stamps = control_.stamps(rank);
    return static_cast<double>(stamps[to] - stamps[from]) / ticks_per_ns_;
  }

  static std::uint32_t whole(double value, double most) {
    return static_cast<std::uint32_t>(std::clamp(value, 1.0, most));
  }

  bool loop(double turn_ns) {
    const std::uint32_t per_sample = whole(sample_ns / iteration_ns_, 1000);
    const std::uint32_t samples = whole(turn_ns / (per_sample * mean_ns_), Control::max_samples);
    const std::uint32_t references = std::min<std::uint32_t>(samples, 8);
    if (!run({Phase::Kind::empty_loop, references, per_sample})) return false;
    const double empty_ns = busiest_span(stamps(references), spec_.pus) / ticks_per_ns_ / per_sample;
    if (!run({Phase::Kind::loop, samples, per_sample})) return false;
    std::vector<double> times = per_operation_ns(spans_of_last(stamps(samples)), per_sample);
    mean_ns_ = std::max(1.0, span_ns(0, 0, samples) / samples / per_sample);
    iteration_ns_ = std::clamp(summarize(times).median, 1.0, mean_ns_);
    for (double& time : times) time = std::max(0.0, time - empty_ns);
    say_series("time", times);
    return true;
  }

  Stamps stamps(std::uint32_t samples) {
    Stamps rows;
    for (int r = 0; r < control_.ranks(); ++r) rows.emplace_back(control_.stamps(r), control_.stamps(r) + samples + 1);
    return rows;
  }

  std::vector<double> per_operation_ns(const std::vector<std::uint64_t>& spans, std::uint32_t per_sample) const {
    std::vector<double> times;
    for (const auto span : spans) times.push_back(static_cast<double>(span) / ticks_per_ns_ / per_sample);
    return times;
  }

  /// The receiver's stamps count: the sender's show only when it could get rid of the messages.
  bool stream(double turn_ns, bool report) {
    const std::uint32_t per_sample = whole(10 * sample_ns / message_ns_, 100'000);
    const std::uint32_t samples = whole(turn_ns / (per_sample * message_ns_), Control::max_samples);
    if (!run({Phase::Kind::stream, samples, per_sample})) return false;
    std::vector<double> times;
    for (std::uint32_t s = 0; s < samples; ++s) times.push_back(span_ns(1, s, s + 1) / per_sample);
    message_ns_ = std::max(0.1, summarize(times).median);
    if (report) say_series("message", times);
    return true;
  }

  bool windows(double turn_ns) {
    std::vector<double> times;
    if (!run(window_phase(Phase::Kind::empty_window, 2000, 200))) return false;
    collect_windows(200, 0.0, times);
    const double empty_ns = summarize(times).median;
    if (times.empty()) return await_longer();  // this machine is too busy for windows now

    const double period_ns = 1000 + static_cast<double>(spec_.late_ns) + 2 * slack_ * iteration_ns_;
    const std::uint32_t samples = std::max(fewest_windows, whole(turn_ns / period_ns, Control::max_samples));
    Phase phase = window_phase(Phase::Kind::window, period_ns, samples);
    phase.warm_up = std::max(least_warm_up, whole(std::ceil(warm_up_ns / iteration_ns_), 16));
    phase.start_ticks += static_cast<std::uint64_t>(2 * phase.warm_up * iteration_ns_ * ticks_per_ns_);
    if (!run(phase)) return false;
    times.clear();
    collect_windows(samples, empty_ns, times);
    if (times.empty()) return await_longer();
    if (times.size() < samples * 3 / 4 && slack_ < 64) slack_ *= 2;
    say_series("time", times);
    return true;
  }

  /// A turn without one window that all ranks began in time: gives them longer to wake up.
  bool await_longer() {
    if (patience_ < 64) patience_ *= 2;
    return true;
  }

  /// All ranks must have woken up and written their inputs before the first window; those that
  /// have not drop it.
  Phase window_phase(Phase::Kind kind, double period_ns, std::uint32_t samples) const {
    const double lead_ns = patience_ * (100'000 + 20'000.0 * control_.ranks()) + period_ns;
    const auto in_ticks = [this](double ns) { return static_cast<std::uint64_t>(ns * ticks_per_ns_); };
    const double late_ns = kind == Phase::Kind::window ? static_cast<double>(spec_.late_ns) : 0.0;
    return {kind, samples, 1, ticks() + in_ticks(lead_ns), in_ticks(period_ns), in_ticks(late_ns)};
  }

  /// Windows that every rank began in time: the maximum over ranks, less the cost of an empty one.
  void collect_windows(std::uint32_t samples, double empty_ns, std::vector<double>& times) {
    for (std::uint32_t w = 0; w < samples; ++w) {
      std::uint64_t longest = 0;
      bool in_time = true;
      for (int r = 0; r < control_.ranks(); ++r) {
        const std::uint64_t stamp = control_.stamps(r)[w];
        in_time &= stamp != 0;
        longest = std::max(longest, stamp);
      }
      if (in_time) times.push_back(std::max(0.0, static_cast<double>(longest) / ticks_per_ns_ - empty_ns));
    }
  }

  static constexpr double sample_ns = 10'000;         ///< aimed length of one sample of a loop
  static constexpr std::uint32_t fewest_windows = 2;  ///< in a turn, however long
  /// A turn begins with ranks that have slept, whose buffers have left the caches meanwhile.
  static constexpr double warm_up_ns = 10'000'000;
  static constexpr std::uint32_t least_warm_up = 3;  ///< operations: about so many it takes until 16 MiB are back

  Control& control_;
  const WorkerSpec& spec_;
  const std::function<bool(const Phase&)>& execute_;
  const std::string method_;
  const double ticks_per_ns_ = ticks_per_ns();
  double iteration_ns_ = 1e12;  ///< of an undisturbed iteration: sizes samples
  double mean_ns_ = 0;          ///< of all, disturbed ones too: sizes turns
  double message_ns_ = 100;
  double slack_ = 1;     ///< factor on the time between windows
  double patience_ = 1;  ///< factor on the time before the first one
};

bool serve_rounds(Coordinator& coordinator) {
  std::string line;
  while (std::getline(std::cin, line) && line != "quit") {
    double turn_us = 0;
    if (!line.starts_with("round ") || !parse_number(line.substr(6), turn_us) || !(turn_us > 0 && turn_us < 1e8)) {
      say("error unknown request");
      return false;
    }
    if (!coordinator.measure(turn_us * 1000)) {
      say("error a result of the timed runs is wrong");
      return false;
    }
    say("done");
  }
  return true;
}

}  // namespace

bool coordinate(const Member& member, const Introduction& introduction,
                const std::function<bool(const Phase&)>& execute) {
  Coordinator coordinator(member, execute);
  std::string pids = "pids";
  if (introduction.pids.empty()) pids += fmt::format(" {}", getpid());
  for (int pid : introduction.pids) pids += fmt::format(" {}", pid);
  say(pids);
  say("info method " + member.spec.resolved_method());
  for (const auto& [key, value] : introduction.facts) say("info " + key + " " + value);

  bool good = true;
  if (!coordinator.verify() || !coordinator.calibrate()) {
    say("error the verification found a wrong result");
    good = false;
  } else {
    say("ready");
    good = serve_rounds(coordinator);
  }
  coordinator.quit();
  return good;
}

void prepare_worker_process() { prctl(PR_SET_PDEATHSIG, SIGKILL); }

void pin_rank(const WorkerSpec& spec, int rank) {
  cpu_set_t* set = CPU_ALLOC(4096);
  const std::size_t bytes = CPU_ALLOC_SIZE(4096);
  CPU_ZERO_S(bytes, set);
  CPU_SET_S(static_cast<std::size_t>(spec.pus[static_cast<std::size_t>(rank) % spec.pus.size()]), bytes, set);
  sched_setaffinity(0, bytes, set);  // a PU gone since the start: run unpinned rather than not
  CPU_FREE(set);
}

void run_threads(const WorkerSpec& spec, const std::function<void(int rank)>& f) {
  std::vector<std::thread> threads;
  for (int r = 1; r < spec.threads; ++r) threads.emplace_back(f, r);
  f(0);
  for (auto& thread : threads) thread.join();
}

int fail_worker(const std::string& reason) {
  say("error " + reason);
  return 1;
}

}  // namespace smelt::bench
