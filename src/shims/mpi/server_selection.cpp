#include "shims/mpi/server_selection.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <numeric>
#include <utility>

namespace smelt::shims::mpi {
namespace {

constexpr int enough = 6, most_failures = 2, most_stages = 6;
constexpr unsigned glanced = 2, timed = 4;       // calls of a sequence in the first stage, and in the others of round 0
constexpr int longest = 2;                       // the length of sequences doubles in each round up to this one
constexpr int most_classes_apart = 3;            // of sizes, over which a holder is taken over
constexpr int most_rounds = 10;                  // no program makes enough calls for more
constexpr unsigned settling = 32, proving = 32;  // calls of a row of a proof: not timed, timed
constexpr int enough_rows = 2;                   // of three decide a proof
constexpr unsigned row_unit = 64;                // ticks: rows include what the program does between its calls
static_assert(timed << longest == SelectionCell::most_timed);

/// The verdict on the times of both, for the same number of calls. 0: the challenger has failed.
int points_for(std::uint64_t challenger, std::uint64_t holder) {
  if (challenger * 5 < holder * 4) return 3;
  if (challenger * 10 < holder * 9) return 2;
  return challenger * 20 < holder * 19 ? 1 : 0;
}
bool slower_by_far(std::uint64_t challenger, std::uint64_t holder) { return holder * 5 < challenger * 4; }

}  // namespace

SelectionCell::SelectionCell(Board& board, std::span<Times> times, int rank, std::uint64_t first, Kind kind) noexcept
    : board_(&board), times_(times), rank_(rank), kind_(kind), first_(first) {
  challenger_ = next_challenger();
  await_contest();
}

/// The servers in turn, without the holder.
Server SelectionCell::next_challenger() const noexcept {
  constexpr int servers = 3;
  auto next = static_cast<int>(challenger_);
  do {
    next = (next + 1) % servers;
  } while (next == static_cast<int>(holder_) || (!has_two_ways() && next == static_cast<int>(Server::smelt_at_rest)));
  return static_cast<Server>(next);
}

/// All ranks take over the same one: they make the same calls of both cells in the same order.
void SelectionCell::take_over_holder() noexcept {
  const SelectionCell* known = smaller_;
  for (int classes = 1; classes < most_classes_apart && known != nullptr && known->calls_ == 0; ++classes) {
    known = known->smaller_;
  }
  if (known != nullptr && known->proven_holder() != holder_) {
    holder_ = known->proven_holder();
    challenger_ = next_challenger();
  }
  await_contest();
}

Server SelectionCell::come_to() noexcept {
  if (calls_ == 0) take_over_holder();
  if (state_ == State::racing && calls_ + 1 == begin_ + 2 * row_) show();  // the last call was not reported
  ++calls_;
  if (state_ == State::resting) {
    if (calls_ < start_) return holder_;
    begin_stage();
  } else if (state_ == State::showing) {
    // Acquire pairs with show(), which publishes the times.
    const auto all = [&] { return board_->shown.load(std::memory_order_acquire) == (stage_ + 1) * times_.size(); };
    if (!board_->next[stage_ % 2].has_come(calls_, all, begin_)) return holder_;
    judge();
    if (state_ == State::resting) return holder_;
  }
  if (in_proof_) let_pass();
  return serves_in_stage();
}

Server SelectionCell::serves_in_stage() const noexcept { return calls_ - begin_ < row_ ? holder_ : challenger_; }

/// In a row of a proof that smelt serves, all calls pass that need not be timed: they take as long as outside of
/// contests.
void SelectionCell::let_pass() noexcept {
  event_ = 0;
  if (serves_in_stage() == Server::library) return;
  const std::uint64_t call = place_in_row(), row = calls_ - call;
  if (call < untimed_) event_ = row + untimed_;
  if (call >= untimed_ && call + 1 < row_) event_ = row + row_ - 1;
}

bool SelectionCell::is_timed() const noexcept {
  if (state_ != State::racing || !in_proof_) return state_ == State::racing;
  return place_in_row() == untimed_ || place_in_row() + 1 == row_;
}

void SelectionCell::begin_stage() noexcept {
  state_ = State::racing;
  event_ = 0;
  begin_ = calls_;
  const unsigned in_round_0 = kind_ == Kind::large ? timed / 2 : timed;
  untimed_ = in_proof_ ? settling : 1;
  row_ = untimed_ + (in_proof_ ? proving : glancing_ ? glanced : in_round_0 << std::min(round_, longest));
}

void SelectionCell::spent(std::uint64_t begin, std::uint64_t end) noexcept {
  const std::uint64_t place = calls_ - begin_, side = place / row_, call = place_in_row();
  if (!in_proof_) {
    if (call >= untimed_) publish(side * (row_ - untimed_) + call - untimed_, end - begin);
  } else {
    if (call == untimed_) row_start_ = begin;
    if (call + 1 == row_) publish(side, (end - row_start_) / row_unit);
  }
  if (place + 1 == 2 * row_) show();
}

/// Readable by all ranks after show().
void SelectionCell::publish(std::uint64_t at, std::uint64_t ticks) noexcept {
  const auto shown = static_cast<std::uint32_t>(std::min<std::uint64_t>(ticks, UINT32_MAX));
  times_[static_cast<std::size_t>(rank_)].calls[stage_ % 2][at].store(shown, std::memory_order_relaxed);
}

void SelectionCell::show() noexcept {
  state_ = State::showing;
  begin_ = calls_ + 1;
  board_->shown.fetch_add(1, std::memory_order_acq_rel);  // pairs with come_to()
}

/// The time of the holder's calls (side 0) or the challenger's (1); outside of proofs without the slowest quarter.
std::uint64_t SelectionCell::time_of(int side) const noexcept {
  const std::size_t calls = in_proof_ ? 1 : row_ - untimed_, first = static_cast<std::size_t>(side) * calls;
  std::array<std::uint64_t, most_timed> total{};
  for (const Times& each : times_) {
    for (std::size_t i = 0; i < calls; ++i) {
      total[i] += each.calls[stage_ % 2][first + i].load(std::memory_order_relaxed);
    }
  }
  std::sort(total.begin(), total.begin() + static_cast<std::ptrdiff_t>(calls));
  const std::size_t counted = in_proof_ ? calls : calls - (calls + 3) / 4;
  return std::accumulate(total.begin(), total.begin() + static_cast<std::ptrdiff_t>(counted), std::uint64_t{0});
}

/// Called at the same call on all ranks, with the same numbers.
void SelectionCell::judge() noexcept {
  const std::uint64_t holder = time_of(0), challenger = time_of(1);
  ++stage_;
  if (in_proof_) return judge_proof(holder, challenger);
  if (std::exchange(glancing_, false)) {
    if (slower_by_far(challenger, holder)) return end_contest(false);
    if (kind_ == Kind::large) points_ += points_for(challenger, holder);
  } else {
    const int points = points_for(challenger, holder);
    points_ += points;
    failures_ += points == 0 ? 1 : 0;
    all_holder_ += holder;
    all_challenger_ += challenger;
    ++stages_;
    if (failures_ < most_failures) {
      if (points_ >= enough) return end_contest(true);
    } else if (all_challenger_ >= all_holder_ || stages_ >= most_stages) {
      return end_contest(points_for(all_challenger_, all_holder_) > 0);
    }
  }
  begin_stage();
}

/// `holder`, `challenger`: the times of a row of each.
void SelectionCell::judge_proof(std::uint64_t holder, std::uint64_t challenger) noexcept {
  ++(holder < challenger ? faster_rows_ : slower_rows_);
  if (faster_rows_ < enough_rows && slower_rows_ < enough_rows) return begin_stage();
  if (slower_rows_ == enough_rows) {
    std::swap(holder_, challenger_);
  } else {
    challenger_ = holder_;  // the next one comes after the winner, as without a proof
  }
  finish_contest();
}

void SelectionCell::end_contest(bool challenger_won) noexcept {
  if (challenger_won && needs_proof()) {
    std::swap(holder_, challenger_);
    in_proof_ = true;
    faster_rows_ = slower_rows_ = 0;
    return begin_stage();
  }
  if (challenger_won) holder_ = challenger_;
  finish_contest();
}

void SelectionCell::finish_contest() noexcept {
  in_proof_ = false;
  round_begun_ = has_two_ways() && !round_begun_;
  if (!round_begun_) round_ = std::min(round_ + 1, most_rounds);
  challenger_ = next_challenger();
  glancing_ = true;
  points_ = failures_ = stages_ = 0;
  all_holder_ = all_challenger_ = 0;
  state_ = State::resting;
  await_contest();
}

/// There are few calls between the contests of a round, and many between rounds.
void SelectionCell::await_contest() noexcept {
  const std::uint64_t first = kind_ == Kind::large ? first_ / 4 : first_, few = first / 4,
                      many = first_ << (4 * round_);
  start_ = calls_ + (round_begun_ || round_ == 0 ? few : many);
  if (round_ == 0 && challenger_ == Server::library) start_ = std::max(first, start_);
  event_ = holder_ == Server::library ? 0 : start_;
}

// ---- all of a communicator ------------------------------------------------------------------

namespace {

std::size_t board_bytes(int ranks) noexcept {
  const auto times = static_cast<std::size_t>(ranks) * sizeof(SelectionCell::Times);
  return sizeof(SelectionCell::Board) +
         (times + alignof(SelectionCell::Board) - 1) / alignof(SelectionCell::Board) * alignof(SelectionCell::Board);
}

}  // namespace

std::size_t ServerSelection::bytes(int ranks) noexcept {
  return static_cast<std::size_t>(operations * classes) * board_bytes(ranks);
}

ServerSelection::ServerSelection(void* memory, int ranks, int rank, std::uint64_t first)
    : memory_(memory), ranks_(ranks) {
  cells_.reserve(operations * classes);
  for (std::size_t i = 0; i < cells_.capacity(); ++i) {
    std::byte* const at = static_cast<std::byte*>(memory) + i * board_bytes(ranks);
    const std::span times(reinterpret_cast<SelectionCell::Times*>(at + sizeof(SelectionCell::Board)),
                          static_cast<std::size_t>(ranks));
    const std::size_t of = i % classes;
    auto kind = SelectionCell::Kind::one_way;
    if (of >= static_cast<std::size_t>(class_of(least_of_two_ways))) kind = SelectionCell::Kind::two_ways;
    if (of >= static_cast<std::size_t>(class_of(least_large))) kind = SelectionCell::Kind::large;
    cells_.emplace_back(*reinterpret_cast<SelectionCell::Board*>(at), times, rank, first, kind);
    if (of > 1) cells_[i].begin_with(cells_[i - 1]);  // class 0 is that of unknown sizes
  }
}

ServerSelection::~ServerSelection() { munmap(memory_, bytes(ranks_)); }

std::unique_ptr<ServerSelection> ServerSelection::open(int fd, std::size_t offset, int ranks, int rank,
                                                       std::uint64_t first) {
  void* const memory = mmap(nullptr, bytes(ranks), PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset));
  if (memory == MAP_FAILED) return nullptr;
  try {
    return std::make_unique<ServerSelection>(memory, ranks, rank, first);
  } catch (...) {
    munmap(memory, bytes(ranks));
    throw;
  }
}

