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

namespace smelt {

struct CommunicatorOptions {
  std::string topology = "best";  ///< a name out of topologies(), for every operation
  std::string barrier;            ///< "tree", "dissemination", "flat"; empty: the model's choice
  double search_ms = 20.0;        ///< planning budget per operation
  /// Profile of the tuner: a file; "none": the model alone; empty: the cached one of this machine (smelt tune), if
  /// there is one, it fits, and `topology` is "best".
  std::string profile;
  /// Communicators of threads: look at creation whether the profile still holds (smelt/tune.hpp), about 0.1 s.
  /// Unset: SMELT_REVALIDATE.
  std::optional<bool> revalidate{};
  double timeout_s = -1.0;        ///< 0: never; negative: SMELT_TIMEOUT
  std::string wait;               ///< spin|yield|sleep|auto; empty: SMELT_WAIT
  bool pin = true;                ///< run() and attach() pin the thread to its rank's PU
  /// Per rank: how much later than the first one it usually enters a collective, ns; empty: all at once. Trees
  /// and recipes are chosen for that. One number per rank of the communicator.
  std::vector<double> late_ns;
  /// Over processes: where the ranks are, one os_index per rank (a PU may repeat), for ranks that are bound
  /// already. Empty: one rank per core that the process that comes first may use.
  std::vector<int> pus;
  /// Over processes: any thread may use the rank, one at a time; the end of a thread is no death, that of the
  /// process alone is.
  bool any_thread = false;
  /// Called by a rank that waits longer than a few microseconds, on its thread, about every 20 us while it spins or
  /// yields and every 200 us while it sleeps: for another library that makes progress only when it is called. Calls no
  /// collective of the same rank.
  void (*idle)(void* context) = nullptr;
  void* idle_context = nullptr;
  std::string algorithm;          ///< a recipe's text (smelt/schedule.hpp) for its operation; empty: the best one
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

/// A collective that has been started, or prepared to be started again and again. Used by the thread of its
/// rank. Collectives of one rank run in the order in which they were started; a blocking one waits for those
/// started before it. Progress is made inside of smelt's calls: test() and wait() of any request of the rank,
/// and blocking collectives. Destroying a started request waits for it.
class Request {
 public:
  Request(Request&&) noexcept;
  Request& operator=(Request&&) noexcept;
  ~Request();

  /// Starts it (again). The buffers belong to smelt until wait() or test() says that it is over.
  /// Errors: invalid_argument while it is still under way; not_supported (operators that demand an order, on elements
  /// too large for the stages). Cost: no allocation.
  Status start() noexcept;

  /// Does what can be done without waiting; `*done` = it is over, and the result of the collective is returned.
  Status test(bool* done) noexcept;

  /// Waits until it is over. Returns at once if it is not under way.
  Status wait() noexcept;

  /// Runs it to its end on these buffers, which it keeps: as Rank::run() of the same collective, but what does not
  /// depend on the buffers was found out before. Null where the prepared buffer was null, and nowhere else.
  /// Errors: as start(). Cost: no allocation.
  Status run(const void* in, void* out) noexcept;

 private:
  friend class Rank;
  Request(std::shared_ptr<comm::CommunicatorState> state, std::unique_ptr<comm::StartedCollective> started);
  std::shared_ptr<comm::CommunicatorState> state_;
  std::unique_ptr<comm::StartedCollective> started_;
};

/// One rank of a communicator: what a thread calls collectives on. Used by one thread at a time.
/// Every collective returns Status::ok, Status::timed_out (a rank did not arrive in time; the
/// communicator is broken from then on) or Status::broken, on which failure() tells who and where.
/// Destroying it gives the rank up, after what was started on it: the rank has left, and others that wait for it then,
/// or call what needs it, get Status::broken. What it has taken part in before is finished by the others as ever.
class Rank {
 public:
  Rank(Rank&&) noexcept;
  Rank& operator=(Rank&&) noexcept;
  ~Rank();

  int rank() const noexcept;
  int size() const noexcept;

  /// No rank leaves before all have entered.
  Status barrier() noexcept;

