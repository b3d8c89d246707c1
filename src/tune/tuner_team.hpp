// TunerTeam: times recipes on a running communicator, one member per rank.
//
// Rank 0 decides what is timed and collects the times; the others run serve(). They communicate through the
// communicator itself, along its planned trees, so ranks may be threads or processes.
//
//   window   Barrier; rank 0 sends a start tick. Every rank that sends before it receives waits for that tick, the
//            others are in the call already. Sample = latest end over the ranks - start tick. Windows that a rank was
//            late for are dropped.
//   loop     Calls back to back, if a call cannot overlap the next one (with more ranks than PUs, a barrier separates
//            them). Sample = time from the end of one batch on its last rank to the end of the next / calls, minus the
//            cost of writing and reading.
//
// A loose reduction of a long vector is timed both ways. The time until the last rank is done has a weight of two
// thirds, the time until the next call can follow one third. Contributing ranks may leave while the root still
// combines; an algorithm that allows this is worse in the first measure and better in the second.
//
// Inputs are written before every call, and results are read before it counts as done: one word of each cache line. The
// time of reading data in the reader's own cache is subtracted (base/read_timing.hpp).
//
// Places.  The time of a call depends on the addresses of its lines by more than the 2 % that are to be distinguished.
// So a team may have several communicators of the same ranks, each with its own buffers, and changes between them from
// round to round.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/cacheline_padded.hpp"
#include "comm/collective/endpoint.hpp"
#include "comm/collective/tuner_access.hpp"
#include "smelt/collective.hpp"

namespace smelt::comm {

/// What is timed. `bytes`: of the vector, or of each block; a multiple of 8.
struct TunerCall {
  Operation operation = Operation::broadcast;
  Sync sync = Sync::loose;
  std::size_t bytes = 0;

  bool operator==(const TunerCall&) const = default;
};

/// The times at which a loop begins and each of its samples ends. Per rank at first; then the maximum over all ranks.
/// The differences between maxima add up to the elapsed time. The maximum of differences would be larger if ranks
/// finish in varying order, as they do if they share a PU.
class LoopTimestamps {
 public:
  static constexpr int most_samples = 64;
  /// After as many samples the loop starts anew, with all ranks synchronized.
  static constexpr int in_a_row = 8;
  static constexpr double missing = -1.0;

  void clear() noexcept { at_.fill(missing); }
  void begin(int sample, double now) noexcept { at_[index(sample)] = now; }
  void end(int sample, double now) noexcept { at_[index(sample) + 1] = now; }
  /// missing: there is none.
  double span(int sample) const noexcept {
    const double begin = at_[index(sample)], end = at_[index(sample) + 1];
    return begin == missing || end == missing ? missing : end - begin;
  }
  /// The values for the maximum over the ranks.
  double* data() noexcept { return at_.data(); }
  static constexpr std::size_t size() noexcept { return most_samples + most_samples / in_a_row; }

 private:
  static constexpr std::size_t index(int sample) noexcept {
    return static_cast<std::size_t>(sample + sample / in_a_row);
  }
  std::array<double, most_samples + most_samples / in_a_row> at_{};
};

class TunerTeam {
 public:
  static constexpr int most_samples = LoopTimestamps::most_samples;
  /// Limits of a turn.
  struct TimeLimits {
    double turn_s;       ///< no further samples after that; there is at least one
    double all_s = 1e6;  ///< no sample at all if the warm-up call has taken so long
  };

  /// This rank's endpoints, at least one. `crowded`: more ranks than can run at the same time.
  TunerTeam(std::vector<Endpoint*> places, bool crowded);

  /// Ranks other than 0: takes part until rank 0 dismisses them, or the communicator breaks.
  Status serve() noexcept;