int ServerSelection::class_of(std::size_t bytes) noexcept {
  return std::min(static_cast<int>(std::bit_width(bytes)), classes - 1);
}

namespace {

using Text = std::array<char, 96>;

/// "32 KiB"
void write_size(char* to, std::size_t room, std::size_t bytes) noexcept {
  int unit = 0;
  for (; bytes >= 1024 && unit < 3; ++unit) bytes /= 1024;
  constexpr const char* units[] = {"B", "KiB", "MiB", "GiB"};
  std::snprintf(to, room, "%zu %s", bytes, units[unit]);
}

std::array<Text, ServerSelection::classes> write_reasons() noexcept {
  std::array<Text, ServerSelection::classes> texts{};
  std::snprintf(texts[0].data(), texts[0].size(), "the library is faster here");
  for (std::size_t i = 1; i < texts.size(); ++i) {
    char from[16];
    write_size(from, sizeof from, std::size_t{1} << (i - 1));
    char to[24] = "";
    if (i + 1 < texts.size()) write_size(to, sizeof to, std::size_t{1} << i);
    std::snprintf(texts[i].data(), texts[i].size(), "the library is faster here from %s on%s%s", from,
                  to[0] != '\0' ? ", below " : "", to);
  }
  return texts;
}

}  // namespace

const char* ServerSelection::why(const SelectionCell& cell, std::size_t bytes) noexcept {
  if (cell.proven_holder() != Server::library) return "timed in a race with smelt";
  static const auto reasons = write_reasons();  // never destroyed: an array of arrays
  return reasons[static_cast<std::size_t>(class_of(bytes))].data();
}

}  // namespace smelt::shims::mpi
