// A replica: one rank's client and learner in the replicated log, and its leader if it has the lead.
//
//   client    writes a command and its stamp into its next cell                             request
//   leader    finds stamps and decides slots in order: CAS slot[i]              decide, the commit point
//   learner   reads slots up to the first undecided one and delivers commands    learn, deliver
//
// Rule of the leader: it decides slot i only if it knows what was decided in all slots below i, and it proposes a
// client's next requests after those that it knows to be decided, up to 32 in a slot.
//
// Lines that move, for k commands of b lines each in a slot, by the leader to each PU: k b of the commands, one of the
// slot (8 slots share it), and two back for both; a progress line for each slot and each replica. So a client that has
// many commands under way pays for its commands alone. What it will write next (commands, the slot) is fetched for
// writing before, and a learner fetches all commands of a slot at once: their times overlap.
//
// Any replica may take over from a leader that is dead or merely suspected:
//   1. CAS configuration (e, L) -> (e + 1, self).
//   2. Learn up to the first undecided slot s. CAS slot[s] -> sealed for e + 1.
//      Repeat if it was decided meanwhile.
//   3. CAS floor to epoch e + 1.
// With configuration "paxos", a majority of the replicas consents to the end of epoch e first:
//   0. raise contested to e; each replica that sees it raises its consent to e; wait for a majority.
// A consent binds nobody: the CAS decides who leads, and whoever finds the consents may do it.
//
// Invariants
//   1. A decided slot never changes before its index is below the floor.
//   2. A leader that decides slot i + 1 after slot i knows all entries below. No other process decides in a slot that it
//      has sealed, or that follows one that it decided: the CAS expects the word that it last saw there, and because of
//      the lap no word recurs.
//   3. So each request is decided once, and the requests of a client are decided in order without gaps. A leader that was
//      stopped finds another word in its next slot when it continues.
//   4. The slot that follows the last decided one is below the floor's lap: it can be sealed at any time without
//      a loss.
//   5. The floor is at most the progress of every live replica, and of every one that was granted a place while the
//      configuration stood that it had asked.
//   6. Configuration "paxos": when a leader evicts a replica that lives, a majority of all replicas is up to date without
//      it. So what is known to those that are up to date is lost only if a majority dies or is late: each
//      former leader that was stopped between its count and its CAS may evict one more.
// tests/state/protocol/log_slots.pml checks this protocol, with evictions and returns, in all interleavings.
//
// A replica copies the commands of a slot first and advances its progress by CAS then; if that succeeds, it was not
// evicted before, and the copies are good. If it fails, it is out, and comes back by a snapshot (snapshot.cpp). A
// rank's own commands need no copies with `apply`: nobody else writes its cells, and it delivers them before it writes
// more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/cacheline_padded.hpp"
#include "state/log/layout.hpp"
#include "state/log/space.hpp"

namespace smelt::state::log {

class Replica {
 public:
  Replica(std::shared_ptr<Space> space, int rank, const StateMachine& machine);
  Replica(const Replica&) = delete;
  ~Replica();

  int rank() const noexcept { return rank_; }
  Status start(const void* command, std::size_t bytes, std::uint64_t* request) noexcept;
  Status test(std::uint64_t request, bool* done, std::uint64_t* index) noexcept;
  Status wait(std::uint64_t request, std::uint64_t* index) noexcept;
  Status next(Entry* entry, bool* there) noexcept;
  Status next(Entry* entry) noexcept;
  Status read_point(std::uint64_t* index) noexcept;
  Status catch_up(std::uint64_t index) noexcept;
  std::uint64_t delivered() const noexcept { return delivered_entries_; }
  std::uint64_t started() const noexcept { return started_; }
  Status progress() noexcept;
  Status serve(bool (*stop)(void* context), void* context) noexcept;
  LogConfiguration configuration() const;
  std::string failure() const { return failure_; }

 private:
  using PerRank = CachelinePaddedVector<std::uint64_t>;

  /// The state of an evicted replica's return.
  enum class Return : std::uint8_t { out, asking, receiving };

  // replica.cpp: all roles
  void step() noexcept;
  void look_around() noexcept;
  bool needs_attention() noexcept;
  template <class Done>
  Status await(Done done) noexcept;
  Status fail(Status status, const std::string& why) noexcept;
  Status refuse(const std::string& why) noexcept;
  void ring() noexcept { unpark(layout_.head().bell); }
  bool late(std::uint64_t now_ns) noexcept;
  bool somebody_waits_for_a_grant() const noexcept;

  // client
  bool look_at_floor() noexcept;
  bool cell_is_free(std::uint64_t request) noexcept;
  Status make_room(std::uint64_t number) noexcept;
  Status refuse_command(const void* command, std::size_t bytes) noexcept;
  /// Half of the log is reserved for entries that slow replicas have not read.
  bool reads_too_little() const noexcept {
    return machine_.apply == nullptr && live_ && learned_ - delivered_ >= shape_.entries / 2;
  }
  std::uint64_t place_of(std::uint64_t request) const noexcept;
  bool decided(std::uint64_t request) const noexcept { return request <= seen_[self()]; }

