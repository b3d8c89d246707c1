// TunerTeam: times recipes on a running communicator, one member per rank.
//
// Rank 0 decides what is timed and collects; the others serve() it. All they say to each other goes through the
// communicator itself, along its planned trees, so that ranks may be threads or processes.
//
//   window   barrier; rank 0 sends a tick; every rank that sends before it receives waits for it, the others are
//            in the call already; sample = last end over the ranks - that tick. Windows that a rank was late for
//            are dropped.
//   loop     calls back to back, where each separates itself from the next (or a barrier does, where there are
//            more ranks than PUs); sample = longest batch over the ranks / calls, less what writing costs
//
// Inputs are written before every call: a word of each cache line, and the last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/own_lines.hpp"
#include "comm/endpoint.hpp"
#include "smelt/collective.hpp"

namespace smelt::comm {

/// What the tuner sees of a rank.
struct Insider {
  static Endpoint& endpoint(Rank& rank) noexcept { return *rank.endpoint_; }
};

/// What is timed. `bytes`: of the vector, or of each block; a multiple of 8.
struct TunerCall {
  Operation operation = Operation::broadcast;
  Sync sync = Sync::loose;
  std::size_t bytes = 0;

  bool operator==(const TunerCall&) const = default;
};

class TunerTeam {
 public:
  static constexpr int most_samples = 64;

  /// `crowded`: more ranks than can run at a time.
  TunerTeam(Endpoint& endpoint, bool crowded);

  /// Ranks other than 0: takes part until rank 0 says that it is over, or the communicator breaks.
  Status serve() noexcept;

  /// Rank 0: up to `samples` times in ns, of a first call that is not counted and then of one each (window) or of
  /// `per_sample` each (loop). Fewer, perhaps none, if windows were missed or if it takes longer than `most_s`.
  Status time(const TunerCall& call, const Recipe& recipe, int samples, int per_sample, double most_s,
              std::vector<double>& times_ns);
  /// Rank 0: lets the others go.
  Status dismiss() noexcept;

  bool uses_windows(const TunerCall& call) const noexcept;
  /// Bytes that one rank has in buffers for a call, at most.
  static std::size_t buffer_bytes(const TunerCall& call, int ranks) noexcept;
  /// Sends all to all ranks, for what they decide together.
  Status share(void* data, std::size_t bytes) noexcept { return endpoint_.broadcast(data, bytes, 0); }

 private:
  struct Task {
    bool stop = false;
    bool empty = false;  ///< only what surrounds the calls
    int samples = 0, per_sample = 1;
    std::uint64_t guard_ticks = 0;
    TunerCall call;
    char recipe[160] = {};
  };

  Status obey(const Task& task) noexcept;
  bool out_of_time(int sample) const noexcept;
  Status windows(const Task& task, const Choice& choice) noexcept;
  Status loops(const Task& task, const Choice& choice) noexcept;
  bool make_room(const TunerCall& call) noexcept;
  void write(const TunerCall& call) noexcept;
  Collective describe(const TunerCall& call) noexcept;

  Endpoint& endpoint_;
  const bool crowded_;
  OwnLinesVector<std::byte> in_, out_;
  double values_[most_samples] = {};  ///< of this rank, then on rank 0 the largest
  std::uint64_t round_ = 0;
  std::uint64_t guard_ticks_;
  std::uint64_t give_up_ns_ = 0;  ///< rank 0: when a turn that takes too long ends
};

}  // namespace smelt::comm