  /// `bytes` bytes at `data` go from `root` to all. All ranks see all broadcasts of a
  /// communicator in the same order. A rank may leave before others have received.
  Status broadcast(void* data, std::size_t bytes, int root = 0) noexcept;

  /// result[i] on `root` = in[i] combined over all ranks, i < count. `result` may equal `in`;
  /// it is written on the root alone and may be null elsewhere.
  Status reduce(const void* in, void* result, std::size_t count, const Reduction& op, int root = 0) noexcept;

  /// As reduce, with the result on every rank (the same bits).
  Status allreduce(const void* in, void* result, std::size_t count, const Reduction& op) noexcept;

  /// One round of two-phase commit with rank `root` as coordinator: the proposal (`bytes` at
  /// `proposal`) is broadcast, every rank votes by `vote(proposal, context)`, `*committed` = all
  /// voted yes, on every rank.
  Status two_phase_commit(void* proposal, std::size_t bytes, bool (*vote)(const void* proposal, void* context),
                          void* context, bool* committed, int root = 0) noexcept;

  /// The others, as smelt/collective.hpp describes them. Sizes of blocks in bytes, of vectors in elements.
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

  /// Runs any collective: blocking; started, to be waited for later; or prepared to be started many times.
  /// Errors: invalid_argument (a started or prepared one reports it from wait()).
  Status run(const Collective& call) noexcept;
  Request start(const Collective& call);
  Request prepare(const Collective& call);

  /// A communicator of `members` (ranks of this one, in the new rank order, containing the
  /// caller). Called by exactly the members, in the same order with other calls among them; may
  /// be nested and overlap. Allocates and plans: not for the data path.
  Result<Rank> subgroup(std::span<const int> members);

  /// After a rank has left or died (its process was killed, its thread ended while it was a member): a communicator of
  /// the survivors, in the same order, planned anew; the calling thread takes its rank there. Called by every
  /// survivor; all get the same group. Who dies meanwhile breaks the new one: shrink again. Allocates and plans.
  /// Errors: timed_out if this rank came after the others had gone on without it.
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

/// Owner of a communicator. Movable; ranks attached keep the memory alive. With it those that are not attached leave.
class Communicator {
 public:
  static Result<Communicator> create(const Machine& machine, const Group& group,
                                     const CommunicatorOptions& options = {});

  /// On the measured model of this machine if one is cached, else on its discovered topology
  /// with synthetic costs; one rank per core that may be used (`ranks` = 0), or that many.
  static Result<Communicator> create(int ranks = 0, const CommunicatorOptions& options = {});

  /// Over processes of one user: the others call the same with the same name and size. This process brings
  /// `ranks`, and attaches or runs threads for these alone. Waits until all ranks are there. Memory: a segment in
  /// /dev/shm (mode 0600) whose name is gone when this returns. Machine, plans and profile are those of the
  /// process that came first. Ranks that die are noticed within a fraction of a second (see Rank::shrink).
  /// Errors: name, size, ranks, permissions, a rank that died or did not come in time
  /// (options.timeout_s, or 60 s).
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

  /// The plan in use for an operation (steps, trees, prediction).
  const Plan& plan(Operation operation) const noexcept;

  /// Starts one thread per rank, pinned, runs f in each and waits for all. The calling thread
  /// is rank 0 and keeps its affinity afterwards. A rank whose f returns has left: others that still need it are told
  /// Status::broken. All come back by the next run().
  Result<void> run(const std::function<void(Rank&)>& f);

  /// Makes the calling thread rank `rank`. Each rank can be attached once at a time, again and again. If this thread ends while
  /// the Rank is still there, the rank counts as dead: pending and later collectives of the others return
  /// Status::broken, naming it.
  Result<Rank> attach(int rank);

  /// A communicator of some of this one's ranks, in the given order; independent of it.
  Result<Communicator> subset(std::span<const int> ranks) const;

 private:
  friend struct comm::TunerAccess;
  explicit Communicator(std::shared_ptr<comm::CommunicatorState> state);
  std::shared_ptr<comm::CommunicatorState> state_;
};

}  // namespace smelt
