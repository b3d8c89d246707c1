// TunerTeam: times recipes on a running communicator, one member per rank.
//
// Rank 0 decides what is timed and collects; the others serve() it. All they say to each other goes through the
// communicator itself, along its planned trees, so that ranks may be threads or processes.
//
//   window   barrier; rank 0 sends a tick; every rank that sends before it receives waits for it, the others are
//            in the call already; sample = last end over the ranks - that tick. Windows that a rank was late for
//            are dropped.
//   loop     calls back to back, where each separates itself from the next (or a barrier does, where there are
//            more ranks than PUs); sample = from the end of one batch on its last rank to that of the next / calls,
//            less what writing and reading cost
//
// A loose reduction of a long vector is timed both ways: how soon the last rank is done counts for two thirds, how soon
// the next call can follow for one. Those who gave may leave while the root still adds up, and an algorithm that lets
// them is behind in the first and ahead in the second.
//
// Inputs are written before every call, and results read before it counts as over: a word of each cache line. What
// reading takes when all lies in the reader's own cache is taken off (base/read_timing.hpp).
//
// Places.  How long a call takes depends on where in memory its lines happen to lie, by more than the 2 % that are
// to be told apart. A team may have several communicators of the same ranks, each with buffers of its own, and move
// from one to the next between rounds, so that what is found out does not hold for one layout only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/cacheline_padded.hpp"
#include "comm/collective/endpoint.hpp"
#include "smelt/collective.hpp"

namespace smelt::comm {

/// What the tuner sees of a rank, and how it makes communicators.
struct TunerAccess {
  static Endpoint& endpoint(Rank& rank) noexcept { return *rank.endpoint_; }
  static Communicator communicator(std::shared_ptr<CommunicatorState> state) { return Communicator(std::move(state)); }
};

/// What is timed. `bytes`: of the vector, or of each block; a multiple of 8.
struct TunerCall {
  Operation operation = Operation::broadcast;
  Sync sync = Sync::loose;
  std::size_t bytes = 0;

  bool operator==(const TunerCall&) const = default;
};

/// When a loop begins and when each of its samples ends, on one rank; after the largest of all ranks has been taken of
/// each: on the last one. What lies between two of these adds up to the time that has passed. The longest sample of
/// any rank would be longer wherever they come by in another order each time, as those do that take turns on a PU.
class LoopTimestamps {
 public:
  static constexpr int most_samples = 64;
  /// After as many the loop begins again, with all ranks together.
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
  /// What the ranks take the largest of.
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
  /// How long a turn goes on.
  struct TimeLimits {
    double turn_s;       ///< no more samples after that; there is one at least
    double all_s = 1e6;  ///< not even that one after that, if the first call, which is not counted, has taken so long
  };

  /// This rank's endpoints, at least one. `crowded`: more ranks than can run at a time.
  TunerTeam(std::vector<Endpoint*> places, bool crowded);

  /// Ranks other than 0: takes part until rank 0 says that it is over, or the communicator breaks.
  Status serve() noexcept;

  /// Rank 0: up to `samples` times in ns, of a first call that is not counted and then of one each (window) or of
  /// `per_sample` each (loop). Fewer, perhaps none, if windows were missed or patience is at its end.
  Status time(const TunerCall& call, const Recipe& recipe, int samples, int per_sample, const TimeLimits& patience,
              std::vector<double>& times_ns) {
    return time(call, recipe, samples, per_sample, uses_windows(call), patience, times_ns);
  }
  /// Rank 0: what recipes of a call are compared by: the median of such times, or a mean of both ways' medians.
  /// 0: there are none.
  Status typical(const TunerCall& call, const Recipe& recipe, int samples, int per_sample, const TimeLimits& patience,
                 double& ns);
  /// Rank 0: what a barrier of these ranks takes now, the least of some; 0 where ranks wait for their turn on a PU.
  /// Cost: 128 barriers.
  Status time_barrier(double& ns) noexcept;
  /// Rank 0: where what follows is timed; any number.
  void move_to(int place) noexcept { place_ = place % static_cast<int>(places_.size()); }
  /// Rank 0: lets the others go.
  Status dismiss() noexcept;
  /// Why it broke.
  std::string failure() const;

  bool uses_windows(const TunerCall& call) const noexcept;
  bool both_ways(const TunerCall& call) const noexcept;
  /// Bytes that one rank has in buffers for a call, at most.
  static std::size_t buffer_bytes(const TunerCall& call, int ranks) noexcept;
  /// Sends all to all ranks, for what they decide together.
  Status share(void* data, std::size_t bytes) noexcept { return endpoint_.broadcast(data, bytes, 0); }

 private:
  struct TimingTask {
    bool stop = false;
    bool barriers = false;  ///< nothing else
    bool empty = false;     ///< only what surrounds the calls
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

  /// Of a place: buffers that begin elsewhere in their pages than those of others. A copy takes longer where its
  /// target lies a little further in a page than its source, as loads seem to depend on the stores just made.
  struct Memory {
    CachelinePaddedVector<std::byte> in_pages, out_pages;
    std::size_t in_shift = 0, out_shift = 0;

    std::byte* in() noexcept { return in_pages.data() + in_shift; }
    std::byte* out() noexcept { return out_pages.data() + out_shift; }
  };
  Memory& memory(const TunerCall& call, int place) noexcept;

  const std::vector<Endpoint*> places_;
  Endpoint& endpoint_;  ///< of the first place, for what the ranks have to say to each other
  const bool crowded_;
  std::vector<Memory> memories_;  ///< by place
  Memory* memory_ = nullptr;      ///< of the task in hand
  int place_ = 0;
  // Of this rank, then on rank 0 the largest.
  double values_[most_samples] = {};
  LoopTimestamps stamps_;
  std::uint64_t round_ = 0;
  const double window_ns_;  ///< of an empty one
  std::uint64_t guard_ticks_;
  // Rank 0: when a turn ends that takes too long, and when it does without a sample.
  std::uint64_t give_up_ns_ = 0, all_over_ns_ = 0;
};

}  // namespace smelt::comm
