// Endpoint: per-rank state of a communicator, owned by the attached thread; and the collectives themselves.
//
// A tree is stored as a flood order: the rank's tree neighbours, most urgent first. A broadcast arrives from the
// neighbour towards the root and is sent to all others in that order. This is the optimal send order for every root,
// because the time that the subtree behind a neighbour needs does not depend on the root. A reduction is the reverse.
//
//        1                 flood order of 0: 2 1 3 (2 has the largest subtree)
//        |                 root 0: send 2 1 3
//    4 - 2 - 0 - 3         root 4: comes from 2, send 1 3
//            |
//            1'
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/cacheline.hpp"
#include "base/cacheline_padded.hpp"
#include "base/wait.hpp"
#include "comm/collective/buffer_walk.hpp"
#include "comm/collective/eager_path.hpp"
#include "comm/collective/execution.hpp"
#include "comm/collective/link.hpp"
#include "comm/collective/recipe_selector.hpp"
#include "comm/group/membership.hpp"
#include "smelt/communicator.hpp"

namespace smelt::comm {

class CommunicatorState;

/// A compiled Step.
struct Action {
  Step::Kind kind;
  Link* link;
  std::uint32_t row = 0;  ///< of the first of several sends in a row: how many
};

/// Records the steps of a collective, for tests that compare them with its plan.
using StepLog = std::vector<Step>;

/// A collective that was started, or can be. The implementation of Request.
struct StartedCollective {
  Collective call;
  Endpoint* endpoint = nullptr;
  int phase = -1;            ///< of a composite operation; -1: not started
  std::uint8_t verdict = 0;  ///< of two-phase commit
  bool running = false;      ///< begun; otherwise queued behind others
  bool done = false;
  Status status = Status::ok;
  const CachedSchedule* prepared = nullptr;  ///< schedule of the last start, if the next one may use it, too
  std::uint32_t generation = 0;              ///< of the recipe selector when it was chosen
  std::optional<std::size_t> longest;        ///< blocks of different sizes: longest_known() of the last start
  bool as_blocking = false;  ///< blocking calls like it also run `prepared`; null: the endpoint's own code
  Execution execution;
};

class alignas(separation_bytes) Endpoint {
 public:
  /// Largest piece that is combined at a time if operands are received or copied first.
  static constexpr std::size_t piece_bytes = 16 * 1024;
  /// The same for operands from another process, where each piece is a system call.
  static constexpr std::size_t process_piece_bytes = 64 * 1024;

  Endpoint(CommunicatorState& state, int rank, const WaitConfig& wait);

  /// How this rank waits.
  const WaitConfig& wait_config() const noexcept { return waiter_.config(); }

  /// Translates the state's plans to this rank's actions and routes; set-up only.
  void compile();

  /// Any collective. Errors: invalid_argument, without any effect.
  Status run(const Collective& call) noexcept;
  Status run_barrier() noexcept;
  /// The same for plain calls. A call of a single line that repeats the last one goes straight to its messages, since
  /// all ranks wait for whatever a rank does between two messages.
  Status run_broadcast(void* data, std::size_t bytes, int root) noexcept;
  Status run_reduce(const void* in, void* result, std::size_t count, const Reduction& op, int root) noexcept;
  Status run_allreduce(const void* in, void* result, std::size_t count, const Reduction& op) noexcept;
  /// The same with a given recipe, for the tuner. Requirement: a choice of this communicator for that operation.
  Status run_with(const Collective& call, const SelectedRecipe& choice) noexcept;
  /// Whether a collective can be started. Some can only be run by blocking calls.
  bool startable(const StartedCollective& started) const noexcept;
  /// Queues a collective behind those that were started before, and progresses it without waiting.
  void start(StartedCollective& started) noexcept;
  /// Progresses the started collectives without waiting.
  void progress_started() noexcept;
  /// Runs a started collective that is not in progress, on other buffers.
  Status run_prepared(StartedCollective& started, const void* in, void* out) noexcept;
  /// Waits until that one is done.
  Status finish(StartedCollective& started) noexcept;

