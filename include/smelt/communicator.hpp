// Communicator: a group of ranks, its plans, and the shared memory to run them in.
//
//   auto comm = smelt::Communicator::create(*machine, *group);
//   comm->run([](smelt::Rank& rank) {
//     double mine = rank.rank(), total = 0;
//     rank.allreduce(&mine, &total, 1, smelt::sum<double>());
//     rank.barrier();
//   });
//
// Ordering: every collective of a communicator is called by all its ranks in the same order.
// What a rank did before it entered a collective is visible to every rank whose return from that
// collective depends on it: all ranks for barrier, allreduce and two_phase_commit, the receivers
// of a broadcast from its root, the root of a reduce from all. See docs/reference/ordering.md.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "smelt/collective.hpp"
#include "smelt/error.hpp"
#include "smelt/machine.hpp"
#include "smelt/plan.hpp"
#include "smelt/schedule.hpp"

namespace smelt {

struct CommunicatorOptions {
  std::string topology = "best";  ///< one of topologies(), for every operation
  std::string barrier;            ///< "tree", "dissemination", "flat"; empty: the model's choice
  double search_ms = 20.0;        ///< planning budget per operation
  /// Profile of the tuner: a file; "none": use the model only; empty: the cached one of this machine (smelt tune), if
  /// there is one, it fits, and `topology` is "best".
  std::string profile;
  /// Communicators of threads: check on creation whether the profile still holds (smelt/tune.hpp), about 0.1 s. Unset:
  /// SMELT_REVALIDATE.
  std::optional<bool> revalidate{};
  double timeout_s = -1.0;  ///< 0: never; negative: SMELT_TIMEOUT
  std::string wait;         ///< spin|yield|sleep|auto; empty: SMELT_WAIT
  bool pin = true;          ///< run() and attach() pin the thread to its rank's PU
  /// Per rank: its usual delay after the first one on entering a collective, ns; empty: all arrive at the same time.
  /// Trees and recipes are chosen accordingly. One number per rank of the communicator.
  std::vector<double> late_ns;
  /// Over processes: the PUs of ranks that are bound already, one os_index per rank (a PU may repeat). Empty: one rank
  /// per core that the first process may use.
  std::vector<int> pus;
  /// Over processes: any thread of the process may use the rank, one at a time. The end of a thread does not count as a
  /// death; only that of the process does.
  bool any_thread = false;
  /// Called by a rank that waits longer than a few microseconds, on its thread, about every 20 us while it spins or
  /// yields, and every 200 us while it sleeps. For other libraries that progress only when they are called. Must not
  /// call a collective of the same rank.
  void (*idle)(void* context) = nullptr;
  /// The same for what takes some 10 ns: called at every turn of a wait beyond the first polls, up to several times a
  /// microsecond, and every 200 us while the rank sleeps. Returns 1 if there is more to do, else 0: with 1 the rank
  /// does not sleep if it can help it, and else for 20 us at most.
  int (*poll)(void* context) = nullptr;
  void* idle_context = nullptr;  ///< of both
  std::string algorithm;         ///< a recipe's text (smelt/schedule.hpp) for its operation; empty: the best one
};

struct Revalidation;
struct RevalidateOptions;

namespace comm {
struct TunerAccess;
class CommunicatorState;
class Endpoint;
struct StartedCollective;
}  // namespace comm

class Communicator;

/// A collective that was started, or prepared to be started repeatedly. Used by the thread of its rank. Collectives of
/// one rank run in the order in which they were started; a blocking one waits for those started before it. Progress is
/// made in smelt's calls: test() and wait() of any request of the rank, and blocking collectives. Destroying a started
/// request waits for it.
class Request {
 public:
  Request(Request&&) noexcept;
  Request& operator=(Request&&) noexcept;
  ~Request();

  /// Starts it (again). The buffers belong to smelt until wait() or test() reports the end.
  /// Errors: invalid_argument while it is in progress; not_supported (operators that demand an order, on elements too
  /// large for the stages). Cost: no allocation.
  Status start() noexcept;

  /// Progresses it without waiting. `*done` = whether it has finished; if so, the status of the collective is returned.
  Status test(bool* done) noexcept;

  /// Waits for its end. Returns immediately if it is not in progress.
  Status wait() noexcept;

  /// Runs it on these buffers, which it keeps, and waits for its end. As Rank::run() of the same collective, but
  /// without the work that does not depend on the buffers. A buffer must be null if and only if the prepared one was.
  /// Errors: as start(). Cost: no allocation.
  Status run(const void* in, void* out) noexcept;