  // learner
  void learn() noexcept;
  void note(int client, unsigned count) noexcept;
  void fetch_commands() noexcept;
  bool copy_commands(int client, std::uint64_t first, unsigned count) noexcept;
  bool copy_slot() noexcept;
  bool take(Entry* entry) noexcept;
  void deliver_all() noexcept;
  void drop_out() noexcept;

  // leader.cpp
  void lead() noexcept;
  unsigned count_requests(int client) noexcept;
  bool decide(int client, unsigned count) noexcept;
  bool establish() noexcept;
  void take_over() noexcept;
  bool is_agreed(std::uint64_t epoch) noexcept;
  void consent() noexcept;
  void check_majority(std::uint64_t epoch) noexcept;
  void resign() noexcept;
  bool raise_floor() noexcept;
  bool evict(int rank, const Progress& progress) noexcept;
  unsigned up_to_date_without(int rank) const noexcept;
  bool is_stuck(int rank, const Progress& progress, std::uint64_t now_ns) noexcept;

  // snapshot.cpp
  void come_back() noexcept;
  void ask() noexcept;
  void check_grant() noexcept;
  void receive() noexcept;
  void receive_chunk(int server) noexcept;
  void finish_return() noexcept;
  bool write_state(std::vector<std::byte>* bytes);
  std::uint64_t entries_in(std::span<const std::byte> state) const noexcept;
  void adopt_state(std::uint64_t index, std::span<const std::byte> bytes);
  void serve_snapshots() noexcept;
  void claim_receiver() noexcept;
  void send_chunk() noexcept;
  std::uint64_t chunk_on_its_way(int receiver) const noexcept;
  void continue_kept();
  void keep_state() noexcept;

  std::size_t self() const noexcept { return static_cast<std::size_t>(rank_); }
  Word& own_progress() noexcept { return layout_.part(rank_).progress; }

  const std::shared_ptr<Space> space_;
  const Layout layout_;
  const Shape shape_;
  const int rank_;
  const StateMachine machine_;
  std::vector<int> replicas_;
  Waiter waiter_;
  comm::ThreadExitGuard guard_;

  // Learner. Slots, and the entries in them. `seen_`: requests decided below learned_, by client; `executed_`: those
  // copied, below delivered_.
  std::uint64_t learned_ = 0, delivered_ = 0;
  std::uint64_t learned_entries_ = 0, delivered_entries_ = 0;
  PerRank seen_, executed_;
  std::byte* const own_cells_;
  std::size_t copy_words_;
  CachelinePaddedVector<std::uint64_t>
      copies_;                 ///< of the slot below delivered_: of each command its stamp, then itself
  std::uint64_t fetched_ = 0;  ///< slots whose commands' lines are on their way or here
  int copied_client_ = 0;
  std::uint64_t copied_first_ = 0;   ///< request
  unsigned copied_ = 0, taken_ = 0;  ///< commands in it; those of them that were delivered
  bool in_place_ = false;            ///< they are this rank's own, and are delivered from its cells
  bool live_ = true;
  std::uint64_t generation_ = 0;
  std::uint32_t calls_ = 0;

  // Client. The index at which each of its last requests was decided, by cell. With `unknown` set: an upper bound.
  static constexpr std::uint64_t unknown = std::uint64_t{1} << 63;
  CachelinePaddedVector<std::uint64_t> places_, indices_;  ///< slots; entries
  std::uint64_t started_ = 0;
  std::uint64_t known_floor_ = 0;
  std::uint64_t free_to_;  ///< the cells of its requests up to this one are known to be free

  // Leader.
  std::uint64_t configuration_word_ = 0;  ///< seen last
  bool leading_ = false;
  std::uint64_t epoch_ = 0, floor_ = 0;
  std::uint32_t since_raise_ = 0, raise_every_ = 1, idle_steps_ = 0;
  std::uint64_t wanted_seen_ = 0;
  struct Observed {
    std::uint64_t state = 0, since_ns = 0;
  };
  std::vector<Observed> observed_;  ///< progress of the others, and since when
  std::uint64_t consented_ = 0;     ///< configuration "paxos": as in its own part
  std::uint64_t candidate_ = 0;     ///< the epoch that it has asked to end, for want of a leader; 0: none

  // Suspicion.
  std::uint64_t suspect_learned_ = 0, suspect_configuration_ = 0, suspect_looked_ = 0, suspect_since_ns_ = 0;
  bool waits_for_room_ = false;  ///< in start()

  // Way back, and snapshots for others.
  Return return_ = Return::out;
  std::uint64_t asked_ = 0;  ///< the configuration of the leader that was asked
  std::uint64_t return_since_ns_ = 0;
  std::uint64_t chunk_ = 0, snapshot_index_ = 0;
  std::vector<std::byte> incoming_, outgoing_;
  int receiver_ = -1;
  std::uint64_t receiver_generation_ = 0, sent_chunks_ = 0, wanted_served_ = 0, outgoing_index_ = 0;

  Status status_ = Status::ok;
  std::string failure_;
};

}  // namespace smelt::state::log