  Status barrier() noexcept;
  Status broadcast(void* data, std::size_t bytes, int root) noexcept;
  Status reduce(const void* in, void* result, std::size_t count, const Reduction& op, int root) noexcept;
  Status allreduce(const void* in, void* result, std::size_t count, const Reduction& op) noexcept;
  Status two_phase_commit(void* proposal, std::size_t bytes, bool (*vote)(const void*, void*), void* context,
                          bool* committed, int root) noexcept;

  int rank() const noexcept { return rank_; }
  int size() const noexcept;
  CommunicatorState& state() noexcept { return state_; }

  /// Attaches the calling thread to the rank.
  void come() noexcept;
  /// Detaches: finishes the started collectives, then makes the departure visible to other ranks.
  void leave() noexcept;
  /// In a broken communicator: marks that this rank takes part no more, for those that wait for it or access its
  /// buffers. True.
  bool give_up() noexcept;
  /// Number of collectives that the rank had entered when the thread attached.
  std::uint64_t calls_before() const noexcept { return calls_before_; }
  /// Number of collectives that the rank has entered. For the attached thread.
  std::uint64_t calls() const noexcept { return calls_; }

  std::atomic<bool> attached{false};
  ThreadExitGuard guard;                           ///< of the thread that is attached
  std::map<std::vector<int>, int> subgroup_calls;  ///< how often this rank has asked for each subgroup
  StepLog* log = nullptr;                          ///< tests only

 private:
  friend class EagerPath;
  friend class Execution;
  using Bytes = CachelinePaddedVector<std::byte>;
  /// The last call of an operation and its schedule. An equal call is neither checked nor looked up again.
  struct LastCall {
    bool known = false;
    bool line = false;                   ///< run by the endpoint's own code, with messages of a single line
    const Route* tree = nullptr;         ///< that these follow, unless it is an allreduce
    bool reads = false, writes = false;  ///< `in`, `out` was given
    bool commutative = true, at_rest = false;
    int root = 0;
    std::uint32_t generation = 0;  ///< of the recipe selector
    std::size_t count = 0, element_bytes = 0;
    Reduction::Combine combine = nullptr;
    Reduction::Merge merge = nullptr;
    const CachedSchedule* prepared = nullptr;  ///< nullptr: the endpoint's own code

    bool is_like(const Collective& call, std::uint32_t now) const noexcept {
      const Reduction& op = call.reduction;
      return known && generation == now && count == call.count && root == call.root &&
             element_bytes == call.element_bytes && call.sync == Sync::loose && !call.uneven &&
             at_rest == call.at_rest && combine == op.combine && merge == op.merge &&
             (combine == nullptr ||
              (op.element_bytes == element_bytes && op.commutative == commutative && !op.reproducible)) &&
             (call.in != nullptr || !reads) && (call.out != nullptr || !writes) && !has_blocks(call);
    }
    /// The same for plain calls, which have no other arguments but the buffers.
    bool is_line(std::size_t elements, int to, std::uint32_t now) const noexcept {
      return line && generation == now && count == elements && root == to;
    }
    bool combines_by(const Reduction& op) const noexcept {
      return combine == op.combine && merge == op.merge && element_bytes == op.element_bytes && op.commutative &&
             !op.reproducible;
    }
    static bool has_blocks(const Collective& call) noexcept {
      return call.in_blocks.counts != nullptr || call.in_blocks.offsets != nullptr ||
             call.out_blocks.counts != nullptr || call.out_blocks.offsets != nullptr;
    }
  };