 private:
  friend class Rank;
  Request(std::shared_ptr<comm::CommunicatorState> state, std::unique_ptr<comm::StartedCollective> started);
  std::shared_ptr<comm::CommunicatorState> state_;
  std::unique_ptr<comm::StartedCollective> started_;
};

/// One rank of a communicator, on which a thread calls collectives. Used by one thread at a time. Every collective
/// returns Status::ok, Status::timed_out (a rank did not arrive in time; the communicator is broken from then on) or
/// Status::broken. Then failure() names the missing rank and the call. The destructor waits for started collectives and
/// detaches: the rank has left, and ranks that wait for it or need it get Status::broken. Collectives that it has taken
/// part in before finish normally.
class Rank {
 public:
  Rank(Rank&&) noexcept;
  Rank& operator=(Rank&&) noexcept;
  ~Rank();

  int rank() const noexcept;
  int size() const noexcept;

  /// No rank leaves before all have entered.
  Status barrier() noexcept;

  /// Sends `bytes` bytes at `data` from `root` to all. All ranks see the broadcasts of a communicator in the same
  /// order. A rank may return before others have received.
  Status broadcast(void* data, std::size_t bytes, int root = 0) noexcept;

  /// result[i] on `root` = in[i] combined over all ranks, i < count. `result` may equal `in`. It is written on the root
  /// only, and may be null on other ranks.
  Status reduce(const void* in, void* result, std::size_t count, const Reduction& op, int root = 0) noexcept;

  /// As reduce, with the bitwise same result on every rank.
  Status allreduce(const void* in, void* result, std::size_t count, const Reduction& op) noexcept;

  /// One round of two-phase commit with rank `root` as coordinator: broadcasts the proposal (`bytes` at `proposal`),
  /// and every rank votes by `vote(proposal, context)`. `*committed` = whether all voted yes, on every rank.
  Status two_phase_commit(void* proposal, std::size_t bytes, bool (*vote)(const void* proposal, void* context),
                          void* context, bool* committed, int root = 0) noexcept;

  /// The other collectives; see smelt/collective.hpp. Sizes of blocks in bytes, of vectors in elements.
  Status scatter(const void* in, void* out, std::size_t block_bytes, int root = 0) noexcept {
    return run(Collective::scatter(in, out, block_bytes, root));
  }
  Status gather(const void* in, void* out, std::size_t block_bytes, int root = 0) noexcept {
    return run(Collective::gather(in, out, block_bytes, root));
  }
  Status allgather(const void* in, void* out, std::size_t block_bytes) noexcept {
    return run(Collective::allgather(in, out, block_bytes));
  }
  Status alltoall(const void* in, void* out, std::size_t block_bytes) noexcept {
    return run(Collective::alltoall(in, out, block_bytes));
  }
  Status reduce_scatter(const void* in, void* out, std::size_t count, const Reduction& op) noexcept {
    return run(Collective::reduce_scatter(in, out, count, op));
  }
  Status scan(const void* in, void* out, std::size_t count, const Reduction& op) noexcept {
    return run(Collective::scan(in, out, count, op));
  }
  Status exscan(const void* in, void* out, std::size_t count, const Reduction& op) noexcept {
    return run(Collective::exscan(in, out, count, op));
  }

  /// Runs any collective: blocking, started (wait() for it later), or prepared (it can be started many times).
  /// Errors: invalid_argument (for a started or prepared one, returned by wait()).
  Status run(const Collective& call) noexcept;
  Request start(const Collective& call);
  Request prepare(const Collective& call);

  /// A communicator of `members`: ranks of this one, in the new rank order, including the caller. Called by exactly the
  /// members, in the same order relative to their other common calls. Subgroups may be nested and overlap. Allocates
  /// and plans: not for the data path.
  Result<Rank> subgroup(std::span<const int> members);

  /// After a rank has left or died (its process was killed, or its thread ended while attached): a communicator of the
  /// survivors, in the same order, with new plans; the calling thread is attached to its rank there. Called by every
  /// survivor; all get the same group. A death during the call breaks the new communicator, which must then be shrunk
  /// again. Allocates and plans. Errors: timed_out if the others have continued without this rank.
  Result<Rank> shrink();

  /// After a status other than ok: one line naming the rank that failed to arrive, the operation,
  /// and how many calls it is behind. Empty before.
  std::string failure() const;

