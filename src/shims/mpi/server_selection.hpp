// ServerSelection: selects who serves a kind of call, by the times measured in this job: smelt in one of its two modes
// (smelt_call::at_rest or not), or the library.
//
// A cell is an operation and a class of sizes on one communicator. All ranks count its calls alike. The server of a
// call follows from its number and from times that all ranks see. In a contest the holder of the cell is compared with
// one of the other servers, the challenger:
//
//   calls   ... holder ... | holder | challenger |  holder | holder | challenger |  ...  | the winner ...
//                          '------- stage -------'         '------- stage -------'
//
// A stage is a sequence of calls by each. The first call of a sequence runs with the caches as the other one has left
// them and is not timed. A call's time is the sum over all ranks, so waiting for each other counts for both; a
// sequence's time is that of its calls without the slowest quarter, as somebody may be interrupted in any call. Each
// rank publishes its times. Once all have, the next stage begins at a call that no rank has reached yet
// (switch_point.hpp). No rank waits for that: meanwhile the holder serves the cell.
//
// Rule: the challenger wins the cell if it gets six points before it has failed in two stages. A stage gives one point
// if the challenger took less than 0.95 of the holder's time, two if less than 0.9, three if less than 0.8; otherwise
// it has failed. After two failures the stages together decide: it is out once it has not taken less time than the
// holder in all of them, and after six stages it wins if it has taken less than 0.95 of that. In the short first stage
// nothing can be won, but a challenger that takes more than 1.25 of the holder's time is out. The servers challenge in
// turn. All do so again after 16 times as many calls, in longer stages.
//
// A rank may return from a call before the others have come to it, as the root of a broadcast does, and be ahead of
// them until the buffers between them are full. Contests are too short to fill these. And a call is slower in a
// contest, where it is timed and its server is looked up. So a winner below 8 KiB must prove that it is faster in long
// rows, unless both are modes of smelt:
//
//   | the winner: 32 calls, 32 timed as one | the previous holder: 32 calls, 32 timed as one |  the winner ... | ...
//
// The time of a row runs from the beginning of its first timed call to the end of its last one, and includes what the
// program does in between, which is alike in both rows. smelt serves its row as it does outside of contests. The winner
// keeps the cell once it has taken less time in two such pairs of rows, and loses it to the previous holder once it has
// not in two.
//
// A program makes few calls on large data, and an interruption is short beside one of them. So contests of large cells
// begin after fewer calls and have shorter stages, and the first stage gives points, too. A cell's first holder is that
// of the nearest smaller class that has had calls, up to three classes away.
//
// Invariants
// - A rank writes the times of a stage only after it has read those of the previous one, so two sets suffice.
// - A cell contains only calls whose results are bitwise the same, whoever serves them (global_call_info.hpp).
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

/// Per-rank state of a cell. Used by one thread at a time, like the communicator's collectives.
class SelectionCell {
 public:
  static constexpr std::size_t most_timed = 16;  ///< calls in a sequence

  /// The times that a rank publishes, for two stages: of the holder's calls, followed by the challenger's.
  struct alignas(64) Times {
    std::atomic<std::uint32_t> calls[2][2 * most_timed];
  };
  /// Shared by all ranks, initially zero. Followed by the Times of each rank.
  struct alignas(64) Board {
    SwitchPoint next[2];               ///< of the calls after a stage
    std::atomic<std::uint64_t> shown;  ///< ranks that have published their times, over all stages
  };

  enum class Kind : std::uint8_t { one_way, two_ways, large };  ///< modes of smelt; `large` has two

  /// The library challenges smelt from call `first` on, earlier in a large cell. Before that, the modes of smelt
  /// compete, if there are two.
  SelectionCell(Board& board, std::span<Times> times, int rank, std::uint64_t first, Kind kind) noexcept;

  /// Before the first call, whose holder is then that of `smaller`, or of a cell that this one began with. Keeps a
  /// reference.
  void begin_with(const SelectionCell& smaller) noexcept {
    smaller_ = &smaller;
    event_ = 0;
  }

  /// Whether the next call is served by smelt, in the holder's mode if that is smelt, and needs no other action. If so,
  /// counts it.
  [[gnu::always_inline]] bool passes() noexcept {
    if (calls_ + 1 >= event_) return false;
    ++calls_;
    return true;
  }
  /// Uncounts a call for which passes() was true but which was not served.
  void take_back() noexcept { --calls_; }

  /// Counts the next call and returns its server.
  Server come_to() noexcept;
  /// Whether spent() must be called after that call.
  bool is_timed() const noexcept;
  /// Reports when that call began and ended, in the same unit on all ranks. Is left out where an exception ended it.
  void spent(std::uint64_t begin, std::uint64_t end) noexcept;