  /// Rank 0: up to `samples` times in ns, after a warm-up call, each of one call (window) or of `per_sample` calls
  /// (loop). Fewer, perhaps none, if windows were missed or time limits were reached.
  Status time(const TunerCall& call, const Recipe& recipe, int samples, int per_sample, const TimeLimits& patience,
              std::vector<double>& times_ns) {
    return time(call, recipe, samples, per_sample, uses_windows(call), patience, times_ns);
  }
  /// Rank 0: the time by which recipes are compared: the median of the samples, or the weighted mean of both ways'
  /// medians. 0 if there are none.
  Status typical(const TunerCall& call, const Recipe& recipe, int samples, int per_sample, const TimeLimits& patience,
                 double& ns);
  /// Rank 0: the current time of a barrier of these ranks, a minimum; 0 if ranks share PUs.
  /// Cost: 128 barriers.
  Status time_barrier(double& ns) noexcept;
  /// Rank 0: selects the place of the following measurements; any number.
  void move_to(int place) noexcept { place_ = place % static_cast<int>(places_.size()); }
  /// Rank 0: ends serve() of the others.
  Status dismiss() noexcept;
  /// Why the communicator broke.
  std::string failure() const;

  bool uses_windows(const TunerCall& call) const noexcept;
  bool both_ways(const TunerCall& call) const noexcept;
  /// Largest size of one rank's buffers for a call.
  static std::size_t buffer_bytes(const TunerCall& call, int ranks) noexcept;
  /// Broadcasts data from rank 0, for decisions of all ranks.
  Status share(void* data, std::size_t bytes) noexcept { return endpoint_.broadcast(data, bytes, 0); }

 private:
  struct TimingTask {
    bool stop = false;
    bool barriers = false;  ///< nothing else
    bool empty = false;     ///< the overhead only, without calls
    bool by_windows = false;
    int place = 0;
    int samples = 0, per_sample = 1;
    std::uint64_t guard_ticks = 0;
    std::uint64_t origin = 0;  ///< tick that stamps of loops count from
    TunerCall call;
    char recipe[160] = {};
  };

  Status time(const TunerCall& call, const Recipe& recipe, int samples, int per_sample, bool by_windows,
              const TimeLimits& patience, std::vector<double>& times_ns);
  Status execute(const TimingTask& task) noexcept;
  Status barriers(double& least_ns) noexcept;
  bool out_of_time(int sample) const noexcept;
  Status look_at_clock(int sample, bool& stop) noexcept;
  Status windows(const TimingTask& task, const SelectedRecipe& choice) noexcept;
  Status loops(const TimingTask& task, const SelectedRecipe& choice) noexcept;
  bool sample(const TimingTask& task, int n, double& ns) const noexcept;
  bool make_room(const TunerCall& call) noexcept;
  void write(const TunerCall& call) noexcept;
  std::uint64_t read(const TunerCall& call) const noexcept;
  Collective describe(const TunerCall& call) noexcept;

  /// The buffers of a place, with other offsets in their pages than those of other places. Copies are slower if the
  /// target's offset is slightly larger than the source's, since loads then alias preceding stores.
  struct Memory {
    CachelinePaddedVector<std::byte> in_pages, out_pages;
    std::size_t in_shift = 0, out_shift = 0;

    std::byte* in() noexcept { return in_pages.data() + in_shift; }
    std::byte* out() noexcept { return out_pages.data() + out_shift; }
  };
  Memory& memory(const TunerCall& call, int place) noexcept;

  const std::vector<Endpoint*> places_;
  Endpoint& endpoint_;  ///< of the first place, for communication between the ranks
  const bool crowded_;
  std::vector<Memory> memories_;  ///< by place
  Memory* memory_ = nullptr;      ///< of the current task
  int place_ = 0;
  // Of this rank; then, on rank 0, the maximum over all ranks.
  double values_[most_samples] = {};
  LoopTimestamps stamps_;
  std::uint64_t round_ = 0;
  const double window_ns_;  ///< of an empty one
  std::uint64_t guard_ticks_;
  // Rank 0: when a turn ends that takes too long, and when it does without a sample.
  std::uint64_t give_up_ns_ = 0, all_over_ns_ = 0;
};

}  // namespace smelt::comm
