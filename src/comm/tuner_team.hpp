// TunerTeam: times recipes on a running communicator, one member per rank.
//
// Rank 0 decides what is timed and collects; the others serve() it. All they say to each other goes through the
// communicator itself, along its planned trees, so that ranks may be threads or processes.
//
//   window   barrier; rank 0 sends a tick; every rank that sends before it receives waits for it, the others are
//            in the call already; sample = last end over the ranks - that tick. Windows that a rank was late for
//            are dropped.
//   loop     calls back to back, where each separates itself from the next (or a barrier does, where there are
//            more ranks than PUs); sample = longest batch over the ranks / calls, less what writing and reading cost
//
// Inputs are written before every call, and results read before it counts as over: a word of each cache line. What
// reading takes when all lies in the reader's own cache is taken off (base/reading.hpp).
//
// Places.  How long a call takes depends on where in memory its lines happen to lie, by more than the 2 % that are
// to be told apart. A team may have several communicators of the same ranks, each with buffers of its own, and move
// from one to the next between rounds, so that what is found out does not hold for one layout only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/own_lines.hpp"
#include "comm/endpoint.hpp"
#include "smelt/collective.hpp"

namespace smelt::comm {

/// What the tuner sees of a rank, and how it makes communicators.
struct Insider {
  static Endpoint& endpoint(Rank& rank) noexcept { return *rank.endpoint_; }
  static Communicator communicator(std::shared_ptr<State> state) { return Communicator(std::move(state)); }
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

  /// This rank's endpoints, at least one. `crowded`: more ranks than can run at a time.
  TunerTeam(std::vector<Endpoint*> places, bool crowded);

  /// Ranks other than 0: takes part until rank 0 says that it is over, or the communicator breaks.
  Status serve() noexcept;

  /// Rank 0: up to `samples` times in ns, of a first call that is not counted and then of one each (window) or of
  /// `per_sample` each (loop). Fewer, perhaps none, if windows were missed or if it takes longer than `most_s`.
  Status time(const TunerCall& call, const Recipe& recipe, int samples, int per_sample, double most_s,
              std::vector<double>& times_ns);
  /// Rank 0: where what follows is timed; any number.
  void move_to(int place) noexcept { place_ = place % static_cast<int>(places_.size()); }
  /// Rank 0: lets the others go.
  Status dismiss() noexcept;
  /// Why it broke.
  std::string failure() const;

  bool uses_windows(const TunerCall& call) const noexcept;
  /// Bytes that one rank has in buffers for a call, at most.
  static std::size_t buffer_bytes(const TunerCall& call, int ranks) noexcept;
  /// Sends all to all ranks, for what they decide together.
  Status share(void* data, std::size_t bytes) noexcept { return endpoint_.broadcast(data, bytes, 0); }

 private:
  struct Task {
    bool stop = false;
    bool empty = false;  ///< only what surrounds the calls
    int place = 0;
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
  std::uint64_t read(const TunerCall& call) const noexcept;
  Collective describe(const TunerCall& call) noexcept;

  /// Of the place in use.
  struct Memory {
    OwnLinesVector<std::byte> in, out;
  };
  Memory& memory(const TunerCall& call, int place) noexcept;

  const std::vector<Endpoint*> places_;
  Endpoint& endpoint_;  ///< of the first place, for what the ranks have to say to each other
  const bool crowded_;
  std::vector<Memory> memories_;  ///< by place
  Memory* memory_ = nullptr;      ///< of the task in hand
  int place_ = 0;
  double values_[most_samples] = {};  ///< of this rank, then on rank 0 the largest
  std::uint64_t round_ = 0;
  std::uint64_t guard_ticks_;
  std::uint64_t give_up_ns_ = 0;  ///< rank 0: when a turn that takes too long ends
};

}  // namespace smelt::comm
