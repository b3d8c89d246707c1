#include "state/log/replica.hpp"

#include <algorithm>
#include <cstring>

#include "base/cacheline.hpp"
#include "base/clock.hpp"
#include "base/error.hpp"
#include "state/log/ordering.hpp"
#include "state/log/points.hpp"

namespace smelt::state::log {

#ifdef SMELT_LOG_POINTS
void (*on_point)(int point) = nullptr;
#endif

namespace {

constexpr std::uint32_t deliveries_between_steps = 16;
/// Cells whose lines the client owns before it writes them: others have read them a lap ago.
constexpr std::uint64_t owned_ahead = 16;
/// Cells that are found to be free by one look at the floor, if they are.
constexpr std::uint64_t cells_freed_at_once = 32;

/// Calls fetch(address) for the lines of a cell; of a long one, for its first two.
template <class Fetch>
void for_lines(const Word* cell, std::size_t cell_bytes, Fetch fetch) noexcept {
  fetch(cell);
  if (cell_bytes > line_bytes) fetch(reinterpret_cast<const std::byte*>(cell) + line_bytes);
}

/// Calls move(i) for each word of `bytes` bytes, the last of which may be a part. Four at a time: compilers do not
/// unroll a loop of atomic moves.
template <class Move>
void for_words(std::size_t bytes, Move move) noexcept {
  const std::size_t words = (bytes + 7) / 8;
  std::size_t i = 0;
  for (; i + 4 <= words; i += 4) {
    move(i);
    move(i + 1);
    move(i + 2);
    move(i + 3);
  }
  for (; i < words; ++i) move(i);
}

void write_command(Word* to, const void* from, std::size_t bytes) noexcept {
#ifdef SMELT_LOG_PLAIN_COPY  // for tests of memory orders, in which no replica is evicted
  std::memcpy(static_cast<void*>(to), from, bytes);
#else
  const auto* source = static_cast<const std::byte*>(from);
  const std::size_t whole = bytes & ~std::size_t{7};
  for_words(whole, [=](std::size_t i) {
    std::uint64_t word;
    std::memcpy(&word, source + 8 * i, sizeof word);
    to[i].store(word, std::memory_order_relaxed);
  });
  if (bytes == whole) return;
  std::uint64_t rest = 0;
  std::memcpy(&rest, source + whole, bytes - whole);
  to[whole / 8].store(rest, std::memory_order_relaxed);
#endif
}

// Relaxed words: an evicted replica may copy while the cell is rewritten, but discards the copy.
void read_command(std::uint64_t* to, const Word* from, std::size_t bytes) noexcept {
#ifdef SMELT_LOG_PLAIN_COPY
  std::memcpy(to, static_cast<const void*>(from), bytes);
#else
  for_words(bytes, [=](std::size_t i) { to[i] = from[i].load(std::memory_order_relaxed); });
#endif
}

}  // namespace

Replica::Replica(std::shared_ptr<Space> space, int rank, const StateMachine& machine)
    : space_(std::move(space)),
      layout_(space_->layout()),
      shape_(space_->shape()),
      rank_(rank),
      machine_(machine),
      waiter_(space_->wait_config()),
      seen_(shape_.ranks),
      executed_(shape_.ranks),
      own_cells_(layout_.cells(rank_)),
      copy_words_((shape_.command_bytes + 7) / 8 + 1),
      copies_(copy_words_ * std::min(most_in_a_slot, shape_.requests)),
      places_(shape_.requests),
      indices_(shape_.requests),
      free_to_(shape_.requests),
      observed_(shape_.ranks) {
  // Starts with its own requests, because most requests usually come from the leader.
  replicas_.push_back(rank_);
  for (int other = 0; other < static_cast<int>(shape_.ranks); ++other) {
    if (other != rank_ && shape_.is_replica(other)) replicas_.push_back(other);
  }
  raise_every_ = std::max(1u, std::min(256u, shape_.requests / 4));
  if (machine_.save != nullptr) layout_.part(rank_).returns.store(1, std::memory_order_relaxed);
  generation_ = Progress::of(own_progress().load(std::memory_order_acquire)).generation;
  guard_ = comm::ThreadExitGuard(space_->members(), rank_, space_);
  waiter_.set_interrupt([](void* self) { return static_cast<Replica*>(self)->needs_attention(); }, this);
  if (space_->kept() != nullptr) continue_kept();
  ring();
}

Replica::~Replica() {
  guard_.release();
  std::uint64_t word = own_progress().load(std::memory_order_acquire);
  while (!own_progress().compare_exchange_weak(word, Progress::of(word).with(Standing::out, 0, 1).word(),
                                               std::memory_order_acq_rel, std::memory_order_acquire)) {}
  resign();
  // Who leaves agrees to everything that the others do.
  if (shape_.majority != 0) layout_.part(rank_).consent.store(~std::uint64_t{0}, std::memory_order_release);
  space_->members().leave(rank_);
  ring();
}

Status Replica::fail(Status status, const std::string& why) noexcept {
  if (status_ == Status::ok) {
    status_ = status;
    failure_ = why;
  }
  leading_ = false;
  return status_;
}

Status Replica::refuse(const std::string& why) noexcept {
  failure_ = why;
  return Status::invalid_argument;
}

// ---- Delivery

inline bool Replica::take(Entry* entry) noexcept {
  if (taken_ == copied_ && !copy_slot()) return false;
  const std::uint64_t request = copied_first_ + taken_;
  if (in_place_) {
    const Word* const cell = layout_.cell_in(own_cells_, request);
    *entry = {delivered_entries_, rank_, request, cell + 1, bytes_of(cell->load(std::memory_order_relaxed))};
  } else {
    const std::uint64_t* const copy = &copies_[taken_ * copy_words_];
    *entry = {delivered_entries_, copied_client_, request, copy + 1, bytes_of(copy[0])};
  }
  ++taken_;
  ++delivered_entries_;
  return true;
}

// ---- All roles

void Replica::step() noexcept {
  if (status_ != Status::ok) return;
  if (shape_.majority != 0) consent();
  if (!live_) return come_back();
  learn();
  // Acquire: pairs with the CAS that changed it.
  const std::uint64_t word = layout_.head().configuration.load(std::memory_order_acquire);
  if (word != configuration_word_) [[unlikely]] {
    configuration_word_ = word;
    leading_ = false;
    candidate_ = 0;
    if (Configuration::of(word).leader == nobody) take_over();
  } else if (candidate_ != 0) [[unlikely]] {
    if (needs_attention()) {
      take_over();
    } else {
      candidate_ = 0;  // the leader goes on
    }
  }
  if (Configuration::of(configuration_word_).leader == rank_) lead();
  if (machine_.apply != nullptr && live_) {
    deliver_all();
    serve_snapshots();
    if (leading_ && space_->kept() != nullptr) keep_state();
  }
}

/// Checks for deaths, and for a leader that delays others.
void Replica::look_around() noexcept {
  space_->look_for_deaths();
  if (!needs_attention()) {
    candidate_ = 0;
  } else if (live_) {
    const auto now = Configuration::of(layout_.head().configuration.load(std::memory_order_acquire));
    const auto faults = static_cast<Faults>(shape_.faults);
    const int dead = space_->members().first_dead();
    if (faults == Faults::none && dead >= 0) {
      fail(Status::broken,
           fmt::format("replicated log: rank {} died, and no death is survived with faults = none", dead));
    } else if (shape_.fixed != 0) {
      fail(Status::broken, fmt::format("replicated log: rank {}, the fixed sequencer, has ended", now.leader));
    } else {
      take_over();
    }
  }
}

/// Called by the waiter from time to time, and by calls that do not wait.
bool Replica::needs_attention() noexcept {
  space_->look_for_deaths();
  if (status_ != Status::ok) return true;
  if (!live_) return false;
  // A sleeping replica takes few steps, so replicas for which the log waits are checked here as well.
  if (leading_ && layout_.head().pressed.load(std::memory_order_relaxed) > floor_) raise_floor();
  const auto faults = static_cast<Faults>(shape_.faults);
  if (faults == Faults::none && space_->members().first_dead() >= 0) return true;
  const auto now = Configuration::of(layout_.head().configuration.load(std::memory_order_acquire));
  if (now.leader == rank_) return false;
  if (now.leader == nobody || space_->gone(now.leader)) return true;
  return faults == Faults::stop && late(monotonic_ns());
}

/// Whether an action of the leader is overdue: a decision of an own request, room for one, or another replica's return.
/// Used for suspicion only.
bool Replica::late(std::uint64_t now_ns) noexcept {
  const bool waits = started_ > seen_[self()] || waits_for_room_ || somebody_waits_for_a_grant();
  const std::uint64_t looked = layout_.head().looked.load(std::memory_order_relaxed);
  const bool moved =
      suspect_learned_ != learned_ || suspect_configuration_ != configuration_word_ || suspect_looked_ != looked;
  if (!waits || moved || suspect_since_ns_ == 0) {
    suspect_learned_ = learned_;
    suspect_configuration_ = configuration_word_;
    suspect_looked_ = looked;
    suspect_since_ns_ = waits ? now_ns : 0;
    return false;
  }
  return static_cast<double>(now_ns - suspect_since_ns_) > shape_.suspect_after_s * 1e9;
}

/// Whether a replica has asked the leader of this configuration for a place, and has none.
bool Replica::somebody_waits_for_a_grant() const noexcept {
  const std::uint64_t epoch = Configuration::of(configuration_word_).epoch;
  return std::any_of(replicas_.begin(), replicas_.end(), [&](int other) {
    const auto progress = Progress::of(layout_.part(other).progress.load(std::memory_order_acquire));
    return progress.standing == Standing::joining && progress.index == epoch && !space_->gone(other);
  });
}

template <class Done>
Status Replica::await(Done done) noexcept {
  for (;;) {
    const auto ready = [&] {
      step();
      return done() || status_ != Status::ok || reads_too_little();
    };
    const bool ended = waiter_.wait(ready, &layout_.head().bell);
    if (status_ != Status::ok) return status_;
    if (ended) {
      if (done()) return Status::ok;
      return refuse(fmt::format("replicated log: rank {} has {} entries to deliver: call next() before it waits", rank_,
                                learned_entries_ - delivered_entries_));
    }
    look_around();
  }
}

Status Replica::progress() noexcept {
  step();
  look_around();
  return status_;
}

Status Replica::serve(bool (*stop)(void* context), void* context) noexcept {
  bool is_over = false;
  while (!is_over) {
    // A new wait for each event, so that a replica stays awake for a while after it has worked.
    const std::uint64_t before = learned_;
    const auto ready = [&] {
      step();
      for (Entry entry; machine_.apply == nullptr && take(&entry);) {}
      is_over = status_ != Status::ok || stop(context);
      return is_over || learned_ != before;
    };
    if (!waiter_.wait(ready, &layout_.head().bell)) look_around();
  }
  return status_;
}

LogConfiguration Replica::configuration() const {
  const auto now = Configuration::of(layout_.head().configuration.load(std::memory_order_acquire));
  LogConfiguration result{now.epoch, now.leader == nobody ? -1 : now.leader, {}};
  for (int rank = 0; rank < static_cast<int>(shape_.ranks); ++rank) {
    const auto progress = Progress::of(layout_.part(rank).progress.load(std::memory_order_acquire));
    if (progress.standing == Standing::live && !space_->gone(rank)) result.replicas.push_back(rank);
  }
  return result;
}

// ---- Client

std::uint64_t Replica::place_of(std::uint64_t request) const noexcept {
  const std::uint64_t place = places_[request & (shape_.requests - 1)];
  const bool is_recent = request + shape_.requests > started_;
  return !is_recent || (place & unknown) != 0 ? smelt::Replica::unknown_index
                                              : indices_[request & (shape_.requests - 1)];
}

/// Reads the floor. False: this replica has been evicted, and the floor may be above all that it knows.
bool Replica::look_at_floor() noexcept {
  // Acquire: pairs with raise_floor(). All live replicas have copied the entries below, and an eviction that the floor
  // did not wait for is visible.
  const std::uint64_t word = layout_.head().floor.load(ordering::log_reuse);
  const std::uint64_t live = Progress{generation_, Standing::live, delivered_}.word();
  if (own_progress().load(std::memory_order_relaxed) != live) return drop_out(), false;
  known_floor_ = Floor::index(word, learned_);
  return true;
}

/// Whether all replicas have read the former contents of the request's cell.
bool Replica::cell_is_free(std::uint64_t request) noexcept {
  if (request <= free_to_) return true;
  if (!live_ || status_ != Status::ok) return false;
  const std::uint64_t before = request - shape_.requests;
  if (!decided(before)) return false;
  const auto place_below = [&](std::uint64_t former) { return places_[former & (shape_.requests - 1)] & ~unknown; };
  const std::uint64_t place = place_below(before);
  if (place >= known_floor_ && !look_at_floor()) return false;
  if (place < known_floor_) {
    // Requests are decided in order: if a later one's cell is free, so are those before it.
    const std::uint64_t later = before + cells_freed_at_once - 1;
    const bool is_later_free = decided(later) && place_below(later) < known_floor_;
    free_to_ = std::min(is_later_free ? later + shape_.requests : request, most_requests - 1);
    return true;
  }
  // A hint to the leader. It does not matter which writer wins.
  if (layout_.head().pressed.load(std::memory_order_relaxed) <= place) {
    layout_.head().pressed.store(place + 1, std::memory_order_relaxed);
  }
  return false;
}

Status Replica::refuse_command(const void* command, std::size_t bytes) noexcept {
  if (command == nullptr && bytes <= shape_.command_bytes) {
    return refuse(fmt::format("replicated log: a command of {} bytes is a null pointer", bytes));
  }
  return refuse(fmt::format("replicated log: a command of {} bytes; LogOptions::command_bytes is {}", bytes,
                            shape_.command_bytes));
}

/// Waits until the cell of the next request is free, and this replica reads.
Status Replica::make_room(std::uint64_t number) noexcept {
  if (number >= most_requests) return fail(Status::broken, "replicated log: this rank's request numbers are used up");
  if (cell_is_free(number) && !reads_too_little()) return Status::ok;
  const std::uint64_t before = number - shape_.requests;
  const auto unread = [&] {  // unread by this replica itself, which cannot read during this call
    return machine_.apply == nullptr && number > shape_.requests && decided(before) && live_ &&
           (places_[before & (shape_.requests - 1)] & ~unknown) >= delivered_;
  };
  waits_for_room_ = true;
  const Status status = await([&] { return unread() || cell_is_free(number); });
  waits_for_room_ = false;
  if (status != Status::ok) return status;
  if (!unread()) return Status::ok;
  return refuse(fmt::format("replicated log: rank {} has not delivered its last {} commands: call next() first", rank_,
                            shape_.requests));
}

Status Replica::start(const void* command, std::size_t bytes, std::uint64_t* request) noexcept {
  if (status_ != Status::ok) return status_;
  if (bytes > shape_.command_bytes || (command == nullptr && bytes != 0)) [[unlikely]]
    return refuse_command(command, bytes);
  const std::uint64_t number = started_ + 1;
  if (number > free_to_ || reads_too_little()) [[unlikely]] {
    if (const Status status = make_room(number); status != Status::ok) return status;
  }
  Word* const cell = layout_.cell_in(own_cells_, number);
  write_command(cell + 1, command, bytes);
  SMELT_LOG_POINT(1);
  // Release: pairs with lead(). Publishes the command and this thread's earlier writes.
  cell->store(stamp_of(number, bytes), ordering::log_request);
  SMELT_LOG_POINT(2);
  started_ = number;
  *request = number;
  for_lines(layout_.cell_in(own_cells_, number + owned_ahead), layout_.cell_bytes(),
            [](const void* line) { prefetch_to_write(line); });
  // A leader decides several at once: as many as a slot takes, or those that there are when it waits.
  if (!leading_) {
    ring();
  } else if (const std::uint64_t waiting = started_ - seen_[self()]; waiting >= most_in_a_slot) {
    step();
  } else if (waiting == most_in_a_slot / 2) {
    prefetch_to_write(&layout_.slot(learned_));  // others poll it; to decide it does not wait for its line then
  }
  return status_;
}

Status Replica::test(std::uint64_t request, bool* done, std::uint64_t* index) noexcept {
  *done = false;
  if (request == 0 || request > started_) return refuse("replicated log: no such ticket");
  if (!decided(request)) {
    step();
    if (!decided(request)) look_around();
  }
  if (!decided(request)) return status_;
  *done = true;
  if (index != nullptr) *index = place_of(request);
  return Status::ok;
}

Status Replica::wait(std::uint64_t request, std::uint64_t* index) noexcept {
  if (request == 0 || request > started_) return refuse("replicated log: no such ticket");
  if (!decided(request)) {
    const Status status = await([&] { return decided(request); });
    if (status != Status::ok) return status;
  }
  if (index != nullptr) *index = place_of(request);
  return Status::ok;
}

Status Replica::read_point(std::uint64_t* index) noexcept {
  step();
  if (!live_ || status_ != Status::ok) {
    const Status status = await([&] { return live_; });
    if (status != Status::ok) return status;
  }
  *index = learned_entries_;
  return status_;
}

Status Replica::catch_up(std::uint64_t index) noexcept {
  if (delivered_entries_ >= index) return status_;
  if (machine_.apply == nullptr) return refuse("replicated log: catch_up() is for replicas with `apply`; call next()");
  return await([&] { return delivered_entries_ >= index; });
}

// ---- Learner

void Replica::note(int client, unsigned count) noexcept {
  std::uint64_t& seen = seen_[static_cast<std::size_t>(client)];
  for (unsigned i = 0; client == rank_ && i < count; ++i) {
    const std::uint64_t cell = (seen + 1 + i) & (shape_.requests - 1);
    places_[cell] = learned_;
    indices_[cell] = learned_entries_ + i;
  }
  seen += count;
  learned_entries_ += count;
  ++learned_;
}

/// Reads slots up to the first undecided one.
void Replica::learn() noexcept {
  for (;;) {
    // Acquire: pairs with decide(). The command that the slot names is visible.
    const std::uint64_t word = layout_.slot(learned_).load(ordering::log_learn);
    const std::uint64_t lap = layout_.lap(learned_);
    if (lap_of(word) < lap) return;
    if (lap_of(word) > lap) return drop_out();
    if (is_sealed(word)) return;
    note(client_of(word), count_of(word));
  }
}

/// Fetches the commands of the next slot, unless that has been done, and of the one behind it: their lines come at the
/// same time, also while the former are copied.
void Replica::fetch_commands() noexcept {
  unsigned before = 0;  // commands of the same client in the next slot
  for (std::uint64_t slot = delivered_; slot < std::min(learned_, delivered_ + 2); ++slot) {
    const std::uint64_t word = layout_.slot(slot).load(std::memory_order_relaxed);
    const int client = client_of(word);
    if (client == rank_ || client >= static_cast<int>(shape_.ranks)) continue;
    if (slot == delivered_) before = count_of(word);
    if (slot < fetched_) continue;
    const bool follows =
        slot > delivered_ && client == client_of(layout_.slot(delivered_).load(std::memory_order_relaxed));
    const std::uint64_t first = executed_[static_cast<std::size_t>(client)] + 1 + (follows ? before : 0);
    for (unsigned i = 0; i < count_of(word); ++i) {
      for_lines(layout_.cell(client, first + i), layout_.cell_bytes(),
                [](const void* line) { __builtin_prefetch(line); });
    }
    fetched_ = slot + 1;
  }
}

/// False: the client has reused the cells, so this replica has been evicted.
bool Replica::copy_commands(int client, std::uint64_t first, unsigned count) noexcept {
  fetch_commands();
  for (unsigned i = 0; i < count; ++i) {
    const Word* const cell = layout_.cell(client, first + i);
    // Relaxed: learn() has acquired the slot, whose decision came after the stamp.
    const std::uint64_t stamp = cell->load(std::memory_order_relaxed);
    if (request_of(stamp) != first + i || bytes_of(stamp) > shape_.command_bytes) return false;
    std::uint64_t* const copy = &copies_[i * copy_words_];
    copy[0] = stamp;
    read_command(copy + 1, cell + 1, bytes_of(stamp));
  }
  return true;
}

/// Copies the commands of the next slot, all of them before the progress says so.
bool Replica::copy_slot() noexcept {
  if (delivered_ == learned_ || !live_) return false;
  const std::uint64_t word = layout_.slot(delivered_).load(std::memory_order_relaxed);
  const int client = client_of(word);
  const unsigned count = count_of(word);
  if (lap_of(word) != layout_.lap(delivered_) || client >= static_cast<int>(shape_.ranks) || count > shape_.requests) {
    return drop_out(), false;
  }
  std::uint64_t& executed = executed_[static_cast<std::size_t>(client)];
  // With `apply`, all are delivered before this rank can start another command: nobody rewrites its own cells
  // meanwhile.
  in_place_ = client == rank_ && machine_.apply != nullptr;
  if (!in_place_ && !copy_commands(client, executed + 1, count)) return drop_out(), false;
  SMELT_LOG_POINT(3);
  std::uint64_t before = Progress{generation_, Standing::live, delivered_}.word();
  // Release: pairs with raise_floor(); the copies were made before. Acquire: should it have been evicted, see
  // drop_out().
  if (!own_progress().compare_exchange_strong(before, before + 1, ordering::log_advance, std::memory_order_acquire)) {
    return drop_out(), false;
  }
  SMELT_LOG_POINT(4);
  copied_client_ = client;
  copied_first_ = executed + 1;
  executed += count;
  ++delivered_;
  copied_ = count;
  taken_ = 0;
  // Who waits for room may be asleep, and has said how far the others must get. A hint: it looks up now and then, too.
  if (layout_.head().pressed.load(std::memory_order_relaxed) == delivered_) [[unlikely]]
    ring();
  return true;
}

void Replica::deliver_all() noexcept {
  for (Entry entry; take(&entry);) machine_.apply(machine_.context, entry);
}

Status Replica::next(Entry* entry, bool* there) noexcept {
  *there = false;
  if (machine_.apply != nullptr) return refuse("replicated log: next() is for replicas without `apply`");
  if (status_ != Status::ok) return status_;
  serve_snapshots();  // what was delivered has been applied
  if (delivered_entries_ == learned_entries_ || ++calls_ % deliveries_between_steps == 0) step();
  *there = take(entry);
  if (!*there) look_around();
  return status_;
}

Status Replica::next(Entry* entry) noexcept {
  bool there = false;
  const Status status = next(entry, &there);
  if (status != Status::ok || there) return status;
  for (;;) {
    const auto ready = [&] {
      serve_snapshots();
      step();
      there = take(entry);
      return there || status_ != Status::ok;
    };
    if (waiter_.wait(ready, &layout_.head().bell)) return there ? Status::ok : status_;
    look_around();
  }
}

/// Handles the eviction of this replica: the others have continued without it.
void Replica::drop_out() noexcept {
  live_ = false;
  leading_ = false;
  taken_ = copied_;  // the snapshot that it comes back by replaces all
  return_ = Return::out;
  return_since_ns_ = monotonic_ns();
  receiver_ = -1;
  resign();
  if (machine_.load == nullptr) {
    fail(Status::broken,
         fmt::format("replicated log: rank {} was evicted, since the others had to wait for it, and has no "
                     "snapshots to come back by",
                     rank_));
  }
}

}  // namespace smelt::state::log
