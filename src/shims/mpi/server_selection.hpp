// ServerSelection: decides who serves a kind of call by the times that it takes in this job: smelt in one of its two
// ways (smelt_call::at_rest or not), or the library.
//
// A cell is an operation and a class of sizes on one communicator. All ranks count its calls alike. Who serves a call
// follows from its number and from times that all ranks see. In a contest the better of smelt's ways (the champion) is
// challenged by the other way or by the library:
//
//   calls   ... holder ... | champion | challenger | champion | challenger |  ...  | the winner ...
//                          '------- stage ---------'
//
// A stage is a row of calls by each. The first call of a row finds caches as the other one has left them and is not
// timed. At the end of a stage each rank shows what its calls took. When all have, the next stage begins at a call that
// nobody has come to yet (switch_point.hpp). Nobody waits for that: meanwhile the holder serves the cell. The time of a
// stage is the sum over all ranks, so the time that they wait for each other counts for both.
//
// Rule: the challenger gets the cell with six points, before it has failed in two stages. A stage gives it one point
// if it took less than 0.95 of the champion's time, three if less than 0.8; else it has failed. In a short first stage
// nothing can be won, but a challenger that takes more than 1.25 of the champion's time is out. The contest is held
// again after 16 times as many calls, with longer stages.
//
// Invariants
// - A rank shows the times of a stage only after it has read those of the stage before: so there are places for two.
// - Only calls whose results are the same to the bit, whoever serves them, are in a cell (global_call_info.hpp).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "shims/mpi/switch_point.hpp"

namespace smelt::shims::mpi {

enum class Server : std::uint8_t { smelt, smelt_at_rest, library };

/// One rank's half of a cell. Used by one thread at a time, as the communicator's collectives are.
class SelectionCell {
 public:
  /// What a rank shows, of two stages.
  struct Times {
    std::atomic<std::uint64_t> champion[2], challenger[2];
  };
  /// What all ranks see; zeros to begin with. The Times of the ranks follow.
  struct alignas(64) Board {
    SwitchPoint next[2];               ///< of the calls after a stage
    std::atomic<std::uint64_t> shown;  ///< ranks that have shown their times, over all stages
  };

  /// The library challenges smelt from call `first` on; smelt's other way before that, if there are two.
  SelectionCell(Board& board, std::span<Times> times, int rank, std::uint64_t first, bool two_ways) noexcept;

  /// Of the next call: whether it is smelt's, in the way that it has the cell by, and nothing else is to be done. Then
  /// it has been counted.
  [[gnu::always_inline]] bool passes() noexcept {
    if (calls_ + 1 >= event_) return false;
    ++calls_;
    return true;
  }
  /// Counts one less, of a call that passed and was not served.
  void take_back() noexcept { --calls_; }

  /// Counts the next call: who serves it.
  Server come_to() noexcept;
  /// What that call took, in the same unit on all ranks.
  void spent(std::uint64_t ticks) noexcept;

  /// Who has it: serves all calls but those of a contest.
  Server holder() const noexcept { return holder_; }

 private:
  enum class State : std::uint8_t { resting, racing, showing };

  Server challenger() const noexcept;
  void begin_stage() noexcept;
  void show() noexcept;
  void judge() noexcept;
  void end_contest(bool challenger_won) noexcept;
  void await_contest() noexcept;

  Board* board_;
  std::span<Times> times_;
  int rank_;
  bool two_ways_;
  State state_ = State::resting;
  Server holder_ = Server::smelt;
  Server champion_ = Server::smelt;  ///< the faster one of smelt's ways
  std::uint64_t first_;
  std::uint64_t calls_ = 0;  ///< that this rank has come to
  std::uint64_t event_ = 0;  ///< the call from which on passes() says no
  std::uint64_t start_ = 0;  ///< of the next contest
  int round_ = 0;            ///< of contests, one of each challenger
  bool of_library_ = false;  ///< the next contest, or that under way
  // Of the contest.
  std::uint64_t stage_ = 0;  ///< goes on from contest to contest
  std::uint64_t begin_ = 0;  ///< the first call of the stage; while showing, the first one after it
  std::uint64_t row_ = 0;    ///< calls of each
  std::uint64_t spent_[2] = {};
  bool glancing_ = true;  ///< the first stage
  int points_ = 0, failures_ = 0;
};

/// The cells of a communicator.
class ServerSelection {
 public:
  static constexpr int operations = 17;  ///< of smelt_operation
  static constexpr int classes = 34;     ///< of sizes: none known, 1 byte, 2 to 3, ..., 4 GiB and more

  /// Memory that all ranks see, zeros to begin with.
  static std::size_t bytes(int ranks) noexcept;
  /// Over that memory, which this unmaps in the end. Throws std::bad_alloc.
  ServerSelection(void* memory, int ranks, int rank, std::uint64_t first);
  ServerSelection(const ServerSelection&) = delete;
  ServerSelection& operator=(const ServerSelection&) = delete;
  ~ServerSelection();

  /// Over the bytes() from `offset` on, a multiple of a page, of a file of the caller's; null if they cannot be mapped.
  /// Throws std::bad_alloc.
  static std::unique_ptr<ServerSelection> open(int fd, std::size_t offset, int ranks, int rank, std::uint64_t first);

  /// 0 bytes: what all ranks know is the operation alone.
  SelectionCell& cell(int operation, std::size_t bytes) noexcept {
    return cells_[static_cast<std::size_t>(operation * classes + class_of(bytes))];
  }
  /// Why the library serves a call of that size: a literal that completes "passed on: ...".
  static const char* why(const SelectionCell& cell, std::size_t bytes) noexcept;

  /// Shorter messages have one way only.
  static constexpr std::size_t least_of_two_ways = 8192;

 private:
  static int class_of(std::size_t bytes) noexcept;

  void* memory_;
  int ranks_;
  std::vector<SelectionCell> cells_;
};

}  // namespace smelt::shims::mpi