 private:
  friend class Communicator;
  friend struct comm::TunerAccess;
  struct Attached {};
  Rank(std::shared_ptr<comm::CommunicatorState> state, int rank);
  Rank(std::shared_ptr<comm::CommunicatorState> state, int rank, Attached);
  std::shared_ptr<comm::CommunicatorState> state_;
  comm::Endpoint* endpoint_ = nullptr;
};

/// Owner of a communicator. Movable. Attached ranks keep the memory alive. The destructor makes all other ranks leave.
class Communicator {
 public:
  static Result<Communicator> create(const Machine& machine, const Group& group,
                                     const CommunicatorOptions& options = {});

  /// On the measured model of this machine if one is cached, otherwise on its topology with synthetic costs. `ranks`:
  /// 0: one per core that may be used.
  static Result<Communicator> create(int ranks = 0, const CommunicatorOptions& options = {});

  /// Over processes of one user, which all call this with the same name and size. This process brings `ranks`, and
  /// attaches or runs threads for these only. Waits until all ranks have arrived. Memory: a segment in /dev/shm (mode
  /// 0600) whose name is gone when this returns. All processes use the machine, plans and profile of the first one.
  /// Deaths of ranks are detected within a fraction of a second (see Rank::shrink).
  /// Errors: invalid name, size, ranks or permissions; a rank died, or did not arrive in time (options.timeout_s, or 60
  /// s).
  static Result<Communicator> create_shared(const std::string& name, int size, std::span<const int> ranks,
                                            const CommunicatorOptions& options = {});
  /// The same over a descriptor of shared memory (a memfd) that all processes have; it can be closed afterwards.
  static Result<Communicator> create_shared(int fd, int size, std::span<const int> ranks,
                                            const CommunicatorOptions& options = {});

  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  ~Communicator();

  int size() const noexcept;
  const Group& group() const noexcept;
  const Machine& machine() const noexcept;  ///< that it was planned for; Group::pus are its PUs

  /// The plan in use for an operation (steps, trees, prediction).
  const Plan& plan(Operation operation) const noexcept;

  /// What the model predicts for a call on `bytes` bytes (of the vector, or of each block), and the recipe that such a
  /// call with loose synchronization runs; a barrier and a two-phase commit follow plan() and have none. Cost: a first
  /// call of that size, and a simulation. Errors: the model has no costs.
  Result<RankedRecipe> predict(Operation operation, std::size_t bytes) const;

  /// As predict(), but from call to call of a loop, once it is steady; `barriers`: with a barrier after each call. The
  /// program writes its inputs before each call, and takes longer for lines that others have read in the last one.
  /// Where ranks share PUs, the switches between them serve several calls, so that a loop takes less than its calls
  /// alone. Cost: several simulations. Errors: the model has no costs.
  Result<RankedRecipe> predict_loop(Operation operation, std::size_t bytes, bool barriers) const;

  /// Starts one pinned thread per rank, runs f in each and waits for all. The calling thread is rank 0; its affinity is
  /// restored. A rank whose f has returned has left: ranks that still need it get Status::broken. The next run()
  /// attaches all ranks again. If f throws on a rank, the exception ends there, the result names the first one, and the
  /// communicator is broken from then on: collectives of this and of every later run() return Status::broken.
  /// Errors: invalid_argument, without an effect, if a thread is attached to one of the ranks, as within run() itself.
  Result<void> run(const std::function<void(Rank&)>& f);

  /// Attaches the calling thread to rank `rank`. At most one thread can be attached to a rank at a time; ranks can be
  /// attached repeatedly. If this thread ends while the Rank exists, the rank counts as dead: pending and later
  /// collectives of the others return Status::broken, and failure() names it.
  Result<Rank> attach(int rank);

  /// A communicator of some of this one's ranks, in the given order; independent of it.
  Result<Communicator> subset(std::span<const int> ranks) const;

 private:
  friend struct comm::TunerAccess;
  explicit Communicator(std::shared_ptr<comm::CommunicatorState> state);
  /// Marks all ranks of this process as attached, or none.
  Result<void> take_own_ranks();
  /// Attaches the calling thread to a rank that is marked.
  Result<Rank> attach_taken(int rank);
  /// Of ranks that are marked and that no thread has attached to.
  void release(std::span<const int> ranks) noexcept;
  std::shared_ptr<comm::CommunicatorState> state_;
};

}  // namespace smelt