  /// Whether the rank's tick has reached a value. Reads the tick only if the last value that was seen is smaller: a
  /// tick that its owner raises with every call is a cache miss each time.
  bool has_reached(int rank, std::uint64_t tick) noexcept {
    auto& seen = seen_ticks_[static_cast<std::size_t>(rank)];
    if (seen < tick) seen = layout_.tick(rank).value.load(ordering::tick_await);
    return seen >= tick;
  }
  /// Whether the buffers of another rank still exist. If not, this rank has given up, too.
  bool may_touch(int owner) noexcept;
  /// During its lifetime this rank may access other ranks' buffers, if it converts to true.
  class BufferAccess;
  /// Waits until no other rank accesses the caller's buffers. Needed in a broken communicator, where addresses of
  /// buffers may have been sent to other ranks.
  void regain_buffers() noexcept;
  bool enter(Operation operation) noexcept;
  /// Notes the buffers of a call for calls to come: before the rank waits, or after it has sent if it does not wait.
  void walk_on(const void* read, const void* written) noexcept {
    read_.pass(read);
    written_.pass(written);
  }
  /// Whether this rank's current collective cannot be completed: the communicator is broken, and not only for later
  /// collectives.
  bool broken() const noexcept;
  /// Makes `bytes` at least that large; false, and the communicator broken, if there is no memory.
  bool reserve(Bytes& bytes, std::size_t least) noexcept;
  /// Breaks the communicator because the memory of a process cannot be accessed any more: broken() holds then.
  void lost_access(pid_t process, int error) noexcept;
  const CachedSchedule* prepare(const SelectedRecipe& choice, const Collective& call) noexcept;
  Status execute(const Collective& call, const CachedSchedule* prepared) noexcept;
  void remember(const Collective& call, const CachedSchedule* prepared) noexcept;
  Status run_loose(const Collective& call) noexcept;
  Status run_planned(const Collective& call) noexcept;
  Status run_line(const Collective& call, const Route* tree) noexcept;
  const Route* line_route(const Collective& call, const CachedSchedule* prepared) const noexcept;
  Status commit_in_parts(const Collective& call) noexcept;
  void drain() noexcept;
  bool begin_phase(StartedCollective& started) noexcept;
  std::optional<std::size_t> longest_of(const Collective& call) const noexcept;
  bool is_known(const StartedCollective& started) const noexcept;
  const CachedSchedule* prepare_part(StartedCollective& started, const Collective& part) noexcept;
  void learn_uneven(StartedCollective& started) noexcept;
  bool is_over() noexcept;
  void end_started(StartedCollective& started, Status status) noexcept;
  static void fetch_row(const Route& route, const Link* except) noexcept;
  bool send(Link& link, const void* data, std::size_t bytes) noexcept;
  bool receive(Link& link, void* data, std::size_t bytes) noexcept;
  bool flood(const Route& route, void* data, std::size_t bytes, int root) noexcept;
  bool gather(const Route& route, const void* in, void* result, std::size_t count, const Reduction& op,
              int root) noexcept;
  bool exchange_chunk(const std::byte* value, std::byte* result, std::size_t count, const Reduction& op) noexcept;
  bool exchange(const void* in, void* result, std::size_t count, const Reduction& op) noexcept;
  bool fits_line(const Collective& call) const noexcept;
  bool is_line(const Collective& call, const CachedSchedule* prepared) const noexcept;
  Route route_in(const ScheduleRequest& request);
  bool send_line(Link& link, const void* data, std::size_t bytes) noexcept;
  const std::byte* await_line(Link& link, Step::Kind kind) noexcept;
  bool flood_line(const Route& route, void* data, std::size_t bytes, int root) noexcept;
  bool gather_line(const Route& route, const void* in, void* result, std::size_t count, const Reduction& op,
                   int root) noexcept;
  bool exchange_line(const CachelinePaddedVector<Action>& exchange, const void* in, void* result, std::size_t count,
                     const Reduction& op) noexcept;
  Status broadcast_line(const Route& route, void* data, std::size_t bytes, int root) noexcept;
  Status reduce_line(const Route& route, const void* in, void* result, std::size_t count, const Reduction& op,
                     int root) noexcept;
  Status allreduce_line(const void* in, void* result, std::size_t count, const Reduction& op) noexcept;
  bool gather_in_order(const void* in, void* result, std::size_t count, const Reduction& op) noexcept;
  bool combine_from(Link& link, std::byte* accumulator, std::size_t count, const Reduction& op,
                    bool peer_first) noexcept;
  void note(Step::Kind kind, int peer) noexcept;
  void write_log(Step::Kind kind, int peer) noexcept;
  bool ensure_scratch(std::size_t element_bytes) noexcept;
  Link* link_to(int peer) noexcept;
  static bool interrupted(void* self) noexcept;
  static bool poll(void* self) noexcept;
  std::uint64_t note_wait() noexcept;
  bool waits_in_vain() noexcept;
  bool misses(int peer) noexcept;
  std::uint32_t absence(int peer) const noexcept;

