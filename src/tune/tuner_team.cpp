#include "tune/tuner_team.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/read_timing.hpp"
#include "comm/collective/communicator_state.hpp"
#include "tune/algorithm_race.hpp"

namespace smelt::comm {
namespace {

constexpr double missed = std::numeric_limits<double>::max();
/// From this size on, writing the inputs would dominate a loop.
constexpr std::size_t least_window_bytes = 8192;
/// Windows of calls this short follow each other without other communication between the ranks, which would evict what
/// a program's own calls find in caches and branch predictors.
constexpr std::size_t most_bytes_in_a_row = std::size_t{8} << 10;  ///< of a rank's buffers
constexpr int windows_in_a_row = 8;
constexpr double slow_copy_ns_per_byte = 0.1;  ///< upper bound for a copy within a rank's memory
constexpr std::size_t most_varied_bytes = std::size_t{8} << 20;

/// Whether a rank can finish before others have arrived, so that the calls of a loop would overlap.
bool overlaps(Operation operation) {
  switch (operation) {
    case Operation::allreduce:
    case Operation::allgather:
    case Operation::alltoall:
    case Operation::reduce_scatter: return false;
    default: return true;
  }
}

/// Whether a rank sends before it has received anything.
bool starts(Operation operation, int rank, int size) {
  switch (operation) {
    case Operation::broadcast:
    case Operation::scatter: return rank == 0;
    case Operation::reduce:
    case Operation::gather: return rank != 0 || size == 1;
    case Operation::scan:
    case Operation::exscan: return rank != size - 1 || size == 1;
    default: return true;
  }
}

struct BufferLengths {
  std::size_t in = 0, out = 0;
};

BufferLengths lengths_of(const TunerCall& call, int rank, int ranks) {
  const std::size_t one = call.bytes, all = call.bytes * static_cast<std::size_t>(ranks);
  const bool root = rank == 0;
  switch (call.operation) {
    case Operation::broadcast: return {0, one};
    case Operation::reduce: return {one, root ? one : 0};
    case Operation::scatter: return {root ? all : 0, one};
    case Operation::gather: return {one, root ? all : 0};
    case Operation::allgather: return {one, all};
    case Operation::alltoall: return {all, all};
    case Operation::reduce_scatter: return {all, one};
    default: return {one, one};
  }
}

/// Duration of an empty window.
double empty_window_ns() {
  constexpr int windows = 64;
  const auto wait = static_cast<std::uint64_t>(500.0 * ticks_per_ns());
  std::vector<double> times;
  for (int n = 0; n < windows; ++n) {
    const auto start = ticks() + wait;
    while (ticks() < start) {}
    times.push_back(static_cast<double>(ticks() - start) / ticks_per_ns());
  }
  return midmean_of(times);
}

}  // namespace

TunerTeam::TunerTeam(std::vector<Endpoint*> places, bool crowded)
    : places_(std::move(places)),
      endpoint_(*places_.front()),
      crowded_(crowded),
      memories_(places_.size()),
      window_ns_(empty_window_ns()),
      guard_ticks_(static_cast<std::uint64_t>(3000.0 * ticks_per_ns())) {
  constexpr std::size_t apart = 21 * line_bytes;  // three places divide a page
  for (std::size_t i = 0; i < memories_.size(); ++i) {
    memories_[i].in_shift = i * apart;
    memories_[i].out_shift = (memories_.size() - i) % memories_.size() * apart;
  }
}

bool TunerTeam::uses_windows(const TunerCall& call) const noexcept {
  if (crowded_) return false;
  if (call.bytes >= least_window_bytes) return true;
  return call.sync == Sync::loose && overlaps(call.operation);
}

/// Short vectors are buffered by their transport, so that no rank waits for the root.
bool TunerTeam::both_ways(const TunerCall& call) const noexcept {
  return !crowded_ && call.sync == Sync::loose && call.operation == Operation::reduce &&
         call.bytes >= least_window_bytes;
}

std::size_t TunerTeam::buffer_bytes(const TunerCall& call, int ranks) noexcept {
  const auto lengths = lengths_of(call, 0, ranks);
  return lengths.in + lengths.out;
}

/// Buffers that fit no cache behave the same at every place, so that one place suffices.
TunerTeam::Memory& TunerTeam::memory(const TunerCall& call, int place) noexcept {
  const bool varies = buffer_bytes(call, endpoint_.size()) <= most_varied_bytes;
  return memories_[varies ? static_cast<std::size_t>(place) : 0];
}

std::string TunerTeam::failure() const {
  for (Endpoint* place : places_) {
    if (place->state().status() != Status::ok) return place->state().failure();
  }
  return {};
}

bool TunerTeam::make_room(const TunerCall& call) noexcept {
  const auto lengths = lengths_of(call, endpoint_.rank(), endpoint_.size());
  try {
    auto &in = memory_->in_pages, &out = memory_->out_pages;
    if (in.size() < lengths.in + memory_->in_shift) in.resize(lengths.in + memory_->in_shift);
    if (out.size() < lengths.out + memory_->out_shift) out.resize(lengths.out + memory_->out_shift);
  } catch (const std::bad_alloc&) {
    endpoint_.state().fail(Status::out_of_memory, "tune: no memory for the buffers");
    return false;
  }
  return true;
}

void TunerTeam::write(const TunerCall& call) noexcept {
  const auto lengths = lengths_of(call, endpoint_.rank(), endpoint_.size());
  const bool sends_out = call.operation == Operation::broadcast && endpoint_.rank() == 0;
  std::byte* const data = sends_out ? memory_->out() : memory_->in();
  const std::size_t bytes = sends_out ? lengths.out : lengths.in;
  const double value = static_cast<double>(++round_ % 1024);
  for (std::size_t at = 0; at + sizeof value <= bytes; at += 64) std::memcpy(data + at, &value, sizeof value);
  if (bytes >= sizeof value) std::memcpy(data + bytes - sizeof value, &value, sizeof value);
}

/// Reads one word of each cache line of the result, as a program would.
std::uint64_t TunerTeam::read(const TunerCall& call) const noexcept {
  const bool nothing_new = call.operation == Operation::broadcast || call.operation == Operation::exscan;
  if (nothing_new && endpoint_.rank() == 0) return 0;
  return read_lines(memory_->out(), lengths_of(call, endpoint_.rank(), endpoint_.size()).out);
}

Collective TunerTeam::describe(const TunerCall& call) noexcept {
  Collective result{.operation = call.operation, .in = memory_->in(), .out = memory_->out(), .count = call.bytes};
  const bool reduces = call.operation == Operation::reduce || call.operation == Operation::allreduce ||
                       call.operation == Operation::scan || call.operation == Operation::exscan ||
                       call.operation == Operation::reduce_scatter;
  if (reduces) {
    result.reduction = sum<double>();
    result.element_bytes = sizeof(double);
    result.count = call.bytes / sizeof(double);
  }
  result.sync = call.sync;
  return result;
}

/// Before a sample: rank 0 reads the clock and tells the others whether to continue.
bool TunerTeam::out_of_time(int sample) const noexcept {
  return endpoint_.rank() == 0 && sample >= 0 && monotonic_ns() > (sample == 0 ? all_over_ns_ : give_up_ns_);
}

Status TunerTeam::look_at_clock(int sample, bool& stop) noexcept {
  std::uint64_t over = out_of_time(sample) ? 1 : 0;
  const Status told = endpoint_.broadcast(&over, sizeof over, 0);
  stop = over != 0;
  return told;
}

Status TunerTeam::windows(const TimingTask& task, const SelectedRecipe& choice) noexcept {
  const Collective call = describe(task.call);
  Endpoint& place = *places_[static_cast<std::size_t>(task.place)];
  const bool waits = task.call.sync == Sync::strict || starts(task.call.operation, endpoint_.rank(), endpoint_.size());
  const int in_a_row = buffer_bytes(task.call, endpoint_.size()) <= most_bytes_in_a_row ? windows_in_a_row : 1;
  std::uint64_t first = 0;
  for (int n = -1; n < task.samples; ++n) {
    write(task.call);
    const int at = std::max(n, 0) % in_a_row;
    if (at == 0) {
      if (const Status met = endpoint_.barrier(); met != Status::ok) return met;
      first = out_of_time(n) ? 0 : ticks() + task.guard_ticks;
      if (const Status told = endpoint_.broadcast(&first, sizeof first, 0); told != Status::ok) return told;
      if (first == 0) return Status::ok;
    }
    const std::uint64_t start = first + static_cast<std::uint64_t>(at) * task.guard_ticks;
    const bool late = ticks() >= start;
    while (waits && ticks() < start) {}
    if (const Status done = place.run_with(call, choice); done != Status::ok) return done;
    const auto end = ticks_when_read([&] { return read(task.call); });
    const double ns = static_cast<double>(std::max(end, start) - start) / ticks_per_ns() - window_ns_;
    if (n >= 0) values_[n] = late ? missed : std::max(1.0, ns);
  }
  return Status::ok;
}

Status TunerTeam::loops(const TimingTask& task, const SelectedRecipe& choice) noexcept {
  const Collective call = describe(task.call);
  Endpoint& place = *places_[static_cast<std::size_t>(task.place)];
  const bool settles = !both_ways(task.call) && call.sync == Sync::loose && overlaps(call.operation);
  std::uint64_t origin = task.origin;
  const auto now = [&] { return static_cast<double>(ticks() - origin) / ticks_per_ns(); };
  const auto once = [&] {
    write(task.call);
    Status status = task.empty ? Status::ok : place.run_with(call, choice);
    use(read(task.call));
    if (status == Status::ok && settles && !task.empty) status = place.barrier();
    return status;
  };
  if (const Status status = once(); status != Status::ok) return status;
  for (int n = 0; n < task.samples; ++n) {
    if (n % LoopTimestamps::in_a_row == 0) {
      bool stop = false;
      if (const Status told = look_at_clock(n, stop); told != Status::ok || stop) return told;
      if (const Status met = endpoint_.barrier(); met != Status::ok) return met;
      // Ranks that share a PU leave the barrier one after another. The first has done much when the last begins.
      if (crowded_ && !task.empty) {
        if (const Status status = once(); status != Status::ok) return status;
      }
      // Loops without calls are independent of each other. The longest one counts.
      if (task.empty) origin = ticks();
      stamps_.begin(n, now());
    }
    for (int i = 0; i < task.per_sample; ++i) {
      if (const Status status = once(); status != Status::ok) return status;
    }
    stamps_.end(n, now());
  }
  return Status::ok;
}

Status TunerTeam::barriers(double& least_ns) noexcept {
  constexpr int batches = 8, per_batch = 16;
  least_ns = missed;
  for (int n = 0; n < batches; ++n) {
    const auto start = ticks();
    for (int i = 0; i < per_batch; ++i) {
      if (const Status met = endpoint_.barrier(); met != Status::ok) return met;
    }
    least_ns = std::min(least_ns, static_cast<double>(ticks() - start) / ticks_per_ns() / per_batch);
  }
  return Status::ok;
}

Status TunerTeam::time_barrier(double& ns) noexcept {
  ns = 0.0;
  if (crowded_) return Status::ok;
  TimingTask task;
  task.barriers = true;
  if (const Status told = share(&task, sizeof task); told != Status::ok) return told;
  return barriers(ns);
}

Status TunerTeam::execute(const TimingTask& task) noexcept {
  if (task.barriers) {
    double ignored = 0.0;
    return barriers(ignored);
  }
  // The next task is sent when all ranks have finished this one.
  memory_ = &memory(task.call, task.place);
  if (!make_room(task.call)) return endpoint_.state().status();
  auto recipe = parse_recipe(task.recipe);
  const SelectedRecipe* choice = nullptr;
  try {
    if (recipe) choice = places_[static_cast<std::size_t>(task.place)]->state().selector->choice(*recipe);
  } catch (const std::bad_alloc&) {}
  if (choice == nullptr) {
    endpoint_.state().fail(Status::out_of_memory, "tune: no memory for a recipe");
    return endpoint_.state().status();
  }
  if (const Status met = endpoint_.barrier(); met != Status::ok) return met;
  std::fill_n(values_, task.samples, missed);
  stamps_.clear();
  const Status done = task.by_windows ? windows(task, *choice) : loops(task, *choice);
  if (done != Status::ok) return done;
  double* const mine = task.by_windows ? values_ : stamps_.data();
  const std::size_t count = task.by_windows ? static_cast<std::size_t>(task.samples) : LoopTimestamps::size();
  return endpoint_.reduce(mine, mine, count, maximum<double>(), 0);
}

Status TunerTeam::serve() noexcept {
  for (;;) {
    TimingTask task;
    if (const Status told = share(&task, sizeof task); told != Status::ok) return told;
    if (task.stop) return Status::ok;
    if (const Status done = execute(task); done != Status::ok) return done;
  }
}

Status TunerTeam::dismiss() noexcept {
  TimingTask task;
  task.stop = true;
  return share(&task, sizeof task);
}

/// Rank 0: the times per call, over all ranks. False: no sample.
bool TunerTeam::sample(const TimingTask& task, int n, double& ns) const noexcept {
  const double value = task.by_windows ? values_[n] : stamps_.span(n);
  ns = task.by_windows ? value : value / task.per_sample;
  return value != (task.by_windows ? missed : LoopTimestamps::missing);
}

/// The work that ranks may have done before the window begins: the root of a gather may have copied its own block.
static double early_work_ns(const TunerCall& call) {
  const bool copies = call.operation == Operation::gather && call.sync == Sync::loose;
  return copies ? slow_copy_ns_per_byte * static_cast<double>(call.bytes) : 0.0;
}

Status TunerTeam::time(const TunerCall& call, const Recipe& recipe, int samples, int per_sample, bool by_windows,
                       const TimeLimits& patience, std::vector<double>& times_ns) {
  times_ns.clear();
  const auto start_ns = monotonic_ns();
  const auto after = [&](double s) { return start_ns + static_cast<std::uint64_t>(std::max(0.0, s) * 1e9); };
  give_up_ns_ = after(patience.turn_s);
  all_over_ns_ = after(patience.all_s);
  TimingTask task{.by_windows = by_windows,
                  .place = place_,
                  .samples = std::min(samples, most_samples),
                  .per_sample = per_sample,
                  .guard_ticks = guard_ticks_ + static_cast<std::uint64_t>(early_work_ns(call) * ticks_per_ns()),
                  .origin = ticks(),
                  .call = call};
  const auto text = to_string(recipe);
  if (text.size() >= sizeof task.recipe) return Status::invalid_argument;
  std::memcpy(task.recipe, text.c_str(), text.size() + 1);
  double writing_ns = 0.0;
  if (!by_windows) {
    TimingTask empty = task;
    empty.empty = true;
    empty.samples = 1;
    if (const Status told = share(&empty, sizeof empty); told != Status::ok) return told;
    if (const Status done = execute(empty); done != Status::ok) return done;
    if (!sample(empty, 0, writing_ns)) writing_ns = 0.0;
  }
  if (const Status told = share(&task, sizeof task); told != Status::ok) return told;
  if (const Status done = execute(task); done != Status::ok) return done;
  int late = 0;
  for (int n = 0; n < task.samples; ++n) {
    double ns = 0.0;
    if (sample(task, n, ns)) {
      times_ns.push_back(std::max(1.0, ns - writing_ns));
    } else {
      ++late;
    }
  }
  // More time to get ready if many ranks were late, less if none was.
  const auto unit = static_cast<std::uint64_t>(1000.0 * ticks_per_ns());
  if (2 * late > task.samples) guard_ticks_ = std::min(guard_ticks_ * 2, 100 * unit);
  if (late == 0) guard_ticks_ = std::max(guard_ticks_ * 9 / 10, 2 * unit);
  return Status::ok;
}

Status TunerTeam::typical(const TunerCall& call, const Recipe& recipe, int samples, int per_sample,
                          const TimeLimits& patience, double& ns) {
  std::vector<double> times;
  ns = 0.0;
  if (const Status timed = time(call, recipe, samples, per_sample, patience, times); timed != Status::ok) return timed;
  const double alone = midmean_of(times);
  if (!both_ways(call) || alone == 0.0) {
    ns = alone;
    return Status::ok;
  }
  const Status timed = time(call, recipe, samples, 1, false, patience, times);
  if (timed == Status::ok && !times.empty()) ns = (2.0 * alone + midmean_of(times)) / 3.0;
  return timed;
}

}  // namespace smelt::comm