  /// The holder, which serves all calls outside of contests.
  Server holder() const noexcept { return holder_; }
  /// During a proof the previous holder, else the holder.
  Server proven_holder() const noexcept { return in_proof_ ? challenger_ : holder_; }

 private:
  enum class State : std::uint8_t { resting, racing, showing };

  bool has_two_ways() const noexcept { return kind_ != Kind::one_way; }
  /// Whether the winner of a contest must win long rows, too.
  bool needs_proof() const noexcept {
    return kind_ == Kind::one_way && (holder_ == Server::library || challenger_ == Server::library);
  }
  Server next_challenger() const noexcept;
  void take_over_holder() noexcept;
  Server serves_in_stage() const noexcept;
  std::uint64_t place_in_row() const noexcept { return (calls_ - begin_) % row_; }
  void let_pass() noexcept;
  void publish(std::uint64_t at, std::uint64_t ticks) noexcept;
  std::uint64_t time_of(int side) const noexcept;
  void begin_stage() noexcept;
  void show() noexcept;
  void judge() noexcept;
  void judge_proof(std::uint64_t holder, std::uint64_t challenger) noexcept;
  void end_contest(bool challenger_won) noexcept;
  void finish_contest() noexcept;
  void await_contest() noexcept;

  Board* board_;
  std::span<Times> times_;
  int rank_;
  Kind kind_;
  const SelectionCell* smaller_ = nullptr;  ///< whose holder is taken over at the first call
  State state_ = State::resting;
  Server holder_ = Server::smelt;
  Server challenger_ = Server::smelt;  ///< of the current or next contest
  std::uint64_t first_;
  std::uint64_t calls_ = 0;   ///< that this rank has reached
  std::uint64_t event_ = 0;   ///< the call from which on passes() is false
  std::uint64_t start_ = 0;   ///< of the next contest
  int round_ = 0;             ///< of contests, one with each challenger
  bool round_begun_ = false;  ///< the next contest is not the first one of its round
  // Of the contest.
  std::uint64_t stage_ = 0;    ///< counted over all contests
  std::uint64_t begin_ = 0;    ///< the first call of the stage; while showing, the first one after it
  std::uint64_t row_ = 0;      ///< calls of each
  std::uint64_t untimed_ = 1;  ///< calls of them before the timed ones
  bool glancing_ = true;       ///< the first stage
  int points_ = 0, failures_ = 0;
  int stages_ = 0;                                     ///< without the first one, as all_holder_ and all_challenger_
  std::uint64_t all_holder_ = 0, all_challenger_ = 0;  ///< their times
  // Of the proof.
  bool in_proof_ = false;                  ///< the holder has won the contest with the challenger, the previous holder
  std::uint64_t row_start_ = 0;            ///< of the timed calls of the row so far
  int faster_rows_ = 0, slower_rows_ = 0;  ///< rows of the winner that took less time than the other one's, or not
};

/// The cells of a communicator.
class ServerSelection {
 public:
  static constexpr int operations = 17;  ///< of smelt_operation
  static constexpr int classes = 34;     ///< of sizes: unknown, 1 byte, 2 to 3, ..., 4 GiB and more

  /// Size of the shared memory, which must be zero initially.
  static std::size_t bytes(int ranks) noexcept;
  /// Over that memory, which the destructor unmaps. Throws std::bad_alloc.
  ServerSelection(void* memory, int ranks, int rank, std::uint64_t first);
  ServerSelection(const ServerSelection&) = delete;
  ServerSelection& operator=(const ServerSelection&) = delete;
  ~ServerSelection();

  /// Over the bytes() from `offset` on, a multiple of a page, of a file of the caller's; null if they cannot be mapped.
  /// Throws std::bad_alloc.
  static std::unique_ptr<ServerSelection> open(int fd, std::size_t offset, int ranks, int rank, std::uint64_t first);

  /// 0 bytes: all ranks know the operation only.
  SelectionCell& cell(int operation, std::size_t bytes) noexcept {
    return cells_[static_cast<std::size_t>(operation * classes + class_of(bytes))];
  }
  /// Why the library serves a call of that size: a literal that continues "passed on: ...".
  static const char* why(const SelectionCell& cell, std::size_t bytes) noexcept;

  /// Shorter messages have one mode only.
  static constexpr std::size_t least_of_two_ways = 8192;
  static constexpr std::size_t least_large = 512 * 1024;

 private:
  static int class_of(std::size_t bytes) noexcept;

  void* memory_;
  int ranks_;
  std::vector<SelectionCell> cells_;
};

}  // namespace smelt::shims::mpi