  CommunicatorState& state_;
  const SharedLayout& layout_;
  Progress& progress_;
  Tick& tick_;
  std::byte* const stage_memory_;  ///< this rank's
  const int rank_;
  Waiter waiter_;
  const bool has_heavy_barrier_;
  std::uint64_t calls_ = 0, calls_before_ = 0;
  BufferWalk read_, written_;      ///< of blocking calls, but for those of schedules of long messages
  std::uint64_t lines_moved_ = 0;  ///< grows with every message: distinguishes waiting from being stuck
  static constexpr int everybody = -1;
  int waiting_for_ = everybody;       ///< peer of the current message
  int waiting_too_ = everybody;       ///< a second awaited peer, if not `everybody`
  std::uint64_t stuck_since_ns_ = 0;  ///< when the current wait was first seen; 0: not yet
  std::uint64_t stuck_lines_ = 0;

  std::vector<std::unique_ptr<Link>> links_;
  CachelinePaddedVector<Action> barrier_;
  CachelinePaddedVector<Action> allreduce_;  ///< of an exchange without a tree; empty if reduce + broadcast
  CachelinePaddedVector<Action> votes_;      ///< the same, of a two-phase commit
  Route allreduce_up_, allreduce_down_;
  Route broadcast_route_;
  Route reduce_route_;
  Route ordered_route_;

  std::size_t chunk_bytes_;                   ///< of messages along trees
  const std::size_t exchange_bytes_;          ///< of messages both ways, which have no levels
  CachelinePaddedVector<std::byte> scratch_;  ///< an accumulator of a chunk; behind it an operand, also of an exchange

  // State of schedules.
  std::uint64_t epoch_ = 0;
  StagingRing stage_;
  CachelinePaddedVector<std::uint64_t> seen_ticks_;  ///< by rank: the last tick that was read
  std::vector<std::uint32_t> absences_;              ///< by rank: the last absence() that was seen
  std::uint64_t last_look_ = 0;                      ///< when a started collective was last found blocked, in ticks()
  std::vector<Link*> lending_;                       ///< links on which the peer may still read my buffers
  Bytes work_, pieces_, input_copy_, detour_;
  Execution blocking_;
  std::vector<std::vector<std::unique_ptr<CachedSchedule>>> prepared_;  ///< by choice and root
  LastCall recent_[operation_count];
  std::deque<StartedCollective*> started_;
};

/// A rank that gives up returns, and its buffers may be freed. So a rank announces an access to another rank's buffers,
/// and then checks that their owner has not given up (docs/explanation/memory-ordering.md, "Leaving").
class Endpoint::BufferAccess {
 public:
  BufferAccess(Endpoint& endpoint, int owner) noexcept : word_(endpoint.progress_.touches) {
    // The store precedes the loads: for the compiler by the fence, for the processor by the heavy barrier
    // in regain_buffers().
    if (endpoint.has_heavy_barrier_) [[likely]] {
      word_.store(1, std::memory_order_relaxed);
      std::atomic_signal_fence(std::memory_order_seq_cst);
    } else {
      word_.exchange(1);
    }
    allowed_ = endpoint.may_touch(owner);
  }
  BufferAccess(const BufferAccess&) = delete;
  /// Pairs with the load in regain_buffers().
  ~BufferAccess() { word_.store(0, std::memory_order_release); }

  explicit operator bool() const noexcept { return allowed_; }

 private:
  std::atomic<std::uint32_t>& word_;
  bool allowed_;
};

}  // namespace smelt::comm
